"""What a part covers: for each passage the revision it was made at, and what that cost. Written after the data.

What is made from the part reads `outputs`: the revision of what the part holds for each passage. That is the revision
it was made at, unless the part shares records between passages: then a passage whose records a neighbour changed gets
another output, so that what is made from it is made again.

Every change goes to the part's journal first and to the collection a few times a sync: writing a batch costs the same
however many passages are covered.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ragindex.interfaces import Collection, Schema, Store
from ragindex.types import Usage
from ragindex.workspace import revisions
from ragindex.workspace.journal import Journal, Kind

COST_COLUMNS = ("seconds", "input_tokens", "output_tokens", "money")
_SCHEMA = Schema(stored=("revision", "output"), numbers=COST_COLUMNS)
_UNKNOWN = ""
"""The revision of a passage in doubt: no passage has it, so the passage is made again or forgotten."""
_NOT_KNOWN = -1.0
"""Money that is not known; engines keep no NaN."""
_PENDING = 16_384
_PENDING_SHARE = 0.125
"""Changes go to the collection when they are so many, and so large a share of what it holds: a write to an engine
costs a pass over the collection, and there are few of them then, whatever the size."""


class _Row(NamedTuple):
    revision: str
    output: str
    seconds: float
    input_tokens: float
    output_tokens: float
    money: float


@dataclass(slots=True)
class PartCoverage:
    """The coverage of one part, as a writer sees it."""

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
        """Made empty the first time. `shares`: whether the part's records belong to several passages.

        What an unfinished sync left in the journal is taken over. Raises DamagedJournalError.
        """
        collection = store.create(f"{key}.coverage", _SCHEMA)
        rows = pa.Table.from_batches(collection.scan(_ROWS.names[1:]), _ROWS)
        coverage = cls(collection, journal, shares, rows)
        coverage._take_over()
        return coverage

    @property
    def held(self) -> pa.Table:
        """The passages that the part may hold, with the revisions they were made at."""
        rows = self._merged().select(revisions.REVISION_SCHEMA.names)
        if not self._in_doubt:
            return rows
        ids = sorted(self._in_doubt)
        known = rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=pa.array(ids, pa.string()))))
        return pa.concat_tables([known, revisions.revision_table(ids, [_UNKNOWN] * len(ids))])

    @property
    def outputs(self) -> pa.Table:
        """The passages covered, with the revisions of what the part holds for them."""
        return self._merged().select(["id", "output"]).rename_columns(revisions.REVISION_SCHEMA.names)

    def begin(self, ids: Iterable[str]) -> None:
        """A batch is about to be written: until it is covered or forgotten, these passages are in doubt."""
        self._in_doubt.update(ids)
        self.journal.append("begin", {"ids": sorted(self._in_doubt)}, durable=True)

    def cover(self, ids: Sequence[str], made_at: Sequence[str], cost: Usage) -> None:
        """A batch is in the data; each passage bears an equal share of its cost."""
        share = [_number(getattr(cost, name), len(ids)) for name in COST_COLUMNS]
        outputs = self._outputs(ids, made_at)
        rows = zip(made_at, outputs, strict=True)
        self._change("cover", {id: _Row(*row, *share) for id, row in zip(ids, rows, strict=True)})

    def forget(self, ids: Sequence[str]) -> None:
        """A batch is gone from the data."""
        self._change("forget", dict.fromkeys(ids))

    def touch(self, ids: Iterable[str]) -> None:
        """The records of these passages are about to be changed, or were, by a neighbour. Once a sync is enough."""
        held = self._known(sorted(set(ids) - self._touched))
        if held:
            outputs = self._outputs(list(held), [row.revision for row in held.values()])
            rows = zip(held.values(), outputs, strict=True)
            self._change("touch", dict(zip(held, (row._replace(output=output) for row, output in rows), strict=True)))
            self._touched.update(held)

    def flush(self) -> None:
        """Bring the collection up to the journal, which then holds what is in doubt and nothing else."""
        if self._changes:
            gone = [id for id, row in self._changes.items() if row is None]
            if gone:
                self.collection.delete(gone)
            for batch in _table(self._changes).to_batches():
                self.collection.upsert(batch)
            self._rows, self._places = self._merged(), None
            self._changes.clear()
        self.journal.start(self._in_doubt)

    def cost(self) -> Usage:
        """The sum over the passages covered now: what the part would have cost if built alone."""
        rows = self._merged()
        sums = {name: pc.sum(rows.column(name)).as_py() or 0.0 for name in COST_COLUMNS}
        tokens = round(sums["input_tokens"]), round(sums["output_tokens"])
        unknown = pc.any(pc.equal(rows.column("money"), _NOT_KNOWN)).as_py()
        return Usage(sums["seconds"], *tokens, None if unknown else sums["money"])

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
        # A change that is lost leaves its passages in doubt; but what was touched is known from the entry alone.
        self.journal.append(kind, entry, durable=kind == "touch")
        self._changes.update(rows)
        if kind != "touch":
            self._in_doubt.difference_update(rows)
        if len(self._changes) > max(_PENDING, _PENDING_SHARE * len(self._rows)):
            self.flush()

    def _outputs(self, ids: Sequence[str], made_at: Sequence[str]) -> list[str]:
        """A sharing part never comes back to an earlier output: its neighbours may have moved meanwhile."""
        if not self.shares:
            return list(made_at)
        known = self._known(ids)
        earlier = [known[id].output if id in known else "" for id in ids]
        return [revisions.revision(new, old, self._moment) for new, old in zip(made_at, earlier, strict=True)]

    def _known(self, ids: Iterable[str]) -> dict[str, _Row]:
        """The rows of those of `ids` that are covered."""
        found = {id: self._changes[id] for id in ids if id in self._changes}
        if self._places is None:
            self._rows = self._rows.combine_chunks()  # `take` copies whole columns where they have several chunks
            self._places = {id: place for place, id in enumerate(self._rows.column("id").to_pylist())}
        places = {id: self._places[id] for id in ids if id not in found and id in self._places}
        taken = self._rows.take(pa.array(places.values(), pa.int64()))
        columns = [taken.column(name).to_pylist() for name in _ROWS.names[1:]]
        held = dict(zip(places, map(_Row, *columns), strict=True))
        return {id: row for id, row in (*found.items(), *held.items()) if row is not None}

    def _merged(self) -> pa.Table:
        """The rows with the changes in them."""
        if not self._changes:
            return self._rows
        changed = pa.array(list(self._changes), pa.string())
        kept = self._rows.filter(pc.invert(pc.is_in(self._rows.column("id"), value_set=changed)))
        return pa.concat_tables([kept, _table(self._changes)])


def _number(cost: float | None, passages: int) -> float:
    return _NOT_KNOWN if cost is None else cost / passages


def _table(changes: Mapping[str, _Row | None]) -> pa.Table:
    """The rows that are not forgotten."""
    rows = [(id, *row) for id, row in changes.items() if row is not None]
    columns = zip(*rows, strict=True) if rows else [()] * len(_ROWS)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, _ROWS, strict=True)], schema=_ROWS)


_ROWS = pa.schema(
    [
        ("id", pa.string()),
        ("revision", pa.string()),
        ("output", pa.string()),
        *((name, pa.float64()) for name in COST_COLUMNS),
    ]
)
