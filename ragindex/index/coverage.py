"""The coverage of a part: for each passage, the revision it was built at and the cost. Written after the part's data.

Dependent parts read `outputs`: the revision of the part's own data for each passage. It equals the passage's revision
unless the part shares records between passages. In that case a passage whose records were changed by a neighbour gets
a new output revision, so that dependent parts rebuild it.

Every change is written to the part's journal first and to the collection a few times per sync, so that the cost of
writing a batch does not depend on the number of covered passages. The journal is a file with one JSON line per entry.
`begin` names the passages whose records are about to be written. Until a `cover` or `forget` entry names them too,
their records may be old, new, or a mix of both. The file exists from the start of a sync until readers are pinned to
its result, so it also shows which parts an interrupted sync has changed.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ragindex._util import durable_files
from ragindex.index import revisions
from ragindex.index.manifest import wrap_write_errors
from ragindex.interfaces import Collection, Schema, Store
from ragindex.types import Usage

_FOLDER = "syncing"

Kind = Literal["begin", "cover", "forget", "touch"]


class DamagedJournalError(Exception):
    """Raised if a journal cannot be read. The part's content is then unknown, and the part is rebuilt."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one part. `path` exists only while a sync of the part is unfinished."""

    path: Path

    @classmethod
    def of(cls, folder: Path, key: str) -> "Journal":
        """Return the journal of the part `key` in the index in `folder`."""
        return cls(folder / _FOLDER / f"{key}.jsonl")

    def start(self, in_doubt: Set[str]) -> None:
        """Replace the journal atomically by one in which exactly the passages `in_doubt` are in doubt."""
        entries = [("begin", {"ids": sorted(in_doubt)})] if in_doubt else []
        with self._wrap_write_errors():
            self.path.parent.mkdir(exist_ok=True)
            durable_files.write_file(self.path, b"".join(map(_encode_entry, entries)))

    def append(self, kind: Kind, values: Mapping[str, Any], *, durable: bool) -> None:
        """Append an entry. With `durable`, it is on disk when the call returns, before any later write."""
        with self._wrap_write_errors(), self.path.open("ab") as file:
            file.write(_encode_entry((kind, values)))
            file.flush()
            if durable:
                os.fsync(file.fileno())

    def entries(self) -> Iterator[tuple[Kind, dict[str, Any]]]:
        """Yield all entries in order, except an incomplete one at the end. Raises DamagedJournalError."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines[:-1]:  # an entry without a newline is incomplete
            try:
                kind, values = json.loads(durable_files.verify_line(line) or "")
            except ValueError as error:
                raise DamagedJournalError(f"{self.path}: {error}") from error
            yield kind, values

    def remove(self) -> None:
        """Remove the journal file, after a sync has finished and readers are pinned to its result."""
        with self._wrap_write_errors():
            self.path.unlink(missing_ok=True)

    def _wrap_write_errors(self) -> AbstractContextManager[None]:
        return wrap_write_errors(f"{self.path.name} could not be written in {self.path.parent}")


def unfinished_parts(folder: Path) -> set[str]:
    """Return the keys of the parts that a sync has started to change and not finished."""
    return {path.stem for path in (folder / _FOLDER).glob("*.jsonl")}


def begun_within(folder: Path, seconds: float) -> bool:
    """Return whether an unfinished sync has written to a journal in the last `seconds` seconds."""
    since = time.time() - seconds
    return any(path.stat().st_mtime > since for path in (folder / _FOLDER).glob("*.jsonl"))


def remove_journals(folder: Path, keys: Iterable[str]) -> None:
    """Remove the journals of parts whose new state readers are pinned to."""
    for key in keys:
        Journal.of(folder, key).remove()


def _encode_entry(entry: tuple[str, Mapping[str, Any]]) -> bytes:
    # ASCII, because an id may contain surrogates, which UTF-8 cannot encode.
    return durable_files.hash_line(json.dumps(entry, ensure_ascii=True))


_TOKEN_COLUMNS = ("input_tokens", "output_tokens")
COST_COLUMNS = ("seconds", *_TOKEN_COLUMNS, "money")
_SCHEMA = Schema(stored=("revision", "output"), numbers=COST_COLUMNS)
_UNKNOWN_REVISION = ""
"""The revision of a passage in doubt. No passage has it, so the passage is rebuilt or removed."""
_ESTIMATED = -1.0
"""The sign of estimated tokens."""
_UNKNOWN_MONEY = -1.0
"""The value for an unknown amount of money, because stores do not keep NaN."""
_PENDING = 16_384
_PENDING_SHARE = 0.125
"""The number of pending changes, and their share of the covered passages, above which they are written to the
collection. A write costs a pass over the collection; the share keeps writes rare for collections of any size."""


class _Row(NamedTuple):
    revision: str
    output: str
    seconds: float
    input_tokens: float
    output_tokens: float
    money: float


@dataclass(slots=True)
class PartCoverage:
    """The coverage of one part, for the writer."""

    collection: Collection
    journal: Journal
    shares: bool
    _rows: pa.Table
    _changes: dict[str, _Row | None] = field(default_factory=dict)
    _in_doubt: set[str] = field(default_factory=set)
    _touched: set[str] = field(default_factory=set)
    _places: dict[str, int] | None = None
    _moment: str = field(default_factory=lambda: str(time.time_ns()))

    @classmethod
    def open(cls, store: Store, key: str, journal: Journal, *, shares: bool) -> "PartCoverage":
        """Open the coverage of a part, creating it empty if needed, and apply the journal of an unfinished sync.

        `shares` says whether records of the part can belong to several passages. Raises DamagedJournalError.
        """
        collection = store.create(f"{key}.coverage", _SCHEMA)
        rows = pa.Table.from_batches(collection.scan(_ROW_SCHEMA.names[1:]), _ROW_SCHEMA)
        coverage = cls(collection, journal, shares, rows)
        coverage._take_over()
        return coverage

    @property
    def stored(self) -> pa.Table:
        """The passages that the part may hold, with the revisions they were built at."""
        rows = self._merged().select(revisions.REVISION_SCHEMA.names)
        if not self._in_doubt:
            return rows
        ids = sorted(self._in_doubt)
        known = rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=pa.array(ids, pa.string()))))
        return pa.concat_tables([known, revisions.revision_table(ids, [_UNKNOWN_REVISION] * len(ids))])

    @property
    def outputs(self) -> pa.Table:
        """The covered passages, with the revisions of the part's data for them."""
        return self._merged().select(["id", "output"]).rename_columns(revisions.REVISION_SCHEMA.names)

    def begin(self, ids: Iterable[str]) -> None:
        """Mark passages as in doubt before their data are written, until they are covered or removed."""
        self._in_doubt.update(ids)
        self.journal.append("begin", {"ids": sorted(self._in_doubt)}, durable=True)

    def cover(self, ids: Sequence[str], made_at: Sequence[str], cost: Usage) -> None:
        """Record that the data of a batch are written, and divide its cost equally among the passages."""
        sign, passages = _ESTIMATED if cost.estimated else 1.0, len(ids)
        tokens = sign * cost.input_tokens / passages, sign * cost.output_tokens / passages
        money = _UNKNOWN_MONEY if cost.money is None else cost.money / passages
        share = (cost.seconds / passages, *tokens, money)
        rows = zip(ids, made_at, self._outputs(ids, made_at), strict=True)
        self._change("cover", {id: _Row(revision, output, *share) for id, revision, output in rows})

    def fail(self, ids: Sequence[str]) -> None:
        """Record that passages failed whose records stay, as others share them: the next sync builds them again."""
        self.cover(ids, [_UNKNOWN_REVISION] * len(ids), Usage())

    def forget(self, ids: Sequence[str]) -> None:
        """Record that the data of a batch are removed."""
        self._change("forget", dict.fromkeys(ids))

    def touch(self, ids: Iterable[str]) -> None:
        """Give passages a new output revision because a neighbour changes their records; once per sync is enough."""
        known = self._known(sorted(set(ids) - self._touched))
        if known:
            outputs = self._outputs(list(known), [row.revision for row in known.values()])
            rows = zip(known.values(), outputs, strict=True)
            self._change("touch", dict(zip(known, (row._replace(output=output) for row, output in rows), strict=True)))
            self._touched.update(known)

    def flush(self) -> None:
        """Write all pending changes to the collection, and reset the journal to the passages in doubt."""
        if self._changes:
            removed = [id for id, row in self._changes.items() if row is None]
            if removed:
                self.collection.delete(removed)
            for batch in _build_table(self._changes).to_batches():
                self.collection.upsert(batch)
            self._rows, self._places = self._merged(), None
            self._changes.clear()
        self.journal.start(self._in_doubt)

    def cost(self) -> Usage:
        """Return the total cost of the covered passages, as if the part had been built alone."""
        rows = self._merged()
        sums = {name: pc.sum(pc.abs(rows.column(name))).as_py() or 0.0 for name in COST_COLUMNS}
        tokens = round(sums["input_tokens"]), round(sums["output_tokens"])
        unknown = pc.any(pc.equal(rows.column("money"), _UNKNOWN_MONEY)).as_py()
        estimated = any(pc.any(pc.less(rows.column(name), 0.0)).as_py() for name in _TOKEN_COLUMNS)
        return Usage(sums["seconds"], *tokens, None if unknown else sums["money"], estimated)

    def _take_over(self) -> None:
        for kind, values in self.journal.entries():
            ids = values["ids"]
            if kind == "begin":
                self._in_doubt = set(ids)
            elif kind == "forget":
                self._changes.update(dict.fromkeys(ids))
            else:
                self._changes.update(zip(ids, map(_Row._make, values["rows"]), strict=True))
            if kind in ("cover", "forget"):
                self._in_doubt.difference_update(ids)
        self.flush()

    def _change(self, kind: Kind, rows: Mapping[str, _Row | None]) -> None:
        entry: dict[str, Any] = {"ids": list(rows)}
        if kind != "forget":
            entry["rows"] = list(rows.values())
        # If a change is lost, its passages stay in doubt. A touch is recorded nowhere else, so it must be durable.
        self.journal.append(kind, entry, durable=kind == "touch")
        self._changes.update(rows)
        if kind != "touch":
            self._in_doubt.difference_update(rows)
        if len(self._changes) > max(_PENDING, _PENDING_SHARE * len(self._rows)):
            self.flush()

    def _outputs(self, ids: Sequence[str], made_at: Sequence[str]) -> list[str]:
        """Return the output revisions. A part that shares records gets new ones, as its neighbours may have changed."""
        if not self.shares:
            return list(made_at)
        known = self._known(ids)
        earlier = [known[id].output if id in known else "" for id in ids]
        return [revisions.revision(new, old, self._moment) for new, old in zip(made_at, earlier, strict=True)]

    def _known(self, ids: Iterable[str]) -> dict[str, _Row]:
        """Return the rows of the covered passages among `ids`."""
        pending = {id: self._changes[id] for id in ids if id in self._changes}
        if self._places is None:
            self._rows = self._rows.combine_chunks()  # `take` copies whole columns that have several chunks
            self._places = {id: place for place, id in enumerate(self._rows.column("id").to_pylist())}
        places = {id: self._places[id] for id in ids if id not in pending and id in self._places}
        rows = self._rows.take(pa.array(places.values(), pa.int64()))
        columns = [rows.column(name).to_pylist() for name in _ROW_SCHEMA.names[1:]]
        covered = dict(zip(places, map(_Row, *columns), strict=True))
        return {id: row for id, row in (*pending.items(), *covered.items()) if row is not None}

    def _merged(self) -> pa.Table:
        """Return the rows with the pending changes applied."""
        if not self._changes:
            return self._rows
        changed = pa.array(list(self._changes), pa.string())
        unchanged = self._rows.filter(pc.invert(pc.is_in(self._rows.column("id"), value_set=changed)))
        return pa.concat_tables([unchanged, _build_table(self._changes)])


def _build_table(changes: Mapping[str, _Row | None]) -> pa.Table:
    """Return the changed rows as a table, without removed passages."""
    rows = [(id, *row) for id, row in changes.items() if row is not None]
    columns = zip(*rows, strict=True) if rows else [()] * len(_ROW_SCHEMA)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, _ROW_SCHEMA, strict=True)], schema=_ROW_SCHEMA
    )


_ROW_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("revision", pa.string()),
        ("output", pa.string()),
        *((name, pa.float64()) for name in COST_COLUMNS),
    ]
)
