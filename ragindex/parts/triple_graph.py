"""The graph of triples: two are neighbours when they share an entity."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pydantic import Field

from ragindex.filters import Terms
from ragindex.interfaces import Change, Collection, Part, Schema, Site, Uses, Where
from ragindex.parts import sparse_graph
from ragindex.parts.triples import Triples
from ragindex.plugin import Plugin
from ragindex.registry import PartField

_GIB = 1 << 30
_BUILDING = 5
"""What building takes for each byte of ids and keys (measured, rounded up)."""
_KEEP = 86_400.0  # seconds that readers who were opened before may still need a graph's files
_STORE = "store"
_STATES = Schema(numbers=("replaced",))
"""One record a graph, named like its folder (or `store`): when another took its place, 0 for the one that holds."""


class Graph(Protocol):
    """What TripleGraph opens to. Thread-safe."""

    def neighbours(self, triple_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """For each triple the ids of those that share its subject or object in either role, itself left out.

        Sorted by id, the first `limit`. A triple that is not there has none.
        """
        ...

    def of_entities(self, keys: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """For each key, as `Triples.key` makes it, the ids of the triples with it: sorted, the first `limit`."""
        ...


class TripleGraph(Plugin):
    """Neighbours of triples and of entities (GeAR), over Triples or a part with the same fields.

    Sparse rows in files, mapped into memory. Where building them would take more than `memory_gib`, the store is asked
    for each triple instead: the same answers, slower.
    """

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset()
    over: PartField = Triples()
    memory_gib: float = Field(default=1.0, ge=0)

    def inputs(self) -> tuple[Part[Any], ...]:
        """The triples."""
        return (self.over,)

    def apply(self, change: Change, site: Site) -> None:
        """Nothing: the graph is made whole."""

    def finish(self, site: Site) -> None:
        """Make the graph anew; files of graphs that were replaced a day ago are removed."""
        triples = _read(site.inputs[0], self.memory_gib * _GIB)
        if triples is None:
            site.note(f"Neighbours are asked from the store: the graph would not fit in {self.memory_gib:g} GiB.")
        name = _STORE if triples is None else sparse_graph.save(sparse_graph.sparse_graph(triples), site.folder)
        states = site.collection("graphs", _STATES)
        _put_in_place(name, states, time.time())
        _clean(states, site.folder, time.time() - _KEEP)

    def open(self, site: Site) -> Graph:
        """The graph of the sync that the reader is pinned to."""
        (name,) = [name for name, replaced in _states(site.collection("graphs")).items() if not replaced]
        return StoreGraph(site.inputs[0]) if name == _STORE else sparse_graph.load(site.folder / name)


@dataclass(frozen=True, slots=True)
class StoreGraph:
    """The same answers from the collection of triples, one search for each triple or entity."""

    triples: Collection

    def neighbours(self, triple_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """See Graph."""
        keys = self.triples.get(list(dict.fromkeys(triple_ids)), ("entity_keys",)).to_pylist()
        by_id = {row["id"]: tuple(row["entity_keys"]) for row in keys}
        found = self._search([by_id.get(id, ()) for id in triple_ids], None if limit is None else limit + 1)
        return [[other for other in ids if other != id][:limit] for id, ids in zip(triple_ids, found, strict=True)]

    def of_entities(self, keys: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """See Graph."""
        return self._search([(key,) for key in keys], limit)

    def _search(self, entities: Sequence[tuple[str, ...]], limit: int | None) -> list[list[str]]:
        longest = max(1, self.triples.count()) if limit is None else limit
        requests = [Where(Terms("entity_keys", keys), longest) for keys in entities]
        return [found.ids for found in self.triples.search(requests)]


def _read(triples: Collection, budget: float) -> pa.Table | None:
    """The ids and keys of all triples; None where making a graph of them would take more than `budget` bytes."""
    batches, taken = [], 0
    for batch in triples.scan(("subject_key", "object_key")):
        keys = [batch.column(name).flatten() for name in ("subject_key", "object_key")]
        batches.append(pa.RecordBatch.from_arrays([batch.column("id"), *keys], names=_COLUMNS.names))
        taken += batches[-1].nbytes
        if taken * _BUILDING > budget:
            return None
    return pa.Table.from_batches(batches, _COLUMNS)


_COLUMNS = pa.schema([(name, pa.string()) for name in ("id", "subject_key", "object_key")])


# ---------------------------------------------------------------- files of several finishes


def _states(states: Collection) -> dict[str, float]:
    return {row["id"]: row["replaced"] for batch in states.scan(("replaced",)) for row in batch.to_pylist()}


def _put_in_place(name: str, states: Collection, now: float) -> None:
    """One write, so that readers of any version of the collection see exactly one graph that holds."""
    held = [other for other, replaced in _states(states).items() if not replaced]
    if held != [name]:
        ids = [name, *(other for other in held if other != name)]
        moments = [0.0, *(now for _ in ids[1:])]
        columns = [pa.array(ids, pa.string()), pa.array(moments, pa.float64())]
        states.upsert(pa.RecordBatch.from_arrays(columns, names=["id", "replaced"]))


def _clean(states: Collection, folder: Path, before: float) -> None:
    """Remove graphs replaced `before` a time, and what no record names: a sync that was cut short left it."""
    known = _states(states)
    expired = [name for name, replaced in known.items() if 0 < replaced < before]
    for path in folder.iterdir():
        if path.name in expired or path.name not in known:
            shutil.rmtree(path, ignore_errors=True)
    states.delete(expired)
