"""The triples of the corpus as one question sees them: neighbours by nearness, vectors, texts.

Triples go by places, integers that hold for one question. In memory the places are those of the triple graph; else the
store is asked, and places are given as triples are met. Both give the same answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.filters import All, Filter, Terms
from ragindex.interfaces import Collection, FilterQuery, Floats, VectorQuery
from ragindex.parts.support.arrays import Doubles, Integers
from ragindex.parts.triples.sparse_graph import NONE, AnyIntegers, SparseGraph, places
from ragindex.types import Triple
from ragindex_retrievers.gear.parts.triple_graph import NeighbourGraph, StoreGraph

NeighbourOrder = Literal["nearest", "index"]
_BLOCK = 8192
"""Vectors of a hub looked at together."""
DIGITS = 9
"""Of a cosine: the vectors themselves are exact to seven."""
_MARGIN = 1e-4
"""What float32 may lose of a cosine: the nearest of a hub are chosen within it."""
_FIELDS = ("subject", "predicate", "object", "text", "passage_ids")
_MET = (*_FIELDS, "entity_keys", "vector")
_EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Record:
    """A triple as it is indexed, and the passage that states it."""

    id: str
    triple: Triple
    text: str
    passage_id: str


class Space(Protocol):
    """What a search needs of the triples, for one question."""

    @property
    def question(self) -> Doubles:
        """The question's vector, (dimensions,), of length one."""
        ...

    def of_passages(self, passage_ids: Sequence[str]) -> Integers:
        """The triples of the passages, in their order, each passage's sorted by id."""
        ...

    def of_ids(self, triple_ids: Sequence[str]) -> Integers:
        """The triples with these ids that exist, in their order."""
        ...

    def around(self, triples: Integers, limit: int) -> list[Integers]:
        """For each triple the first `limit` of those that share an entity with it, itself left out.

        By nearness to the question, equally near ones by id; or by id alone. Triples without a vector are left out.
        """
        ...

    def vectors(self, triples: Integers) -> Doubles:
        """(len(triples), dimensions): of length one, or zero."""
        ...

    def records(self, triples: Sequence[int]) -> list[Record]:
        """What the triples say."""
        ...


def unit(vector: Floats) -> Doubles:
    """A question's vector in float64, of length one; a zero vector stays zero."""
    wide = vector.astype(np.float64)
    length = np.sqrt((wide**2).sum())
    return wide / length if length > 0 else wide


def cosines(vectors: Doubles, question: Doubles) -> Doubles:
    """(n, dimensions) and (dimensions,) -> (n,): both of length one.

    Rounded, so that equal texts tie whatever a matrix product did to the last bits.
    """
    rounded: Doubles = np.round(vectors @ question, DIGITS)
    return rounded


def _records(collection: Collection, ids: Sequence[str]) -> list[Record]:
    rows = {row["id"]: row for row in collection.get(list(dict.fromkeys(ids)), _FIELDS).to_pylist()}
    return [_record(rows[id]) for id in ids]


def _record(row: Mapping[str, Any]) -> Record:
    triple = Triple(row["subject"], row["predicate"], row["object"])
    return Record(row["id"], triple, row["text"], row["passage_ids"][0])


# ---------------------------------------------------------------- in memory


@dataclass(frozen=True, slots=True)
class TriplesInMemory:
    """A graph and the vectors of its triples, both in memory: `rows` (n,) is the vector's row of each place."""

    graph: SparseGraph
    vectors: Floats
    rows: npt.NDArray[np.int64]
    collection: Collection
    order: NeighbourOrder

    def space(self, question: Floats) -> "MemorySpace":
        """The triples as a question sees them."""
        return MemorySpace(self, unit(question))


def triples_in_memory(graph: NeighbourGraph, collection: Collection, order: NeighbourOrder) -> TriplesInMemory | None:
    """None where the graph or the vectors are not in memory."""
    resident = collection.resident()
    if resident is None or not isinstance(graph, SparseGraph):
        return None
    rows = pc.index_in(graph.triples, value_set=resident.ids.cast(pa.large_string())).to_numpy(zero_copy_only=False)
    return TriplesInMemory(graph, resident.vectors, rows.astype(np.int64), collection, order)


