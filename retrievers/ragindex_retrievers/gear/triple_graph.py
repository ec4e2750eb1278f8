"""The graph of triples, in which two triples that share an entity are neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pydantic import Field

from ragindex.english import is_number
from ragindex.filters import Terms
from ragindex.index import versioned_files
from ragindex.interfaces import BuildContext, Collection, FilterQuery, Part, ReadContext, SearchKind
from ragindex.parts.triples import sparse_graph
from ragindex.parts.triples.triples import Triples
from ragindex.plugins.registry import PartField

_GIB = 1 << 30
_BUILD_FACTOR = 5
"""Bytes of memory that building takes per byte of ids and keys (measured, rounded up)."""
_STORE = "store"


class NeighbourGraph(Protocol):
    """Protocol of an opened TripleGraph. Thread-safe."""

    def neighbours(self, triple_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """Return for each triple the ids of the other triples that share its subject or object, in either role.

        Ids are sorted and cut to the first `limit`. An unknown triple has no neighbours.
        """
        ...

    def of_entities(self, keys: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """Return for each entity key (`Triples.key`) the ids of the triples with it, sorted, the first `limit`."""
        ...

    def of_passages(self, passage_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """Return for each passage the ids of its triples, sorted, the first `limit`."""
        ...

    def joining(self, triple_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return by triple id the keys of the entities that join it with others; unknown triples are left out."""
        ...


class TripleGraph(Part[NeighbourGraph]):
    """Graph of neighbouring triples (GeAR), over Triples or a part with the same fields.

    It also finds the triples of entities and passages. It is stored as sparse rows in memory-mapped files. If
    building it would take more than `memory_gib`, the store is queried for each triple instead: the results are
    the same, but slower. Without `numbers`, dates, years, numbers and measures join no triples: two statements
    that both mention 1871 have little to do with each other.
    """

    version: ClassVar[int] = 2
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
    over: PartField = Field(default=Triples(), description="Triples of the graph.")
    memory_gib: float = Field(
        default=1.0,
        ge=0,
        description="Memory for building the graph, in GiB. Beyond it the store is searched for each triple: "
        "slower, same results.",
    )
    numbers: bool = Field(default=True, description="Let dates, years, numbers and measures join triples.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the triples."""
        return (self.over,)

    def finish(self, context: BuildContext) -> None:
        """Build the graph anew. The files of the previous version stay while a reader uses them."""
        triples = _read_triples(context.inputs[0], self.memory_gib * _GIB)
        if triples is None:
            context.note(f"Neighbours are asked from the store: the graph would not fit in {self.memory_gib:g} GiB.")
        name = _STORE if triples is None else sparse_graph.save_graph(self._graph(triples), context.folder)
        versioned_files.record_versions([name], context, "graphs")

    def open(self, context: ReadContext) -> NeighbourGraph:
        """Return the graph of the sync that the reader is pinned to."""
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
    """NeighbourGraph that queries the collection of triples, with one search per triple or entity."""

    triples: Collection
    numbers: bool = True

    def neighbours(self, triple_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """Return the ids of the neighbours of each triple; see `NeighbourGraph.neighbours`."""
        joining = self.joining(triple_ids)
        filters = [Terms("entity_keys", joining.get(id, ())) for id in triple_ids]
        id_lists = self._search(filters, None if limit is None else limit + 1)
        return [[other for other in ids if other != id][:limit] for id, ids in zip(triple_ids, id_lists, strict=True)]

    def joining(self, triple_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the joining entity keys by triple id; see `NeighbourGraph.joining`."""
        rows = self.triples.get(list(dict.fromkeys(triple_ids)), ("entity_keys",)).to_pylist()
        return {row["id"]: self.joined(row["entity_keys"]) for row in rows}

    def joined(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return those entity keys of a triple that may join it with others."""
        return tuple(key for key in keys if self.numbers or not is_number(key))

    def of_entities(self, keys: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """Return the ids of the triples with each entity key; see `NeighbourGraph.of_entities`."""
        return self._search([Terms("entity_keys", self.joined((key,))) for key in keys], limit)

    def of_passages(self, passage_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """Return the ids of the triples of each passage; see `NeighbourGraph.of_passages`."""
        return self._search([Terms("passage_ids", (id,)) for id in passage_ids], limit)

    def _search(self, filters: Sequence[Terms], limit: int | None) -> list[list[str]]:
        longest = max(1, self.triples.count()) if limit is None else limit
        return [result.ids for result in self.triples.search([FilterQuery(terms, longest) for terms in filters])]


def _read_triples(triples: Collection, budget: float) -> pa.Table | None:
    """Return ids, keys and passages of all triples; None if building their graph would exceed `budget` bytes."""
    batches, size = [], 0
    for batch in triples.scan(("subject_key", "object_key", "passage_ids")):
        keys = [batch.column(name).flatten() for name in ("subject_key", "object_key", "passage_ids")]
        batches.append(pa.RecordBatch.from_arrays([batch.column("id"), *keys], names=_COLUMNS.names))
        size += batches[-1].nbytes
        if size * _BUILD_FACTOR > budget:
            return None
    return pa.Table.from_batches(batches, _COLUMNS)


_COLUMNS = pa.schema([(name, pa.string()) for name in ("id", "subject_key", "object_key", "passage_id")])
