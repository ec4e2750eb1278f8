"""State of a search: paths of triples, the ranking over them, and the shortlist of triples.

Sections 4.2.4 and 4.4 of GRIEVER, and Algorithm 2, repaired as in reading V4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ragindex.filters import Filter, Ids
from ragindex.interfaces import Collection, Floats, TextQuery, VectorQuery
from ragindex.parts.records import Doubles
from ragindex.parts.triples.triples import triple_id
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.stores.metered import search_together
from ragindex.types import Hit, Triple
from ragindex_retrievers.griever.lookups import Aliases, Lookups, StatedTriple, aliases_in
from ragindex_retrievers.griever.matching import Ngrams, ScoredTriple

MOST = 5_000
"""Maximum number of paths per sub-query, best scores first; many joins over three iterations give millions."""


@dataclass(slots=True)
class Joins:
    """Shared entities between triples, where one side may match by an alias.

    Entities and aliases are numbered; `between` multiplies 0/1 matrices.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    entities: list[list[int]] = field(default_factory=list)
    named: list[list[int]] = field(default_factory=list)

    def add(self, sides: Sequence[tuple[str, str]], aliases: Aliases) -> None:
        """Add triples by their entity pairs, with the aliases that hold now."""
        for pair in sides:
            self.entities.append([self._number(entity) for entity in pair])
            self.named.append([self._number(name) for entity in pair for name in (entity, *aliases.get(entity, ()))])

    def between(self, several: Sequence[Sequence[int]], first: int) -> npt.NDArray[np.bool_]:
        """Return whether each triple from place `first` on shares an entity with each group, (groups, triples)."""
        entities, named = (
            [[number for place in group for number in of[place]] for group in several]
            for of in (self.entities, self.named)
        )
        others = self._indicate(self.entities[first:]), self._indicate(self.named[first:])
        near = self._indicate(named) @ others[0].T + self._indicate(entities) @ others[1].T
        shared: npt.NDArray[np.bool_] = near > 0
        return shared

    def _number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def _indicate(self, groups: Sequence[Sequence[int]]) -> Floats:
        """Return 1 where a group has a number, else 0, (groups, numbers)."""
        indicators = np.zeros((len(groups), len(self.numbers)), np.float32)
        rows = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        indicators[rows, np.array([number for group in groups for number in group], np.int64)] = 1
        return indicators


@dataclass(frozen=True, slots=True)
class PathTable:
    """Paths with their scores: `places[i]` are the triples of path i in the order in which they were added.

    The score of a path is the mean of its triples' scores; `sums` has their sums.
    """

    places: list[tuple[int, ...]]
    sums: Doubles
    scores: Doubles

    def taken(self, numbers: Sequence[int]) -> "PathTable":
        """Return the paths with these numbers."""
        return PathTable([self.places[number] for number in numbers], self.sums[numbers], self.scores[numbers])


@dataclass(slots=True)
class Subgraph:
    """Triples shortlisted so far, and the paths of at most `longest` of them.

    Without `keep_prefixes`, a path that was extended no longer counts by itself (V9).
    """

    longest: int
    keep_prefixes: bool = True
    triples: list[ScoredTriple] = field(default_factory=list)
    facts: list[tuple[str, str, str]] = field(default_factory=list)
    joins: Joins = field(default_factory=Joins)
    paths: PathTable | None = None

    def extend(self, triples: Sequence[ScoredTriple], aliases: Aliases) -> None:
        """Add triples: each opens a path, and extends the earlier paths that it shares an entity with.

        A path never takes up a fact that it has already, though another passage states it too.
        """
        first = len(self.triples)
        self.triples += triples
        self.facts += [
            (triple.stated.subject, triple.stated.triple.predicate, triple.stated.object) for triple in triples
        ]
        self.joins.add([(triple.stated.subject, triple.stated.object) for triple in triples], aliases)
        worth = np.array([triple.score for triple in triples], np.float64)
        opened = _make_paths([(place,) for place in range(first, len(self.triples))], worth)
        if self.paths is None:
            self.paths = _keep_best(opened)
            return
        grown, extended = self._grown(self.paths, first, worth)
        counting = [n for n in range(len(self.paths.places)) if self.keep_prefixes or n not in extended]
        several = (self.paths.taken(counting), opened, grown)
        sums, scores = (np.concatenate([getattr(paths, name) for paths in several]) for name in ("sums", "scores"))
        self.paths = _keep_best(PathTable([each for paths in several for each in paths.places], sums, scores))

    def _grown(self, paths: PathTable, first: int, worth: Doubles) -> tuple[PathTable, set[int]]:
        """Return the paths extended by one triple from place `first` on, and the numbers of those that they extend."""
        numbers = [n for n, places in enumerate(paths.places) if len(places) < self.longest]
        ends = [paths.places[n][-1:] for n in numbers]
        joined = self.joins.between(ends, first)
        pairs = [(numbers[row], int(column)) for row, column in zip(*np.nonzero(joined), strict=True)]
        new = [(n, at) for n, at in pairs if self.facts[first + at] not in {self.facts[p] for p in paths.places[n]}]
        sums = paths.sums[[n for n, _ in new]] + worth[[at for _, at in new]]
        grown = [(*paths.places[n], first + at) for n, at in new]
        return _make_paths(grown, sums), {n for n, _ in new}

    def passage_scores(self) -> dict[str, float]:
        """Return for each passage the greatest product of the score of one of its triples and of a path through it."""
        best: dict[int, float] = {}
        for places, score in zip(self.paths.places, self.paths.scores.tolist(), strict=True) if self.paths else ():
            for place in places:
                best[place] = max(score, best.get(place, score))
        scores: dict[str, float] = {}
        for place, score in best.items():
            passage, value = self.triples[place].stated.passage_id, self.triples[place].score * score
            scores[passage] = max(value, scores.get(passage, value))
        return scores

    def best_paths(self, count: int) -> list[tuple[tuple[Triple, ...], float]]:
        """Return the `count` paths with the highest scores, as triples, with their scores."""
        if self.paths is None:
            return []
        scores, at = self.paths.scores, max(0, len(self.paths.scores) - count)
        near = np.flatnonzero(scores >= np.partition(scores, at)[at]) if len(scores) else ()
        pairs = [(self.paths.places[number], float(scores[number])) for number in near]
        best = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count]
        return [(tuple(self.triples[place].stated.triple for place in places), score) for places, score in best]


