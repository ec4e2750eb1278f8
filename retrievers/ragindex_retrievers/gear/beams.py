"""Diverse Triple Beam Search (GeAR, section 4.2, Algorithm 1), vectorised: chains of triples that share entities.

It runs for one question at a time. A step of a chain is scored by the cosine of the question with the text of
the chain: `exact` encodes that text, as in the paper; `composed` sums the stored vectors of the triples, which
approximates the direction of the encoded text; `refined` prunes with `composed` and scores the survivors with
`exact`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ragindex.interfaces import Floats
from ragindex.parts.records import Doubles, Integers
from ragindex_retrievers.gear.space import DIGITS, Space, cosines

Scoring = Literal["exact", "composed", "refined"]
Encode: TypeAlias = Callable[[Sequence[str]], Floats]
NOTHING = -1
"""Padding of chains that are shorter than others."""


@dataclass(frozen=True, slots=True)
class Search:
    """Parameters of the beam search, named as in `ragindex_retrievers.gear.method.ExpandingScheme`."""

    beam_width: int = 10
    beam_length: int = 2
    neighbours_per_beam: int = 100
    gamma: float = 20
    diversity: bool = True
    scoring: Scoring = "refined"
    survivors: int = 20
    dead_end: Literal["drop", "keep"] = "drop"
    triple_identity: Literal["record", "spo"] = "record"


@dataclass(frozen=True, slots=True)
class Beams:
    """The best chains of triples, best first.

    `scores` has shape (b,); `chains` has shape (b, length), holds places of triples, and is padded with
    NOTHING. `encoded` counts the texts that were encoded, `considered` the chains that were scored.
    """

    scores: Doubles
    chains: Integers
    encoded: int = 0
    considered: int = 0

    def paths(self) -> list[list[int]]:
        """Return the chains as lists of places, without padding."""
        return [[place for place in chain if place != NOTHING] for chain in self.chains.tolist()]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Extensions of the beams in order of insertion: the row of the beam and the place of the triple, (m,) each."""

    beam: npt.NDArray[np.int64]
    triple: Integers


def search_beams(space: Space, initial: Integers, settings: Search, encode: Encode) -> Beams:
    """Return the chains of Algorithm 1 that start from the triples `initial`; triples without a vector are left out.

    If no chain can be extended, return the beams of the last step (reading G8).
    """
    distinct = np.array(list(dict.fromkeys(initial.tolist())), np.int64)
    if settings.triple_identity == "spo":
        triples = [record.triple for record in space.records(distinct.tolist())]
        distinct = distinct[[triples.index(triple) == number for number, triple in enumerate(triples)]]
    distinct = distinct[space.vectors(distinct).any(axis=1)]  # no vector search finds a triple without a vector
    beams = _start_beams(space, distinct, settings)
    used_triples = set(beams.chains.ravel().tolist())
    for _ in range(settings.beam_length - 1):
        candidates = _find_candidates(space, beams, used_triples, settings)
        if not len(candidates.triple):
            return beams
        beams = _extend_beams(space, beams, candidates, settings, encode)
        used_triples = set(beams.chains.ravel().tolist())
    return beams


def flatten(beams: Beams, order: Literal["level", "beam"]) -> list[int]:
    """Return the triples of all chains without duplicates.

    The order is level by level (all first triples in beam order, then all second ones, …; reading G2), or beam
    by beam.
    """
    places = beams.chains.T if order == "level" else beams.chains
    return list(dict.fromkeys(place for place in places.ravel().tolist() if place != NOTHING))


# ---------------------------------------------------------------- the steps of Algorithm 1


def _start_beams(space: Space, initial: Integers, settings: Search) -> Beams:
    """Return the initial beams (lines 1 to 5).

    Nothing is encoded: the stored vector of a triple was made from the same text.
    """
    scores = cosines(space.vectors(initial), space.question)
    best = np.argsort(-scores, kind="stable")[: settings.beam_width]
    return Beams(scores[best], initial[best][:, None], 0, len(initial))


def _find_candidates(space: Space, beams: Beams, used_triples: set[int], settings: Search) -> _Candidates:
    """Return the nearest neighbours of the last triple of each beam (lines 10 to 12).

    The limit is applied before visited triples are left out.
    """
    lengths = (beams.chains != NOTHING).sum(axis=1)
    last = beams.chains[np.arange(len(lengths)), lengths - 1]
    around = space.around(last, settings.neighbours_per_beam)
    beam = np.repeat(np.arange(len(around)), [len(neighbours) for neighbours in around])
    triple = np.concatenate([np.empty(0, np.int64), *around])
    if settings.triple_identity == "spo":
        known = {record.triple for record in space.records(sorted(used_triples - {NOTHING}))}
        fresh = np.array([record.triple not in known for record in space.records(triple.tolist())], bool)
    else:
        fresh = ~np.isin(triple, np.array(sorted(used_triples)))
    return _Candidates(beam[fresh], triple[fresh])


