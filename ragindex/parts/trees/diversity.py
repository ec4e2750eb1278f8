"""Diversity of search results: of nodes about the same passages, the best comes first and the others later."""

from collections.abc import Sequence
from dataclasses import replace

from ragindex.types import Hit

POOL = 4
"""Candidates for each result."""


def diversify_hits(hits: Sequence[Hit], k: int, weight: float) -> tuple[Hit, ...]:
    """Return `k` of the hits, chosen one by one by relevance less `weight` times likeness (maximal marginal relevance).

    Relevance is the score divided by that of the best hit. Likeness is the share of common passages among those of two
    hits (Jaccard), to the most similar hit chosen before. Scores become these values, which fall with the rank; equal
    ones go in the order of the hits. O(k n) in the number of hits and the passages of a hit.
    """
    best = max((abs(hit.score) for hit in hits), default=0.0) or 1.0
    left = [(hit.score / best, hit) for hit in hits]
    passages = {hit.id: frozenset(hit.passage_ids) for hit in hits}
    likeness = dict.fromkeys(passages, 0.0)
    chosen: list[Hit] = []
    while left and len(chosen) < k:
        values = [relevance - weight * likeness[hit.id] for relevance, hit in left]
        place = max(range(len(left)), key=lambda one: (values[one], -one))
        _, hit = left.pop(place)
        chosen.append(replace(hit, score=values[place]))
        for _, other in left:
            likeness[other.id] = max(likeness[other.id], _compare(passages[hit.id], passages[other.id]))
    return tuple(chosen)


def _compare(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0
