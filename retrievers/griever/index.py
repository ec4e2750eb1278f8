"""What GRIEVER looks up: passages with their triples, partial triples, aliases, and the vectors of names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from ragindex.filters import All, Any, Filter, Ids, Not, Terms, both
from ragindex.hits import looked_up
from ragindex.interfaces import Collection, Floats, Nearest, Where
from ragindex.parts.extracted import from_json
from ragindex.parts.name_vectors import Names
from ragindex.parts.partial_triples import partial_id
from ragindex.parts.triples import Triples, triple_id
from ragindex.types import Triple

Aliases: TypeAlias = Mapping[str, tuple[str, ...]]
Counted: TypeAlias = Literal["triples", "objects", "passages"]
_MOST_PAIRS = 1_000
"""Pairs of names that are looked at in an iteration of a sub-query."""
_KEPT = 10_000
"""Passages whose triples stay in memory once they were read."""
_FIELDS: Mapping[Counted, str] = {"triples": "frequency", "objects": "objects", "passages": "passage_ids"}


@dataclass(frozen=True, slots=True)
class Stated:
    """A triple of a passage: its `number` among those of the passage, the keys of its entities, and the ids of its two
    partial triples, the direct and the inverse one.
    """

    passage_id: str
    number: int
    triple: Triple
    subject: str
    object: str
    partials: tuple[str, str]

    @property
    def sides(self) -> tuple[tuple[str, bool], tuple[str, bool]]:
        """The entity of each partial triple, and whether that is inverse."""
        return (self.subject, False), (self.object, True)

    def other(self, inverse: bool) -> str:
        """The entity that a partial triple lacks."""
        return self.subject if inverse else self.object


@dataclass(frozen=True, slots=True)
class Index:
    """The opened parts; thread-safe. `same_as` and `triple_vectors` are None where they are not wanted."""

    passages: Collection
    partial_triples: Collection
    names: Names
    same_as: Collection | None
    triple_vectors: Collection | None
    passage_vectors: Collection
    of: Triples
    by_passage: bool

    def triples(self, passage_ids: Sequence[str]) -> dict[str, tuple[Stated, ...]]:
        """The triples of each passage, in its order."""
        rows = looked_up(self.passages, passage_ids, ("triples",)).to_pylist()
        return {row["id"]: _stated(row["id"], row["triples"], self.of, self.by_passage) for row in rows}

    def aliases(self, wanted: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Aliases]:
        """For each (entities, passages): the aliases of the entities in the sense that these passages have them."""
        if self.same_as is None:
            return [{} for _ in wanted]
        found = self.same_as.search([_sense(*one) for one in wanted])
        pairs = [answer.records.column("aliases").to_pylist() for answer in found]
        return [_by_entity(each, set(one[0])) for each, one in zip(pairs, wanted, strict=True)]

    def frequencies(self, ids: Sequence[str], of: Counted) -> dict[str, float]:
        """How many triples, `objects` or `passages` have each partial triple: freq in Eq. 1."""
        records = looked_up(self.partial_triples, ids, (_FIELDS[of],))
        values = records.column(_FIELDS[of]).to_pylist()
        counted = values if of == "triples" else [len(value) for value in values]
        return dict(zip(records.column("id").to_pylist(), counted, strict=True))

    def entity_vectors(self, keys: Sequence[str]) -> Floats:
        """(len(keys), dimensions), as stored; zero for one that is not there."""
        return _vectors(self.names.entities, keys)

    def cosines(self, question: Floats, passage_ids: Sequence[str]) -> dict[str, float]:
        """Of each passage with a vector, the cosine with the question."""
        if not passage_ids:
            return {}
        (found,) = self.passage_vectors.search([Nearest(question, len(passage_ids), (), Ids(tuple(passage_ids)))])
        return dict(zip(found.ids, found.scores.tolist(), strict=True))

    def vectors_of(self, triples: Sequence[Stated]) -> Floats:
        """(len(triples), dimensions), as stored."""
        if self.triple_vectors is None:
            return np.zeros((len(triples), 0), np.float32)
        return _vectors(self.triple_vectors, [triple_id(one.passage_id, one.number) for one in triples])

    def predicate_vectors(self, predicates: Sequence[str]) -> Floats:
        """As `entity_vectors`."""
        return _vectors(self.names.predicates, predicates)


@lru_cache(maxsize=_KEPT)
def _stated(passage_id: str, triples: str, of: Triples, by_passage: bool) -> tuple[Stated, ...]:
    """The triples of a passage as its record has them; reading them is dearer than a search."""
    found = []
    for number, one in enumerate(from_json(triples)):
        subject, object, owner = of.key(one.subject), of.key(one.object), passage_id if by_passage else None
        partials = (
            partial_id(subject, one.predicate, False, owner),
            partial_id(object, one.predicate, True, owner),
        )
        found.append(Stated(passage_id, number, one, subject, object, partials))
    return tuple(found)


def joined(entities: Sequence[str], seen: Sequence[str], where: Filter | None) -> Filter | None:
    """Passages with one of the entities that were not yet `seen` (section 4.2.2), and that pass `where`."""
    holds = Any((Terms("subjects", tuple(entities)), Terms("objects", tuple(entities))))
    return both(All((Not(Ids(tuple(seen))), holds)), where)


def _sense(entities: Sequence[str], passage_ids: Sequence[str]) -> Where:
    named = Terms("aliases", tuple(entities))
    return Where(All((named, Terms("passage_ids", tuple(passage_ids)))), _MOST_PAIRS, ("aliases",))


def _by_entity(pairs: Sequence[Sequence[str]], entities: set[str]) -> Aliases:
    found: dict[str, list[str]] = {}
    for one, other in pairs:
        for name, alias in ((one, other), (other, one)):
            if name in entities:
                found.setdefault(name, []).append(alias)
    return {name: tuple(sorted(aliases)) for name, aliases in found.items()}


def _vectors(collection: Collection, ids: Sequence[str]) -> Floats:
    records = looked_up(collection, ids, ("vector",))
    rows = {id: row for row, id in enumerate(records.column("id").to_pylist())}
    vectors = np.zeros((len(ids), collection.schema.dimensions or 0), np.float32)
    held = records.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(rows), vectors.shape[1])
    known = [place for place, id in enumerate(ids) if id in rows]
    if known:
        vectors[known] = held[[rows[ids[place]] for place in known]]
    return vectors
