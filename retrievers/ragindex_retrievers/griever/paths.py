"""Paths of triples, their scores, and the scores of passages (GRIEVER, section 4.4)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ragindex.interfaces import Floats
from ragindex.parts.records import Doubles
from ragindex.types import Triple
from ragindex_retrievers.griever.lookups import Aliases
from ragindex_retrievers.griever.matching import ScoredTriple

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
        others = self._held(self.entities[first:]), self._held(self.named[first:])
        shared: npt.NDArray[np.bool_] = (self._held(named) @ others[0].T + self._held(entities) @ others[1].T) > 0
        return shared

    def _number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def _held(self, groups: Sequence[Sequence[int]]) -> Floats:
        held = np.zeros((len(groups), len(self.numbers)), np.float32)
        rows = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        held[rows, np.array([number for group in groups for number in group], np.int64)] = 1
        return held


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

    def extend(self, found: Sequence[ScoredTriple], aliases: Aliases) -> None:
        """Add triples: each opens a path, and extends the earlier paths that it shares an entity with.

        A path never takes up a fact that it has already, though another passage states it too.
        """
        first = len(self.triples)
        self.triples += found
        self.facts += [(one.stated.subject, one.stated.triple.predicate, one.stated.object) for one in found]
        self.joins.add([(one.stated.subject, one.stated.object) for one in found], aliases)
        worth = np.array([one.score for one in found], np.float64)
        opened = _make_paths([(place,) for place in range(first, len(self.triples))], worth)
        if self.paths is None:
            self.paths = _keep_best(opened)
            return
        grown, extended = self._grown(self.paths, first, worth)
        kept = [n for n in range(len(self.paths.places)) if self.keep_prefixes or n not in extended]
        self.paths = _keep_best(_concatenate([self.paths.taken(kept), opened, grown]))

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
        found: dict[str, float] = {}
        for place, score in best.items():
            passage, value = self.triples[place].stated.passage_id, self.triples[place].score * score
            found[passage] = max(value, found.get(passage, value))
        return found

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


def _concatenate(several: Sequence[PathTable]) -> PathTable:
    places = [each for paths in several for each in paths.places]
    sums, scores = (np.concatenate([getattr(paths, name) for paths in several]) for name in ("sums", "scores"))
    return PathTable(places, sums, scores)


def _keep_best(paths: PathTable) -> PathTable:
    if len(paths.places) <= MOST:
        return paths
    return paths.taken(np.argsort(-paths.scores, kind="stable")[:MOST].tolist())
