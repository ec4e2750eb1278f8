"""Paths of triples, their scores, and the scores of passages (GRIEVER, section 4.4)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ragindex.interfaces import Floats
from ragindex.parts.support.arrays import Doubles
from ragindex.types import Triple
from ragindex_retrievers.griever.lookups import Aliases
from ragindex_retrievers.griever.scoring import ScoredTriple

MOST = 5_000
"""Maximum number of paths per sub-query, best scores first; many joins over three iterations give millions."""
Measure: TypeAlias = Callable[[Doubles, Doubles], Doubles]
"""Function from the sums (n, any) and lengths (n,) of paths to their scores (n,)."""
PassageScore = Literal["product", "path"]


def running_average(sums: Doubles, lengths: Doubles) -> Doubles:
    """Return the mean score of the triples of each path, (n,), from sums (n, 1): the path score of the paper."""
    mean: Doubles = sums[:, 0] / lengths
    return mean


def cosine_with(question: Floats) -> Measure:
    """Return a measure: the cosine of the question with the sum of the stored vectors of a path's triples."""
    unit = question.astype(np.float64)

    def measure(sums: Doubles, lengths: Doubles) -> Doubles:
        norms = np.linalg.norm(sums, axis=1)
        cosines: Doubles = np.divide(sums @ unit, norms, out=np.zeros(len(sums)), where=norms > 0)
        return cosines

    return measure


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
    """Paths with their sums and scores. `places[i]` are the triples of path i in the order in which they were added."""

    places: list[tuple[int, ...]]
    sums: Doubles
    scores: Doubles

    def taken(self, numbers: Sequence[int]) -> "PathTable":
        """Return the paths with these numbers."""
        return PathTable([self.places[number] for number in numbers], self.sums[numbers], self.scores[numbers])


@dataclass(slots=True)
class Subgraph:
    """Triples shortlisted so far, and the paths of at most `longest` of them.

    `extend_any`: a path grows at any of its triples, not only at the last. `extend_within`: it also grows by
    triples of the same iteration, in their order. Without `keep_prefixes`, a path that was extended no longer
    counts by itself (V9).
    """

    longest: int
    measure: Measure = running_average
    extend_any: bool = False
    extend_within: bool = False
    keep_prefixes: bool = True
    triples: list[ScoredTriple] = field(default_factory=list)
    joins: Joins = field(default_factory=Joins)
    paths: PathTable | None = None

    def extend(self, found: Sequence[ScoredTriple], aliases: Aliases, worth: Doubles) -> None:
        """Add the new triples: each opens a path, and extends the earlier paths that it shares an entity with.

        `worth` (triples, any) has the rows that the measure adds up.
        """
        first = len(self.triples)
        self.triples += found
        self.joins.add([(one.stated.subject, one.stated.object) for one in found], aliases)
        opened = self._measured([(place,) for place in range(first, len(self.triples))], worth)
        every = opened if self.paths is None else _concatenate([self.paths, opened])
        growing = every if self.extend_within else self.paths
        while growing is not None:
            grown, extended = self._grown(growing, first, worth)
            if not self.keep_prefixes:
                every = every.taken([n for n, places in enumerate(every.places) if places not in extended])
            every = _keep_best(_concatenate([every, grown]))
            growing = grown if self.extend_within and grown.places else None
        self.paths = every

    def _grown(self, paths: PathTable, first: int, worth: Doubles) -> tuple[PathTable, set[tuple[int, ...]]]:
        """Return the paths extended by one triple from place `first` on, and the paths that they extend."""
        numbers = [n for n, places in enumerate(paths.places) if len(places) < self.longest]
        ends = [paths.places[n] if self.extend_any else paths.places[n][-1:] for n in numbers]
        joined = self.joins.between(ends, first)
        lasts = np.array([paths.places[n][-1] for n in numbers], np.int64)
        joined &= np.arange(first, len(self.triples)) > lasts[:, None]
        rows, columns = np.nonzero(joined)
        grown = [(*paths.places[numbers[row]], first + int(column)) for row, column in zip(rows, columns, strict=True)]
        sums = paths.sums[[numbers[row] for row in rows]] + worth[columns]
        return self._measured(grown, sums), {paths.places[numbers[row]] for row in rows}

    def _measured(self, places: list[tuple[int, ...]], sums: Doubles) -> PathTable:
        return PathTable(places, sums, self.measure(sums, np.array([len(each) for each in places], np.float64)))

    def passage_scores(self, by: PassageScore) -> dict[str, float]:
        """Return for each passage the best score of a path through one of its triples.

        `by=product` multiplies it by the score of that triple.
        """
        best: dict[int, float] = {}
        for places, score in zip(self.paths.places, self.paths.scores.tolist(), strict=True) if self.paths else ():
            for place in places:
                best[place] = max(score, best.get(place, score))
        found: dict[str, float] = {}
        for place, score in best.items():
            passage = self.triples[place].stated.passage_id
            value = self.triples[place].score * score if by == "product" else score
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


def _concatenate(several: Sequence[PathTable]) -> PathTable:
    places = [each for paths in several for each in paths.places]
    sums, scores = (np.concatenate([getattr(paths, name) for paths in several]) for name in ("sums", "scores"))
    return PathTable(places, sums, scores)


def _keep_best(paths: PathTable) -> PathTable:
    if len(paths.places) <= MOST:
        return paths
    return paths.taken(np.argsort(-paths.scores, kind="stable")[:MOST].tolist())
