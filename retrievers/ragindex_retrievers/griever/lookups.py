"""Cache of recent look-ups: names and partial triples recur in the next iteration and in other questions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import Generic, Literal, TypeAlias, TypeVar

import numpy as np

from ragindex.filters import All, Any, Filter, Ids, Not, Overlaps, Terms, combine_filters
from ragindex.interfaces import Collection, FilterQuery, Floats, SearchResult, VectorQuery
from ragindex.parts.triples.triple_json import from_json
from ragindex.parts.triples.triples import Triples
from ragindex.stores.metered import search_together
from ragindex.types import Triple
from ragindex_retrievers.griever.parts.name_vectors import NameCollections
from ragindex_retrievers.griever.parts.partial_triples import partial_id

CachedValue = TypeVar("CachedValue")


@dataclass(slots=True)
class RecentValues(Generic[CachedValue]):
    """Cache of values by key that holds the `most` added last. Thread-safe."""

    most: int
    values: dict[str, CachedValue] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def split(self, keys: Sequence[str]) -> tuple[dict[str, CachedValue], list[str]]:
        """Return the cached values of these keys, and the other keys in order without duplicates."""
        with self.lock:
            cached = {key: self.values[key] for key in keys if key in self.values}
        return cached, [key for key in dict.fromkeys(keys) if key not in cached]

    def completed(self, cached: Mapping[str, CachedValue], new: Mapping[str, CachedValue]) -> dict[str, CachedValue]:
        """Cache the new values, evict those added first, and return `cached` and `new` together."""
        with self.lock:
            self.values |= new
            for key in list(islice(self.values, max(0, len(self.values) - self.most))):
                del self.values[key]
        return {**cached, **new}


Aliases: TypeAlias = Mapping[str, tuple[str, ...]]
NamePairs: TypeAlias = Sequence[Sequence[str]]
Counted: TypeAlias = Literal["triples", "objects", "passages"]
_MOST_PAIRS = 10_000
"""Maximum number of name pairs per sub-query and iteration."""
_CACHE_SIZE = 10_000
"""Maximum number of cached entries for each of: triples of passages, vectors of names, and counts."""
_FIELDS: Mapping[Counted, str] = {"triples": "frequency", "objects": "objects", "passages": "passage_ids"}


@dataclass(frozen=True, slots=True)
class StatedTriple:
    """Triple that a passage states.

    `number` is its place among the triples of the passage. `subject` and `object` are the keys of its entities.
    `partials` are the ids of its direct and its inverse partial triple.
    """

    passage_id: str
    number: int
    triple: Triple
    subject: str
    object: str
    partials: tuple[str, str]

    @property
    def key(self) -> tuple[str, int]:
        """Return what tells it from every other triple of the corpus."""
        return self.passage_id, self.number

    @property
    def sides(self) -> tuple[tuple[str, bool], tuple[str, bool]]:
        """Return the entity key of each partial triple, and whether that is the inverse one."""
        return (self.subject, False), (self.object, True)

    def other(self, inverse: bool) -> str:
        """Return the entity key that a partial triple lacks."""
        return self.subject if inverse else self.object


@dataclass(frozen=True, slots=True)
class Lookups:
    """Opened parts of the index. Thread-safe. `same_as` is None if it is not used."""

    passages: Collection
    partial_triples: Collection
    names: NameCollections
    same_as: Collection | None
    passage_vectors: Collection
    of: Triples
    by_passage: bool
    entities: RecentValues[Floats] = field(default_factory=lambda: RecentValues(_CACHE_SIZE))
    predicates: RecentValues[Floats] = field(default_factory=lambda: RecentValues(_CACHE_SIZE))
    often: RecentValues[float] = field(default_factory=lambda: RecentValues(_CACHE_SIZE))

    def triples(self, passage_ids: Sequence[str]) -> dict[str, tuple[StatedTriple, ...]]:
        """Return the triples of each passage, in its order."""
        return self.around(passage_ids, [])[0]

    def around(
        self, passage_ids: Sequence[str], contexts: Sequence[Sequence[str]], where: Filter | None = None
    ) -> tuple[dict[str, tuple[StatedTriple, ...]], list[NamePairs]]:
        """Return the triples of the passages, and for each context (passage ids) the pairs of names that hold there.

        With a filter, a pair counts only if all passages where it holds pass `where`: one of its names may be in
        those that do not.
        """
        requests = [(self.passages, [_make_id_query(passage_ids, ("triples",))])]
        if self.same_as is not None and contexts:
            fields = ("aliases", "passage_ids")
            within = [Overlaps("passage_ids", tuple(context)) for context in contexts]
            requests.append((self.same_as, [FilterQuery(each, _MOST_PAIRS, fields) for each in within]))
        together = search_together(requests)
        rows = together[0][0].records.to_pylist()
        triples = {row["id"]: _read_stated(row["id"], row["triples"], self.of, self.by_passage) for row in rows}
        pairs = self._keep_passing(together[1], where) if len(together) > 1 else [[] for _ in contexts]
        return triples, pairs

    def _keep_passing(self, results: Sequence[SearchResult], where: Filter | None) -> list[NamePairs]:
        if where is None:
            return [result.records.column("aliases").to_pylist() for result in results]
        rows = [result.records.select(["aliases", "passage_ids"]).to_pylist() for result in results]
        ids = tuple(sorted({id for each in rows for row in each for id in row["passage_ids"]}))
        (passing,) = self.passages.search([FilterQuery(All((Ids(ids), where)), max(1, len(ids)))])
        known = set(passing.ids)
        return [[row["aliases"] for row in each if known.issuperset(row["passage_ids"])] for each in rows]

    def stored(
        self, names: Sequence[str], predicates: Sequence[str], partials: Sequence[str], of: Counted
    ) -> tuple[Floats, Floats, dict[str, float]]:
        """Return the vectors of entities and predicates, (n, dimensions), and the frequency of each partial triple.

        A name without a record has a zero vector. The frequency (freq in Eq. 1) counts triples, objects or
        passages, as `of` says. Recent look-ups are cached.
        """
        entity, new_names = self.entities.split(names)
        predicate, new_predicates = self.predicates.split(predicates)
        often, new_partials = self.often.split(partials)
        lookups = (
            (self.names.entities, new_names, "vector"),
            (self.names.predicates, new_predicates, "vector"),
            (self.partial_triples, new_partials, _FIELDS[of]),
        )
        together = search_together(
            [(collection, [_make_id_query(ids, (field,))] if ids else []) for collection, ids, field in lookups]
        )
        entity = self.entities.completed(entity, self._by_name(new_names, together[0]))
        predicate = self.predicates.completed(predicate, self._by_name(new_predicates, together[1]))
        counts: dict[str, float] = {}
        for answer in together[2]:
            values = answer.records.column(_FIELDS[of]).to_pylist()
            counts |= zip(answer.ids, values if of == "triples" else map(len, values), strict=True)
        often = self.often.completed(often, counts)
        return self._rows(names, entity), self._rows(predicates, predicate), often

    def _by_name(self, names: Sequence[str], answers: Sequence[SearchResult]) -> dict[str, Floats]:
        return dict(zip(names, _read_vectors(answers[0], names, self._dimensions), strict=True)) if answers else {}

    @property
    def _dimensions(self) -> int:
        return self.names.entities.schema.dimensions or 0

    def _rows(self, keys: Sequence[str], vectors: Mapping[str, Floats]) -> Floats:
        return np.stack([vectors[key] for key in keys]) if keys else np.zeros((0, self._dimensions), np.float32)

    def cosines(self, question: Floats, passage_ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine with the question of each passage that has a vector."""
        if not passage_ids:
            return {}
        (result,) = self.passage_vectors.search([VectorQuery(question, len(passage_ids), (), Ids(tuple(passage_ids)))])
        return dict(zip(result.ids, result.scores.tolist(), strict=True))


