"""The search space of one question: neighbours of triples by nearness to the question, their vectors and texts.

Triples are addressed by places, integers that are valid for one question. In memory, places are those of the
triple graph; otherwise the store is queried and places are assigned as triples are met. Both give the same
results.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.filters import All, Filter, Terms
from ragindex.interfaces import Collection, FilterQuery, Floats, VectorQuery
from ragindex.parts.records import Doubles, Integers
from ragindex.parts.triples.sparse_graph import NONE, SparseGraph, places
from ragindex.types import Triple
from ragindex_retrievers.gear.triple_graph import NeighbourGraph, StoreGraph

_BLOCK = 8192
"""Vectors of a hub that are compared at a time."""
DIGITS = 9
"""Decimals of a cosine; the vectors themselves are exact to seven."""
_MARGIN = 1e-4
"""Rounding error of a float32 cosine; candidates for the nearest triples of a hub are chosen within it."""
_FIELDS = ("subject", "predicate", "object", "text", "passage_ids")
_STORED_FIELDS = (*_FIELDS, "entity_keys", "vector")
_EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Record:
    """A triple with its indexed text and the passage that states it."""

    id: str
    triple: Triple
    text: str
    passage_id: str


class Space(Protocol):
    """Protocol of what a beam search needs to know about the triples, for one question."""

    @property
    def question(self) -> Doubles:
        """Return the unit vector of the question, (dimensions,)."""
        ...

    def of_passages(self, passage_ids: Sequence[str]) -> Integers:
        """Return the triples of the passages in passage order; those of one passage are sorted by id."""
        ...

    def of_ids(self, triple_ids: Sequence[str]) -> Integers:
        """Return the triples with these ids in order; unknown ids are skipped."""
        ...

    def around(self, triples: Integers, limit: int) -> list[Integers]:
        """Return for each triple the first `limit` triples that share an entity with it, without itself.

        They are ordered by nearness to the question, then by id. Triples without a vector are
        left out.
        """
        ...

    def vectors(self, triples: Integers) -> Doubles:
        """Return the vectors of the triples, (len(triples), dimensions), of unit length or zero."""
        ...

    def records(self, triples: Sequence[int]) -> list[Record]:
        """Return the records of the triples."""
        ...


def unit(vector: Floats) -> Doubles:
    """Return a question's vector in float64, scaled to unit length; a zero vector stays zero."""
    wide = vector.astype(np.float64)
    length = np.sqrt((wide**2).sum())
    return wide / length if length > 0 else wide


def cosines(vectors: Doubles, question: Doubles) -> Doubles:
    """Return the cosines of unit vectors (n, dimensions) with a unit question vector (dimensions,), shape (n,).

    They are rounded, so that equal texts tie despite rounding errors of the matrix product.
    """
    rounded: Doubles = np.round(vectors @ question, DIGITS)
    return rounded


def _read_record(row: Mapping[str, Any]) -> Record:
    triple = Triple(row["subject"], row["predicate"], row["object"])
    return Record(row["id"], triple, row["text"], row["passage_ids"][0])


# ---------------------------------------------------------------- in memory


@dataclass(frozen=True, slots=True)
class TriplesInMemory:
    """Graph and vectors of all triples in memory. `rows` (n,) is the vector's row of each place."""

    graph: SparseGraph
    vectors: Floats
    rows: npt.NDArray[np.int64]
    collection: Collection


def triples_in_memory(graph: NeighbourGraph, collection: Collection) -> TriplesInMemory | None:
    """Return the triples in memory; None if the graph or the vectors are not in memory."""
    resident = collection.resident()
    if resident is None or not isinstance(graph, SparseGraph):
        return None
    rows = pc.index_in(graph.triples, value_set=resident.ids.cast(pa.large_string())).to_numpy(zero_copy_only=False)
    return TriplesInMemory(graph, resident.vectors, rows.astype(np.int64), collection)


@dataclass(frozen=True, slots=True)
class MemorySpace:
    """Space over triples in memory. `near` caches the nearest triples of each (entity, limit)."""

    stored: TriplesInMemory
    question: Doubles
    near: dict[tuple[int, int], Integers] = field(default_factory=dict)

    def of_passages(self, passage_ids: Sequence[str]) -> Integers:
        """Return the triples of the passages; see `Space.of_passages`."""
        passages = self.stored.graph.passages
        rows = [passages.of(place) for place in places(passages.keys, passage_ids).tolist()]
        return np.concatenate([_EMPTY, *rows])

    def of_ids(self, triple_ids: Sequence[str]) -> Integers:
        """Return the triples with these ids; see `Space.of_ids`."""
        rows = places(self.stored.graph.triples, triple_ids)
        there: Integers = rows[rows != NONE].astype(np.int64, copy=False)
        return there

    def around(self, triples: Integers, limit: int) -> list[Integers]:
        """Return the neighbours of each triple; see `Space.around`.

        Only the `limit` + 1 nearest triples of each entity are considered, since the triple itself may be among
        them.
        """
        sides = self.stored.graph.sides
        return [self._nearest(int(place), sides[place].tolist(), limit) for place in triples]

    def vectors(self, triples: Integers) -> Doubles:
        """Return the vectors of the triples; see `Space.vectors`."""
        return self.stored.vectors[self.stored.rows[triples]].astype(np.float64)

    def records(self, triples: Sequence[int]) -> list[Record]:
        """Return the records of the triples; see `Space.records`."""
        ids = self.stored.graph.ids(np.array(triples, np.int64))
        rows = {row["id"]: row for row in self.stored.collection.get(list(dict.fromkeys(ids)), _FIELDS).to_pylist()}
        return [_read_record(rows[id]) for id in ids]

    def _nearest(self, place: int, sides: Sequence[int], limit: int) -> Integers:
        both = np.unique(np.concatenate([self._of_entity(side, limit + 1) for side in sides]))
        both = both[both != place]
        near: Integers = both[np.lexsort((both, -cosines(self.vectors(both), self.question)))][:limit]
        return near

    def _of_entity(self, entity: int, limit: int) -> Integers:
        """Return the `limit` nearest triples of an entity, possibly with a few others."""
        if (entity, limit) not in self.near:
            members = self.stored.graph.entities.of(entity).astype(np.int64)
            nearest = members if len(members) <= limit else self._cut(members, limit)
            with_vector = self.stored.vectors[self.stored.rows[nearest]].any(axis=1)  # others are found by no search
            self.near[entity, limit] = nearest[with_vector]
        return self.near[entity, limit]

    def _cut(self, members: Integers, limit: int) -> Integers:
        question = self.question.astype(np.float32)
        rows = self.stored.rows[members]
        blocks = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
        rough = np.concatenate([self.stored.vectors[block].astype(np.float32) @ question for block in blocks])
        least = np.partition(rough, len(rough) - limit)[len(rough) - limit]
        cut: Integers = members[rough >= least - _MARGIN]
        return cut