def _make_paths(places: list[tuple[int, ...]], sums: Doubles) -> PathTable:
    return PathTable(places, sums, sums / np.array([len(each) for each in places], np.float64))


def _keep_best(paths: PathTable) -> PathTable:
    if len(paths.places) <= MOST:
        return paths
    return paths.taken(np.argsort(-paths.scores, kind="stable")[:MOST].tolist())


# ---------------------------------------------------------------- sub-queries and their ranking


@dataclass(slots=True)
class SubquerySearch:
    """One line of a search: a sub-query and what it has found.

    `text` is the current text, with its `vector` and n-grams (`question`). `latest` are the hits of this
    iteration; `hits` are all so far, in the order found. `next_filter` is the filter of the next iteration:
    its passages share one of the entities `joins`. A line that is `over` retrieves no more. With one sub-graph for
    all lines, they share `subgraph` and `hits`.
    """

    text: str
    vector: Floats
    question: Ngrams
    next_filter: Filter | None
    subgraph: Subgraph
    hits: dict[str, Hit] = field(default_factory=dict)
    latest: tuple[Hit, ...] = ()
    joins: tuple[str, ...] = ()
    over: bool = False

    def add(self, hits: tuple[Hit, ...]) -> None:
        """Add the hits of one iteration; a line without hits is over."""
        self.latest, self.over = hits, not hits
        for hit in hits:
            self.hits.setdefault(hit.id, hit)


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Triples kept of a line's latest passages, the entities to continue from, and the aliases of all their entities.

    `record_ids` are the ids of the records that the triples were chosen by.
    """

    triples: tuple[StatedTriple, ...]
    joins: tuple[str, ...]
    aliases: Aliases
    record_ids: tuple[str, ...] = ()


def extend_subgraphs(
    lines: Sequence[SubquerySearch], shortlists: Sequence[Shortlist], scored: Sequence[Sequence[ScoredTriple]]
) -> None:
    """Extend the sub-graph of each line by its latest triples, or the one sub-graph of all lines by those of all.

    A triple that several lines have found has its best score. A triple that the sub-graph has already keeps its own.
    """
    subgraphs = {id(line.subgraph): line.subgraph for line in lines}
    for key, subgraph in subgraphs.items():
        of = [n for n, line in enumerate(lines) if id(line.subgraph) == key]
        known = {triple.stated.key for triple in subgraph.triples}
        best: dict[tuple[str, int], ScoredTriple] = {}
        for scored_triple in (
            scored_triple for n in of for scored_triple in scored[n] if scored_triple.stated.key not in known
        ):
            if scored_triple.stated.key not in best or scored_triple.score > best[scored_triple.stated.key].score:
                best[scored_triple.stated.key] = scored_triple
        aliases: dict[str, tuple[str, ...]] = {}
        for name, others in (pair for n in of for pair in shortlists[n].aliases.items()):
            aliases[name] = tuple(dict.fromkeys((*aliases.get(name, ()), *others)))
        subgraph.extend(list(best.values()), aliases)


def rank(lines: Sequence[SubquerySearch], added: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the passages of all lines with their scores, best first, ties by id.

    A passage has its best score over the lines, plus its value in `added`. Passages without a scored triple and
    such a value follow in the order in which they were found, with scores of at most -1 (reading V10).
    """
    scores: dict[str, float] = {}
    places: dict[str, int] = {}
    for line in lines:
        triples = line.subgraph.passage_scores()
        for place, id in enumerate(line.hits):
            places[id] = min(place, places.get(id, place))
            if id in triples or id in added:
                value = triples.get(id, 0.0) + added.get(id, 0.0)
                scores[id] = max(value, scores.get(id, value))
    rest = {id: 1 / (place + 1) - 2 for id, place in places.items() if id not in scores}
    return sorted((scores | rest).items(), key=lambda pair: (-pair[1], pair[0]))