@dataclass(frozen=True, slots=True)
class MemorySpace:
    """See Space. `near` are the nearest triples of each entity, as far as they were asked for."""

    held: TriplesInMemory
    question: Doubles
    near: dict[tuple[int, int], Integers] = field(default_factory=dict)

    def of_passages(self, passage_ids: Sequence[str]) -> Integers:
        """See Space."""
        passages = self.held.graph.passages
        found = [passages.of(place) for place in places(passages.keys, passage_ids).tolist()]
        return np.concatenate([_EMPTY, *found])

    def of_ids(self, triple_ids: Sequence[str]) -> Integers:
        """See Space."""
        found = places(self.held.graph.triples, triple_ids)
        there: Integers = found[found != NONE].astype(np.int64, copy=False)
        return there

    def around(self, triples: Integers, limit: int) -> list[Integers]:
        """Of an entity's triples only the `limit` + 1 nearest are looked at: itself may be among them."""
        if self.held.order == "index":
            return [self._found(self.held.graph.around(int(place), limit)) for place in triples]
        sides = self.held.graph.sides
        return [self._nearest(int(place), sides[place].tolist(), limit) for place in triples]

    def vectors(self, triples: Integers) -> Doubles:
        """See Space."""
        return self.held.vectors[self.held.rows[triples]].astype(np.float64)

    def records(self, triples: Sequence[int]) -> list[Record]:
        """See Space."""
        return _records(self.held.collection, self.held.graph.ids(np.array(triples, np.int64)))

    def _nearest(self, place: int, sides: Sequence[int], limit: int) -> Integers:
        both = np.unique(np.concatenate([self._of_entity(side, limit + 1) for side in sides]))
        both = both[both != place]
        near: Integers = both[np.lexsort((both, -cosines(self.vectors(both), self.question)))][:limit]
        return near

    def _of_entity(self, entity: int, limit: int) -> Integers:
        """At least the `limit` nearest triples of an entity, among few others."""
        if (entity, limit) not in self.near:
            members = self.held.graph.entities.of(entity).astype(np.int64)
            self.near[entity, limit] = self._found(members if len(members) <= limit else self._cut(members, limit))
        return self.near[entity, limit]

    def _cut(self, members: Integers, limit: int) -> Integers:
        question = self.question.astype(np.float32)
        rows = self.held.rows[members]
        blocks = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
        rough = np.concatenate([self.held.vectors[block].astype(np.float32) @ question for block in blocks])
        least = np.partition(rough, len(rough) - limit)[len(rough) - limit]
        cut: Integers = members[rough >= least - _MARGIN]
        return cut

    def _found(self, triples: AnyIntegers) -> Integers:
        """Those that a search by vector could find."""
        kept: Integers = triples[self.held.vectors[self.held.rows[triples]].any(axis=1)].astype(np.int64)
        return kept


# ---------------------------------------------------------------- from the store


@dataclass(frozen=True, slots=True)
class _Met:
    """What the store holds of a triple: its record, the keys it may be joined by, its vector."""

    record: Record
    keys: tuple[str, ...]
    vector: Doubles


@dataclass(frozen=True, slots=True)
class StoreSpace:
    """See Space. A look at neighbours is one round trip, what is not yet known of them another; `where` must pass.

    `ids` are those met so far, by place; `known` the place of each, `met` what the store holds of it.
    """

    graph: NeighbourGraph
    collection: Collection
    question: Doubles
    order: NeighbourOrder
    where: Filter | None = None
    ids: list[str] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    met: dict[str, _Met] = field(default_factory=dict)

    def of_passages(self, passage_ids: Sequence[str]) -> Integers:
        """See Space."""
        everything = max(1, self.collection.count())
        wanted = [self._passing(Terms("passage_ids", (id,))) for id in passage_ids]
        found = self.collection.search([FilterQuery(where, everything, _MET) for where in wanted])
        for one in found:
            self._keep(one.records)
        return self._places([id for one in found for id in one.ids])

    def of_ids(self, triple_ids: Sequence[str]) -> Integers:
        """See Space."""
        self._meet(triple_ids)
        return self._places([id for id in triple_ids if id in self.met])

    def around(self, triples: Integers, limit: int) -> list[Integers]:
        """See Space."""
        ids = [self.ids[place] for place in triples]
        joining = self._joining(ids)
        wanted = [self._passing(Terms("entity_keys", joining.get(id, ()))) for id in ids]
        found = self.collection.search([self._request(where, limit + 1) for where in wanted])
        near = [[other for other in one.ids if other != id][:limit] for id, one in zip(ids, found, strict=True)]
        if self.order == "index":  # those without a vector come too
            self._meet([id for one in near for id in one])
            near = [[id for id in one if self.met[id].vector.any()] for one in near]
        return [self._places(one) for one in near]

    def vectors(self, triples: Integers) -> Doubles:
        """See Space."""
        found = self._of(triples)
        return np.stack([one.vector for one in found]) if found else np.empty((0, len(self.question)))

    def records(self, triples: Sequence[int]) -> list[Record]:
        """See Space."""
        return [one.record for one in self._of(triples)]

    def _of(self, triples: Iterable[int]) -> list[_Met]:
        ids = [self.ids[place] for place in triples]
        self._meet(ids)
        return [self.met[id] for id in ids]

    def _meet(self, ids: Iterable[str]) -> None:
        """Ask for what is not known, all at once."""
        missing = [id for id in dict.fromkeys(ids) if id not in self.met]
        if missing:
            self._keep(self.collection.get(missing, _MET))

    def _keep(self, found: pa.RecordBatch) -> None:
        vectors = found.column("vector").flatten().to_numpy(zero_copy_only=False)
        rows = vectors.reshape(len(found), len(self.question)).astype(np.float64)
        for row, vector in zip(found.drop_columns(["vector"]).to_pylist(), rows, strict=True):
            self.met[row["id"]] = _Met(_record(row), tuple(row["entity_keys"]), vector)

    def _joining(self, ids: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """The keys by which triples are joined; those that were met need not be asked for again."""
        if not isinstance(self.graph, StoreGraph):
            return self.graph.joining(ids)
        self._meet(ids)
        return {id: self.graph.joined(self.met[id].keys) for id in ids if id in self.met}

    def _request(self, where: Filter, k: int) -> VectorQuery | FilterQuery:
        nearest = VectorQuery(self.question.astype(np.float32), k, (), where)
        return nearest if self.order == "nearest" else FilterQuery(where, k)

    def _passing(self, terms: Terms) -> Filter:
        return terms if self.where is None else All((terms, self.where))

    def _places(self, ids: Sequence[str]) -> Integers:
        for id in ids:
            if id not in self.known:
                self.known[id] = len(self.ids)
                self.ids.append(id)
        return np.array([self.known[id] for id in ids], np.int64)
