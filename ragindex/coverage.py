"""What a part covers: for each passage the revision it was made at, and what that cost. Written after the data.

What is made from the part reads `outputs`: the revision of what the part holds for each passage. That is the revision
it was made at, unless the part shares records between passages: then a passage whose records a neighbour changed gets
another output, so that what is made from it is made again.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ragindex import revisions
from ragindex.interfaces import Collection, Schema, Store
from ragindex.types import Usage

COSTS = ("seconds", "input_tokens", "output_tokens", "money")
_SCHEMA = Schema(stored=("revision", "output"), numbers=COSTS)


@dataclass(slots=True)
class Coverage:
    """The coverage of one part, as a writer sees it."""

    collection: Collection
    shares: bool
    _rows: pa.Table
    _covered: dict[str, tuple[str, str]] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)
    _earlier: dict[str, str] | None = None

    @classmethod
    def open(cls, store: Store, key: str, *, shares: bool) -> "Coverage":
        """Made empty the first time. `shares`: whether the part's records belong to several passages."""
        collection = store.create(f"{key}.coverage", _SCHEMA)
        rows = pa.Table.from_batches(collection.scan(("revision", "output")), _ROWS)
        return cls(collection, shares, rows)

    @property
    def held(self) -> pa.Table:
        """The passages covered, with the revisions they were made at."""
        return self._settled().select(["id", "revision"])

    @property
    def outputs(self) -> pa.Table:
        """The passages covered, with the revisions of what the part holds for them."""
        return self._settled().select(["id", "output"]).rename_columns(["id", "revision"])

    def cover(self, ids: Sequence[str], made_at: Sequence[str], cost: Usage) -> None:
        """A batch is in the data; each passage bears an equal share of its cost."""
        outputs = self._outputs(ids, made_at)
        shares = [pa.array([_number(getattr(cost, name)) / len(ids)] * len(ids), pa.float64()) for name in COSTS]
        columns = [pa.array(values, pa.string()) for values in (ids, made_at, outputs)]
        self.collection.upsert(pa.RecordBatch.from_arrays([*columns, *shares], names=[*_ROWS.names, *COSTS]))
        self._covered.update(zip(ids, zip(made_at, outputs, strict=True), strict=True))

    def forget(self, ids: Sequence[str]) -> None:
        """A batch is gone from the data."""
        self.collection.delete(ids)
        gone = pc.is_in(self._settled().column("id"), value_set=pa.array(ids, pa.string()))
        self._rows = self._rows.filter(pc.invert(gone))

    def touch(self, ids: Iterable[str]) -> None:
        """The records of these passages are about to be changed, or were, by a neighbour. Once a sync is enough."""
        new = pa.array(sorted(set(ids) - self._touched), pa.string())
        if not len(new):
            return
        rows = self._settled()
        found = rows.filter(pc.is_in(rows.column("id"), value_set=new))
        if not len(found):
            return
        records = self.collection.get(found.column("id").to_pylist(), COSTS)
        by_id = {row["id"]: row for row in found.to_pylist()}
        names = records.column("id").to_pylist()
        made_at = [by_id[id]["revision"] for id in names]
        outputs = self._outputs(names, made_at)
        columns = [records.column("id"), pa.array(made_at, pa.string()), pa.array(outputs, pa.string())]
        costs = [records.column(name) for name in COSTS]
        self.collection.upsert(pa.RecordBatch.from_arrays([*columns, *costs], names=[*_ROWS.names, *COSTS]))
        self._covered.update(zip(names, zip(made_at, outputs, strict=True), strict=True))
        self._touched.update(names)

    def cost(self) -> Usage:
        """The sum over the passages covered now: what the part would have cost if built alone."""
        sums = dict.fromkeys(COSTS, 0.0)
        for batch in self.collection.scan(COSTS):
            for name in COSTS:
                sums[name] += pc.sum(batch.column(name)).as_py() or 0.0
        tokens = round(sums["input_tokens"]), round(sums["output_tokens"])
        return Usage(sums["seconds"], *tokens, None if math.isnan(sums["money"]) else sums["money"])

    def _outputs(self, ids: Sequence[str], made_at: Sequence[str]) -> list[str]:
        """A sharing part never comes back to an earlier output: its neighbours may have moved meanwhile."""
        if not self.shares:
            return list(made_at)
        if self._earlier is None:
            rows = self._settled()
            self._earlier = dict(zip(rows.column("id").to_pylist(), rows.column("output").to_pylist(), strict=True))
        moment = str(self.collection.version)  # tells a passage forgotten and made again from one never forgotten
        for id, revision in zip(ids, made_at, strict=True):
            self._earlier[id] = revisions.revision(revision, self._earlier.get(id, ""), moment)
        return [self._earlier[id] for id in ids]

    def _settled(self) -> pa.Table:
        if self._covered:
            ids = pa.array(list(self._covered), pa.string())
            kept = self._rows.filter(pc.invert(pc.is_in(self._rows.column("id"), value_set=ids)))
            made_at, outputs = (pa.array([pair[n] for pair in self._covered.values()], pa.string()) for n in (0, 1))
            self._rows = pa.concat_tables([kept, pa.table([ids, made_at, outputs], schema=_ROWS)])
            self._covered.clear()
        return self._rows


def _number(cost: float | None) -> float:
    """NaN for money that is not known: a sum that it is part of is none either."""
    return math.nan if cost is None else cost


_ROWS = pa.schema([("id", pa.string()), ("revision", pa.string()), ("output", pa.string())])