# ---------------------------------------------------------------- shortlisting


By: TypeAlias = Literal["partial", "full"]
_DEPTH = 100
"""Minimum number of records per ranking that are fused, as in `hybrid`."""


@dataclass(frozen=True, slots=True)
class Shortlister:
    """Choice of triples by their partial triples or by themselves: the `t_max` nearest by text and by vector, fused."""

    by: By
    text: Collection
    vectors: Collection
    t_max: int

    def nearest(self, lines: Sequence[SubquerySearch], among: Sequence[Ids]) -> list[tuple[str, ...]]:
        """Return for each line the ids of the records nearest its text among some."""
        depth, searches = max(_DEPTH, self.t_max), list(zip(lines, among, strict=True))
        by_text, by_vector = search_together(
            [
                (self.text, [TextQuery(line.text, depth, (), where) for line, where in searches]),
                (self.vectors, [VectorQuery(line.vector, depth, (), where) for line, where in searches]),
            ]
        )
        fused = [
            reciprocal_rank_fusion([text_result.ids, other.ids])
            for text_result, other in zip(by_text, by_vector, strict=True)
        ]
        return [tuple(id for id, _ in each[: self.t_max]) for each in fused]


def shortlist(
    lines: Sequence[SubquerySearch], index: Lookups, shortlister: Shortlister | None, where: Filter | None
) -> list[Shortlist]:
    """Return the shortlist of each line's latest passages; without a shortlister it keeps all triples.

    The passages pass the question's filter `where`, and so do their triples. A partial triple counts if one of these
    passages states it, whoever else does.
    """
    latest = [hit.id for line in lines for hit in line.latest]
    triples, pairs = index.around(latest, [list(line.hits) for line in lines], where)
    stated = [[triple for hit in line.latest for triple in triples.get(hit.id, ())] for line in lines]
    entities = [entities_of(each) for each in stated]
    aliases = [aliases_in(*each) for each in zip(pairs, entities, strict=True)]
    if shortlister is None:
        return [Shortlist(tuple(each), of, also) for each, of, also in zip(stated, entities, aliases, strict=True)]
    nearest = shortlister.nearest(lines, [Ids(_list_record_ids(shortlister.by, each)) for each in stated])
    choose = _select_by_partials if shortlister.by == "partial" else _select_by_triples
    return [choose(*each) for each in zip(stated, nearest, aliases, strict=True)]


def _list_record_ids(by: By, stated: Sequence[StatedTriple]) -> tuple[str, ...]:
    """Return the ids of the records of the latest passages' triples, without duplicates.

    Algorithm 2 filters partial triples by passage and by their entities and aliases. That filter passes exactly
    these records, since every partial triple of a passage belongs to an entity that its triples name.
    """
    if by == "full":
        return tuple(triple_id(triple.passage_id, triple.number) for triple in stated)
    return tuple(dict.fromkeys(id for triple in stated for id in triple.partials))


def _select_by_partials(stated: Sequence[StatedTriple], ids: tuple[str, ...], aliases: Aliases) -> Shortlist:
    """Keep the triples with a partial triple among those found; the entity that it lacks is joined on."""
    known, selected, joins = set(ids), [], []
    for triple in stated:
        lacking = [
            triple.other(inverse) for id, (_, inverse) in zip(triple.partials, triple.sides, strict=True) if id in known
        ]
        if lacking:
            selected.append(triple)
            joins += lacking
    return Shortlist(tuple(selected), tuple(dict.fromkeys(joins)), aliases, ids)


def _select_by_triples(stated: Sequence[StatedTriple], ids: tuple[str, ...], aliases: Aliases) -> Shortlist:
    """Keep the triples that were found; both their entities are joined on."""
    known = set(ids)
    selected = [triple for triple in stated if triple_id(triple.passage_id, triple.number) in known]
    return Shortlist(tuple(selected), entities_of(selected), aliases, ids)


def entities_of(stated: Sequence[StatedTriple]) -> tuple[str, ...]:
    """Return the entity keys of the triples, without duplicates."""
    return tuple(dict.fromkeys(key for triple in stated for key, _ in triple.sides))
