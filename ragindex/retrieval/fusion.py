"""Rank fusion and score normalization: pure functions on lists of ids and scores."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

ROUNDING = 1e-6
"""Relative rounding error of float32 scores: engines that store cosines in float32 may separate equal scores by it."""


def reciprocal_rank_fusion(rankings: Sequence[Sequence[str]], constant: float = 60) -> list[tuple[str, float]]:
    """Fuse rankings: return (id, sum of 1 / (constant + rank) over `rankings`), ranks from 1, best first.

    Ties are sorted by the best single rank, then by id. Repeats of an id within a ranking are ignored.
    Source: Cormack, Clarke and Büttcher, SIGIR 2009.
    """
    ranks: dict[str, list[int]] = {}
    for ranking in rankings:
        for rank, id in enumerate(dict.fromkeys(ranking), start=1):
            ranks.setdefault(id, []).append(rank)
    longest = max(map(len, rankings), default=0)
    worth = [1 / (constant + rank) if rank else 0.0 for rank in range(longest + 1)]
    fused = [(id, sum([worth[rank] for rank in sorted(positions)]), min(positions)) for id, positions in ranks.items()]
    fused.sort(key=lambda item: (-item[1], item[2], item[0]))
    return [(id, score) for id, score, _ in fused]


def convex_combination(
    rankings: Sequence[Sequence[tuple[str, float]]], weights: Sequence[float]
) -> list[tuple[str, float]]:
    """Fuse rankings of (id, score): return (id, weighted mean of its normalized scores), best first, ties by id.

    The scores of each ranking are min-max normalized to [0, 1] over its own results; an id that a ranking lacks has
    0 there, as its last result has. Weights are divided by their sum. Source: Bruch, Gai and Ingber, TOIS 2023.
    """
    total, fused = sum(weights), dict[str, float]()
    for ranking, weight in zip(rankings, weights, strict=True):
        normalized = normalize_scores(np.array([score for _, score in ranking], np.float64))
        for (id, _), value in zip(ranking, normalized.tolist(), strict=True):
            fused[id] = fused.get(id, 0.0) + weight / total * value
    return sorted(fused.items(), key=lambda pair: (-pair[1], pair[0]))


def scores_differ(least: float, greatest: float) -> bool:
    """Return whether the range of scores exceeds the rounding errors of engines."""
    return greatest - least > ROUNDING * max(1.0, abs(least), abs(greatest))


def normalize_scores(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Min-max normalize scores to [0, 1]; equal scores (see `scores_differ`) become 1."""
    if not len(scores):
        return scores
    least, greatest = float(scores.min()), float(scores.max())
    return (scores - least) / (greatest - least) if scores_differ(least, greatest) else np.ones_like(scores)


def raise_scores(scores: Sequence[float]) -> list[float]:
    """Return the scores of a ranking raised where needed, so that none is greater than the one before.

    >>> raise_scores([0.5, 0.9, 0.2])
    [0.9, 0.9, 0.2]
    """
    return list(accumulate(reversed(scores), max))[::-1]
