"""Pure functions that turn a reranker's output into a ranking of all candidates; no candidate gets lost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragindex_baselines.rerank.interface import PlaceScores

REPEATED, UNKNOWN, NO_NUMBER, LEFT_OUT = "said twice", "no such passage", "no score", "not returned"
_LARGEST_SCORE = 1e12
"""Scores beyond this are treated as missing; below it, floats that differ by one are distinct."""


@dataclass(frozen=True, slots=True)
class Order:
    """A ranking: the positions of all candidates, best first, their scores, and counts of the errors in the output.

    The first `returned` of them were returned by the reranker.
    """

    places: tuple[int, ...]
    scores: tuple[float, ...]
    counts: Mapping[str, int]
    returned: int

    @property
    def note(self) -> str:
        """Return the counts as text, "" if there are none."""
        return ", ".join(f"{count} {what}" for what, count in self.counts.items())


def order_candidates(said: PlaceScores, ids: Sequence[str], rest: int = 0) -> Order:
    """Rank the candidates `ids`, given in the base's order, by the scores in `said`; equal scores by id.

    Candidates without a score follow in the base's order, and then `rest` more candidates that the reranker
    was not given. Their scores fall by 1 from the lowest score. Pairs that name no candidate are dropped. If
    a candidate is named twice, the first score is used. A score that is not a number of a sensible size is
    treated as missing. All these errors are counted.
    """
    scores, counts = _collect_scores(said, len(ids))
    best = sorted(scores, key=lambda place: (-scores[place], ids[place]))
    left_out = [place for place in range(len(ids)) if place not in scores]
    if left_out:
        counts[LEFT_OUT] = len(left_out)
    others = [*left_out, *range(len(ids), len(ids) + rest)]
    lowest = min(scores.values(), default=len(others) + 1.0)
    falling = [lowest - step for step in range(1, len(others) + 1)]
    return Order((*best, *others), (*(scores[place] for place in best), *falling), dict(counts), len(best))


def _collect_scores(said: PlaceScores, count: int) -> tuple[dict[int, float], Counter[str]]:
    scores: dict[int, float] = {}
    counts: Counter[str] = Counter()
    for place, score in said:
        if not 0 <= place < count:
            counts[UNKNOWN] += 1
        elif place in scores:
            counts[REPEATED] += 1
        elif not abs(score) <= _LARGEST_SCORE:  # NaN too
            counts[NO_NUMBER] += 1
        else:
            scores[place] = score
    return scores, counts