def _extend_beams(space: Space, beams: Beams, candidates: _Candidates, settings: Search, encode: Encode) -> Beams:
    """Extend the beams by the best candidates (lines 13 to 20)."""
    step = (
        _score_composed(space, beams, candidates) if settings.scoring != "exact" else np.zeros(len(candidates.triple))
    )
    chosen = np.arange(len(step))
    if settings.scoring == "refined":
        chosen = _select_survivors(beams, candidates, step, settings)
    if settings.scoring != "composed":
        step[chosen] = _score_encoded(space, beams, candidates, chosen, encode)
    scores = beams.scores[candidates.beam] + step
    if settings.scoring == "refined":  # candidates that were not encoded rank last and are dropped
        scores[np.setdiff1d(np.arange(len(step)), chosen)] = -np.inf
    order = np.lexsort((-scores, candidates.beam))
    weighted = scores[order] * _weigh_candidates(candidates.beam[order], settings)
    order, weighted = order[weighted > -np.inf], weighted[weighted > -np.inf]
    chains = np.column_stack([beams.chains[candidates.beam[order]], candidates.triple[order]])
    if settings.dead_end == "keep":  # the beams that nothing extends come first, unchanged (alternative of G8)
        ends = np.setdiff1d(np.arange(len(beams.scores)), candidates.beam)
        padded = np.column_stack([beams.chains[ends], np.full(len(ends), NOTHING)])
        weighted, chains = np.concatenate([beams.scores[ends], weighted]), np.concatenate([padded, chains])
    best = np.argsort(-weighted, kind="stable")[: settings.beam_width]
    encoded = 0 if settings.scoring == "composed" else len(chosen)
    return Beams(weighted[best], chains[best], beams.encoded + encoded, beams.considered + len(step))


def _weigh_candidates(beam: npt.NDArray[np.int64], settings: Search) -> Doubles:
    """Return the weights exp(-min(n, γ)/γ), where n is the 0-based rank of a candidate in its beam (lines 16 to 18)."""
    if not settings.diversity:
        return np.ones(len(beam))
    starts = np.searchsorted(beam, beam)
    weights: Doubles = np.exp(-np.minimum(np.arange(len(beam)) - starts, settings.gamma) / settings.gamma)
    return weights


# ---------------------------------------------------------------- scores of chains


def _score_composed(space: Space, beams: Beams, candidates: _Candidates) -> Doubles:
    """Return the cosine of the question with the sum of the stored vectors of each chain, (m,)."""
    sums = np.stack([space.vectors(np.array(path, np.int64)).sum(axis=0) for path in beams.paths()])
    distinct, of = np.unique(candidates.triple, return_inverse=True)
    triples = space.vectors(distinct)
    near = (sums @ space.question)[candidates.beam] + (triples @ space.question)[of]
    across = (triples @ sums.T)[of, candidates.beam]
    squares = (sums**2).sum(axis=1)[candidates.beam] + 2 * across + (triples**2).sum(axis=1)[of]
    lengths = np.sqrt(np.maximum(squares, 0))
    scores = np.divide(near, lengths, out=np.zeros(len(near)), where=lengths > 1e-6)
    rounded: Doubles = np.round(scores, DIGITS)
    return rounded


def _select_survivors(beams: Beams, candidates: _Candidates, step: Doubles, settings: Search) -> npt.NDArray[np.int64]:
    """Return the candidates to encode: the best ones by composed score."""
    scores = beams.scores[candidates.beam] + step
    order = np.lexsort((-scores, candidates.beam))
    weighted = scores[order] * _weigh_candidates(candidates.beam[order], settings)
    best: npt.NDArray[np.int64] = order[np.argsort(-weighted, kind="stable")[: settings.survivors]]
    return best


def _score_encoded(
    space: Space, beams: Beams, candidates: _Candidates, chosen: npt.NDArray[np.int64], encode: Encode
) -> Doubles:
    """Return the cosine of the question with the encoded text of each of the `chosen` chains, in their order."""
    paths = beams.paths()
    places = list(dict.fromkeys([place for path in paths for place in path] + candidates.triple[chosen].tolist()))
    texts = dict(zip(places, (record.text for record in space.records(places)), strict=True))
    starts = [" ".join(texts[place] for place in path) for path in paths]
    pairs = zip(candidates.beam[chosen].tolist(), candidates.triple[chosen].tolist(), strict=True)
    chains = [f"{starts[beam]} {texts[triple]}" for beam, triple in pairs]
    distinct = list(dict.fromkeys(chains))
    scores = dict(zip(distinct, cosines(encode(distinct).astype(np.float64), space.question).tolist(), strict=True))
    return np.array([scores[chain] for chain in chains])


# ---------------------------------------------------------------- helpers
