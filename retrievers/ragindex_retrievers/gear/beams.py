"""Diverse Triple Beam Search (GeAR, section 4.2, Algorithm 1): chains of triples that share entities, vectorised.

One question at a time. A chain's step is scored by the cosine of the question with the chain's text: encoded (`exact`,
as in the paper), from the stored vectors of its triples, whose sum points where the text does (`composed`), or the
second to prune and the first for the survivors (`refined`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ragindex.interfaces import Floats
from ragindex.parts.support.arrays import Doubles, Integers
from ragindex_retrievers.gear.space import DIGITS, Space, cosines

Scoring = Literal["exact", "composed", "refined"]
Encode: TypeAlias = Callable[[Sequence[str]], Floats]
NOTHING = -1
"""Pads chains that are shorter than others."""


@dataclass(frozen=True, slots=True)
class Search:
    """The parameters, named as in `ragindex_retrievers.gear.scheme.ExpandingScheme`."""

    beam_width: int = 10
    beam_length: int = 2
    neighbours_per_beam: int = 100
    gamma: float = 20
    diversity: bool = True
    scoring: Scoring = "refined"
    survivors: int = 20
    dead_end: Literal["drop", "keep"] = "drop"
    visited: Literal["last", "all"] = "last"
    triple_identity: Literal["record", "spo"] = "record"


@dataclass(frozen=True, slots=True)
class Beams:
    """The best chains, best first: `scores` (b,) and `chains` (b, length) of places, padded with NOTHING.

    `encoded` counts the texts that were encoded, `considered` the chains that were scored.
    """

    scores: Doubles
    chains: Integers
    encoded: int = 0
    considered: int = 0

    def paths(self) -> list[list[int]]:
        """The chains as lists of places."""
        return [[place for place in chain if place != NOTHING] for chain in self.chains.tolist()]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Extensions of the beams: the row of the beam and the place of the triple, (m,) each, in order of insertion."""

    beam: npt.NDArray[np.int64]
    triple: Integers


def search_beams(space: Space, initial: Integers, settings: Search, encode: Encode) -> Beams:
    """The chains that Algorithm 1 returns, from the triples `initial`; those without a vector are left out.

    Where no chain can be extended, the last beams that there were (reading G8).
    """
    beams = _first(space, _distinct(space, initial, settings), settings)
    seen = set(beams.chains.ravel().tolist())
    for _ in range(settings.beam_length - 1):
        found = _candidates(space, beams, seen, settings)
        if not len(found.triple):
            return beams
        beams = _extended(space, beams, found, settings, encode)
        held = set(beams.chains.ravel().tolist())
        seen = seen | held if settings.visited == "all" else held
    return beams


def flatten(beams: Beams, order: Literal["level", "beam"]) -> list[int]:
    """The triples of all chains, each once: first triples in beam order, then second ones, … (G2), or beam by beam."""
    places = beams.chains.T if order == "level" else beams.chains
    return list(dict.fromkeys(place for place in places.ravel().tolist() if place != NOTHING))


# ---------------------------------------------------------------- the steps of Algorithm 1


def _first(space: Space, initial: Integers, settings: Search) -> Beams:
    """Lines 1 to 5. A single triple's text is what its stored vector was made of: nothing is encoded."""
    scores = cosines(space.vectors(initial), space.question)
    best = np.argsort(-scores, kind="stable")[: settings.beam_width]
    return Beams(scores[best], initial[best][:, None], 0, len(initial))


def _candidates(space: Space, beams: Beams, seen: set[int], settings: Search) -> _Candidates:
    """Lines 10 to 12: for each beam the nearest neighbours of its last triple, cut before the visited are left out."""
    around = space.around(_last(beams.chains), settings.neighbours_per_beam)
    beam = np.repeat(np.arange(len(around)), [len(one) for one in around])
    triple = np.concatenate([np.empty(0, np.int64), *around])
    if settings.triple_identity == "spo":
        known = {record.triple for record in space.records(sorted(seen - {NOTHING}))}
        fresh = np.array([record.triple not in known for record in space.records(triple.tolist())], bool)
    else:
        fresh = ~np.isin(triple, np.array(sorted(seen)))
    return _Candidates(beam[fresh], triple[fresh])


