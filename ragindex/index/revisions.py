"""Revision tables (id, revision), whose difference says which passages a part must rebuild or remove."""

import hashlib
import json

import pyarrow as pa
import pyarrow.compute as pc

REVISION_SCHEMA = pa.schema([("id", pa.string()), ("revision", pa.string())])


def revision(*parts: str) -> str:
    """Return a hash of texts: 16 hexadecimal digits."""
    text = json.dumps(parts, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def revision_table(ids: list[str], revisions: list[str]) -> pa.Table:
    """Build a revision table from two lists of equal length."""
    return pa.table([pa.array(ids, pa.string()), pa.array(revisions, pa.string())], schema=REVISION_SCHEMA)


def to_make(current: pa.Table, stored: pa.Table) -> pa.Table:
    """Return the rows of `current` that `stored` lacks or has at another revision, sorted by id."""
    missing = pc.invert(pc.is_in(_build_keys(current), value_set=_build_keys(stored)))
    return current.filter(missing).sort_by("id")


def to_forget(current: pa.Table, stored: pa.Table) -> list[str]:
    """Return the ids of `stored` that are not in `current`, sorted."""
    is_removed = pc.invert(pc.is_in(stored.column("id"), value_set=current.column("id").combine_chunks()))
    return sorted(stored.column("id").filter(is_removed).to_pylist())


def merge_revisions(tables: list[pa.Table]) -> pa.Table:
    """Merge the tables of several inputs into one revision per id; ids that an input lacks are left out."""
    if len(tables) == 1:
        return tables[0]
    columns = [dict(zip(t.column("id").to_pylist(), t.column("revision").to_pylist(), strict=True)) for t in tables]
    common = sorted(set.intersection(*(set(column) for column in columns)))
    return revision_table(common, [revision(*(column[id] for column in columns)) for id in common])


def corpus_fingerprint(revisions: pa.Table) -> str:
    """Return a hash of the whole table that does not depend on the order of its rows."""
    ordered = revisions.sort_by("id")
    text = "\n".join(_build_keys(ordered).to_pylist())
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _build_keys(revisions: pa.Table) -> pa.Array:
    keys = pc.binary_join_element_wise(revisions.column("revision"), revisions.column("id"), " ")
    return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
