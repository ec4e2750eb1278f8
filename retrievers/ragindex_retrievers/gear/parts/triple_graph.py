"""The graph of triples: two are neighbours when they share an entity."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pydantic import Field

from ragindex.filters import Terms
from ragindex.interfaces import BuildContext, Collection, FilterQuery, Part, ReadContext
from ragindex.llm.rules import is_number
from ragindex.parts.triples import sparse_graph
from ragindex.parts.triples.triples import Triples
from ragindex.plugins.registry import PartField
from ragindex.workspace import versioned_files

_GIB = 1 << 30
_BUILDING = 5
"""What building takes for each byte of ids and keys (measured, rounded up)."""
_STORE = "store"


class NeighbourGraph(Protocol):
    """What TripleGraph opens to. Thread-safe."""

    def neighbours(self, triple_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """For each triple the ids of those that share its subject or object in either role, itself left out.

        Sorted by id, the first `limit`. A triple that is not there has none.
        """
        ...

    def of_entities(self, keys: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """For each key, as `Triples.key` makes it, the ids of the triples with it: sorted, the first `limit`."""
        ...

    def of_passages(self, passage_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """For each passage the ids of its triples: sorted, the first `limit`."""
        ...

    def joining(self, triple_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """By id, the keys of the entities that join a triple with others; only of triples that are there."""
        ...


class TripleGraph(Part[NeighbourGraph]):
    """Neighbours of triples, and the triples of entities and passages (GeAR), over Triples or a part with its fields.

    Sparse rows in files, mapped into memory. Where building them would take more than `memory_gib`, the store is asked
    for each triple instead: the same answers, slower. Without `numbers`, a date, a year, a number or a measure joins no
    triples: two statements that both name 1871 have little to do with each other.
    """

    version: ClassVar[int] = 2
    over: PartField = Field(default=Triples(), description="Triples of the graph.")
    memory_gib: float = Field(
        default=1.0,
        ge=0,
        description="Memory for building the graph, in GiB. Beyond it the store is searched for each triple: "
        "slower, same results.",
    )
    numbers: bool = Field(default=True, description="Let dates, years, numbers and measures join triples.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """The triples."""
        return (self.over,)

    def finish(self, context: BuildContext) -> None:
        """Make the graph anew; the files of the one before stay while somebody reads them."""
        triples = _read(context.inputs[0], self.memory_gib * _GIB)
        if triples is None:
            context.note(f"Neighbours are asked from the store: the graph would not fit in {self.memory_gib:g} GiB.")
        name = _STORE if triples is None else sparse_graph.save_graph(self._graph(triples), context.folder)
        versioned_files.record_versions([name], context, "graphs")

    def open(self, context: ReadContext) -> NeighbourGraph:
        """The graph of the sync that the reader is pinned to."""
        name = versioned_files.current_version(context.collection("graphs"))
        return (
            StoreGraph(context.inputs[0], self.numbers)
            if name == _STORE
            else sparse_graph.load_graph(context.folder / name)
        )

    def _graph(self, triples: pa.Table) -> sparse_graph.SparseGraph:
        if self.numbers:
            return sparse_graph.sparse_graph(triples)
        keys = pa.chunked_array([*triples.column("subject_key").chunks, *triples.column("object_key").chunks])
        joining = [key for key in keys.unique().to_pylist() if not is_number(key)]
        return sparse_graph.sparse_graph(triples, pa.array(joining, pa.string()))


@dataclass(frozen=True, slots=True)
class StoreGraph:
    """The same answers from the collection of triples, one search for each triple or entity."""

    triples: Collection
    numbers: bool = True

    def neighbours(self, triple_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """See Graph."""
        joining = self.joining(triple_ids)
        wanted = [Terms("entity_keys", joining.get(id, ())) for id in triple_ids]
        found = self._search(wanted, None if limit is None else limit + 1)
        return [[other for other in ids if other != id][:limit] for id, ids in zip(triple_ids, found, strict=True)]

    def joining(self, triple_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """See Graph."""
        rows = self.triples.get(list(dict.fromkeys(triple_ids)), ("entity_keys",)).to_pylist()
        return {row["id"]: self.joined(row["entity_keys"]) for row in rows}

    def joined(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Of a triple's keys those by which it is joined with others."""
        return tuple(key for key in keys if self.numbers or not is_number(key))

    def of_entities(self, keys: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """See Graph."""
        return self._search([Terms("entity_keys", self.joined((key,))) for key in keys], limit)

    def of_passages(self, passage_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """See Graph."""
        return self._search([Terms("passage_ids", (id,)) for id in passage_ids], limit)

    def _search(self, wanted: Sequence[Terms], limit: int | None) -> list[list[str]]:
        longest = max(1, self.triples.count()) if limit is None else limit
        return [found.ids for found in self.triples.search([FilterQuery(terms, longest) for terms in wanted])]


def _read(triples: Collection, budget: float) -> pa.Table | None:
    """Ids, keys and passages of all triples; None where a graph of them would take more than `budget` bytes to make."""
    batches, taken = [], 0
    for batch in triples.scan(("subject_key", "object_key", "passage_ids")):
        keys = [batch.column(name).flatten() for name in ("subject_key", "object_key", "passage_ids")]
        batches.append(pa.RecordBatch.from_arrays([batch.column("id"), *keys], names=_COLUMNS.names))
        taken += batches[-1].nbytes
        if taken * _BUILDING > budget:
            return None
    return pa.Table.from_batches(batches, _COLUMNS)


_COLUMNS = pa.schema([(name, pa.string()) for name in ("id", "subject_key", "object_key", "passage_id")])