# ---------------------------------------------------------------- from the store


@dataclass(frozen=True, slots=True)
class _StoredTriple:
    """What the store holds of a triple: its record, all its entity keys, and its vector."""

    record: Record
    keys: tuple[str, ...]
    vector: Doubles


@dataclass(frozen=True, slots=True)
class StoreSpace:
    """Space that queries the store; triples must pass the filter `where`.

    Finding neighbours takes one round trip, fetching those not yet met another. `ids` lists the triples met so
    far by place, `known` maps ids to places, and `met` caches what the store holds of each triple.
    """

    graph: NeighbourGraph
    collection: Collection
    question: Doubles
    where: Filter | None = None
    ids: list[str] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    met: dict[str, _StoredTriple] = field(default_factory=dict)

    def of_passages(self, passage_ids: Sequence[str]) -> Integers:
        """Return the triples of the passages; see `Space.of_passages`."""
        everything = max(1, self.collection.count())
        filters = [self._passing(Terms("passage_ids", (id,))) for id in passage_ids]
        results = self.collection.search([FilterQuery(where, everything, _STORED_FIELDS) for where in filters])
        for result in results:
            self._keep(result.records)
        return self._places([id for result in results for id in result.ids])

    def of_ids(self, triple_ids: Sequence[str]) -> Integers:
        """Return the triples with these ids; see `Space.of_ids`."""
        self._meet(triple_ids)
        return self._places([id for id in triple_ids if id in self.met])

    def around(self, triples: Integers, limit: int) -> list[Integers]:
        """Return the neighbours of each triple; see `Space.around`."""
        ids = [self.ids[place] for place in triples]
        joining = self._joining(ids)
        filters = [self._passing(Terms("entity_keys", joining.get(id, ()))) for id in ids]
        question = self.question.astype(np.float32)
        results = self.collection.search([VectorQuery(question, limit + 1, (), where) for where in filters])
        near = [[other for other in result.ids if other != id][:limit] for id, result in zip(ids, results, strict=True)]
        return [self._places(neighbours) for neighbours in near]

    def vectors(self, triples: Integers) -> Doubles:
        """Return the vectors of the triples; see `Space.vectors`."""
        stored = self._of(triples)
        return np.stack([triple.vector for triple in stored]) if stored else np.empty((0, len(self.question)))

    def records(self, triples: Sequence[int]) -> list[Record]:
        """Return the records of the triples; see `Space.records`."""
        return [triple.record for triple in self._of(triples)]

    def _of(self, triples: Iterable[int]) -> list[_StoredTriple]:
        ids = [self.ids[place] for place in triples]
        self._meet(ids)
        return [self.met[id] for id in ids]

    def _meet(self, ids: Iterable[str]) -> None:
        """Fetch all triples not yet met, in one request."""
        missing = [id for id in dict.fromkeys(ids) if id not in self.met]
        if missing:
            self._keep(self.collection.get(missing, _STORED_FIELDS))

    def _keep(self, records: pa.RecordBatch) -> None:
        vectors = records.column("vector").flatten().to_numpy(zero_copy_only=False)
        rows = vectors.reshape(len(records), len(self.question)).astype(np.float64)
        for row, vector in zip(records.drop_columns(["vector"]).to_pylist(), rows, strict=True):
            self.met[row["id"]] = _StoredTriple(_read_record(row), tuple(row["entity_keys"]), vector)

    def _joining(self, ids: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the keys by which triples are joined; triples that were met are not fetched again."""
        if not isinstance(self.graph, StoreGraph):
            return self.graph.joining(ids)
        self._meet(ids)
        return {id: self.graph.joined(self.met[id].keys) for id in ids if id in self.met}

    def _passing(self, terms: Terms) -> Filter:
        return terms if self.where is None else All((terms, self.where))

    def _places(self, ids: Sequence[str]) -> Integers:
        for id in ids:
            if id not in self.known:
                self.known[id] = len(self.ids)
                self.ids.append(id)
        return np.array([self.known[id] for id in ids], np.int64)
