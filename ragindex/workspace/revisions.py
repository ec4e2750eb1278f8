"""Which passages a part must make again, and which it must forget: the difference of two tables (id, revision)."""

import hashlib
import json

import pyarrow as pa
import pyarrow.compute as pc

REVISION_SCHEMA = pa.schema([("id", pa.string()), ("revision", pa.string())])


def revision(*parts: str) -> str:
    """A hash of texts: 16 hexadecimal digits."""
    text = json.dumps(parts, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def revision_table(ids: list[str], revisions: list[str]) -> pa.Table:
    """A revision table of two equally long lists."""
    return pa.table([pa.array(ids, pa.string()), pa.array(revisions, pa.string())], schema=REVISION_SCHEMA)


def to_make(wanted: pa.Table, held: pa.Table) -> pa.Table:
    """The rows of `wanted` that are not in `held` with the same revision, by id."""
    missing = pc.invert(pc.is_in(_keys(wanted), value_set=_keys(held)))
    return wanted.filter(missing).sort_by("id")


def to_forget(wanted: pa.Table, held: pa.Table) -> list[str]:
    """The ids of `held` that are not in `wanted`, sorted."""
    gone = pc.invert(pc.is_in(held.column("id"), value_set=wanted.column("id").combine_chunks()))
    return sorted(held.column("id").filter(gone).to_pylist())


def merge_revisions(tables: list[pa.Table]) -> pa.Table:
    """One revision an id over several inputs; ids that an input lacks are left out."""
    if len(tables) == 1:
        return tables[0]
    columns = [dict(zip(t.column("id").to_pylist(), t.column("revision").to_pylist(), strict=True)) for t in tables]
    common = sorted(set.intersection(*(set(column) for column in columns)))
    return revision_table(common, [revision(*(column[id] for column in columns)) for id in common])


def corpus_fingerprint(revisions: pa.Table) -> str:
    """A hash of the whole table, whatever the order of its rows."""
    ordered = revisions.sort_by("id")
    text = "\n".join(_keys(ordered).to_pylist())
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _keys(revisions: pa.Table) -> pa.Array:
    keys = pc.binary_join_element_wise(revisions.column("revision"), revisions.column("id"), " ")
    return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