def _extended(space: Space, beams: Beams, found: _Candidates, settings: Search, encode: Encode) -> Beams:
    """Lines 13 to 20."""
    step = _composed(space, beams, found) if settings.scoring != "exact" else np.zeros(len(found.triple))
    chosen = np.arange(len(step))
    if settings.scoring == "refined":
        chosen = _survivors(beams, found, step, settings)
    if settings.scoring != "composed":
        step[chosen] = _encoded(space, beams, found, chosen, encode)
    scores = beams.scores[found.beam] + step
    if settings.scoring == "refined":  # who was not encoded stands behind who was, and is not taken
        scores[np.setdiff1d(np.arange(len(step)), chosen)] = -np.inf
    order = np.lexsort((-scores, found.beam))
    weighted = scores[order] * _weights(found.beam[order], settings)
    order, weighted = order[weighted > -np.inf], weighted[weighted > -np.inf]
    chains = np.column_stack([beams.chains[found.beam[order]], found.triple[order]])
    if settings.dead_end == "keep":
        weighted, chains = _with_ends(beams, found, weighted, chains)
    best = np.argsort(-weighted, kind="stable")[: settings.beam_width]
    encoded = 0 if settings.scoring == "composed" else len(chosen)
    return Beams(weighted[best], chains[best], beams.encoded + encoded, beams.considered + len(step))


def _weights(beam: npt.NDArray[np.int64], settings: Search) -> Doubles:
    """Lines 16 to 18: exp(-min(n, γ)/γ), n the place of a candidate among those of its beam, from 0."""
    if not settings.diversity:
        return np.ones(len(beam))
    starts = np.searchsorted(beam, beam)
    weights: Doubles = np.exp(-np.minimum(np.arange(len(beam)) - starts, settings.gamma) / settings.gamma)
    return weights


def _with_ends(beams: Beams, found: _Candidates, scores: Doubles, chains: Integers) -> tuple[Doubles, Integers]:
    """Beams without an extension go on as they are, before the others (reading G8, alternative)."""
    ends = np.setdiff1d(np.arange(len(beams.scores)), found.beam)
    padded = np.column_stack([beams.chains[ends], np.full(len(ends), NOTHING)])
    return np.concatenate([beams.scores[ends], scores]), np.concatenate([padded, chains])


# ---------------------------------------------------------------- scores of chains


def _composed(space: Space, beams: Beams, found: _Candidates) -> Doubles:
    """The cosine of the question with the sum of the chain's triples, (m,)."""
    sums = np.stack([space.vectors(np.array(path, np.int64)).sum(axis=0) for path in beams.paths()])
    distinct, of = np.unique(found.triple, return_inverse=True)
    triples = space.vectors(distinct)
    near = (sums @ space.question)[found.beam] + (triples @ space.question)[of]
    across = (triples @ sums.T)[of, found.beam]
    squares = (sums**2).sum(axis=1)[found.beam] + 2 * across + (triples**2).sum(axis=1)[of]
    lengths = np.sqrt(np.maximum(squares, 0))
    scores = np.divide(near, lengths, out=np.zeros(len(near)), where=lengths > 1e-6)
    rounded: Doubles = np.round(scores, DIGITS)
    return rounded


def _survivors(beams: Beams, found: _Candidates, step: Doubles, settings: Search) -> npt.NDArray[np.int64]:
    """The candidates to encode: those that would come first by their composed scores."""
    scores = beams.scores[found.beam] + step
    order = np.lexsort((-scores, found.beam))
    weighted = scores[order] * _weights(found.beam[order], settings)
    best: npt.NDArray[np.int64] = order[np.argsort(-weighted, kind="stable")[: settings.survivors]]
    return best


def _encoded(space: Space, beams: Beams, found: _Candidates, chosen: npt.NDArray[np.int64], encode: Encode) -> Doubles:
    """The cosine of the question with the encoded texts of the `chosen` chains, in their order."""
    paths = beams.paths()
    places = list(dict.fromkeys([place for path in paths for place in path] + found.triple[chosen].tolist()))
    texts = dict(zip(places, (record.text for record in space.records(places)), strict=True))
    starts = [" ".join(texts[place] for place in path) for path in paths]
    pairs = zip(found.beam[chosen].tolist(), found.triple[chosen].tolist(), strict=True)
    chains = [f"{starts[beam]} {texts[triple]}" for beam, triple in pairs]
    distinct = list(dict.fromkeys(chains))
    scores = dict(zip(distinct, cosines(encode(distinct).astype(np.float64), space.question).tolist(), strict=True))
    return np.array([scores[chain] for chain in chains])


# ---------------------------------------------------------------- small parts


def _distinct(space: Space, initial: Integers, settings: Search) -> Integers:
    """Each triple once, at its first place, without those that no vector search would find."""
    distinct = np.array(list(dict.fromkeys(initial.tolist())), np.int64)
    if settings.triple_identity == "spo":
        triples = [record.triple for record in space.records(distinct.tolist())]
        distinct = distinct[[triples.index(triple) == number for number, triple in enumerate(triples)]]
    return distinct[space.vectors(distinct).any(axis=1)]


def _last(chains: Integers) -> Integers:
    """The last triple of each chain."""
    lengths = (chains != NOTHING).sum(axis=1)
    last: Integers = chains[np.arange(len(chains)), lengths - 1]
    return last