@lru_cache(maxsize=_CACHE_SIZE)
def _read_stated(passage_id: str, triples: str, of: Triples, by_passage: bool) -> tuple[StatedTriple, ...]:
    """Parse the triples of a passage's record; cached, since parsing costs more than a search."""
    stated = []
    for number, triple in enumerate(from_json(triples)):
        subject, object, owner = of.key(triple.subject), of.key(triple.object), passage_id if by_passage else None
        partials = (
            partial_id(subject, triple.predicate, False, owner),
            partial_id(object, triple.predicate, True, owner),
        )
        stated.append(StatedTriple(passage_id, number, triple, subject, object, partials))
    return tuple(stated)


def join_filter(entities: Sequence[str], earlier: Sequence[str], where: Filter | None) -> Filter | None:
    """Return a filter for unseen passages that name one of the entities (section 4.2.2) and that pass `where`."""
    holds = Any((Terms("subjects", tuple(entities)), Terms("objects", tuple(entities))))
    return combine_filters(All((Not(Ids(tuple(earlier))), holds)), where)


def aliases_in(pairs: NamePairs, entities: Iterable[str]) -> Aliases:
    """Return for each entity the other names of its pairs, sorted; pairs are never chained."""
    distinct, aliases_of = set(entities), dict[str, list[str]]()
    for first, other in pairs:
        for name, alias in ((first, other), (other, first)):
            if name in distinct:
                aliases_of.setdefault(name, []).append(alias)
    return {name: tuple(sorted(aliases)) for name, aliases in aliases_of.items()}


def _make_id_query(ids: Sequence[str], fields: tuple[str, ...]) -> FilterQuery:
    distinct_ids = tuple(dict.fromkeys(ids))
    return FilterQuery(Ids(distinct_ids), max(1, len(distinct_ids)), fields)


def _read_vectors(result: SearchResult, ids: Sequence[str], dimensions: int) -> Floats:
    rows = {id: row for row, id in enumerate(result.ids)}
    stored = result.records.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(rows), dimensions)
    vectors = np.zeros((len(ids), dimensions), np.float32)
    known = [place for place, id in enumerate(ids) if id in rows]
    if known:
        vectors[known] = stored[[rows[ids[place]] for place in known]]
    return vectors
