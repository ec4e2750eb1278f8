"""What a reranker said as a ranking of all candidates: pure functions. Nothing that it left out gets lost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragindex_baselines.rerank.interface import PlaceScores

REPEATED, UNKNOWN, NO_NUMBER, LEFT_OUT = "said twice", "no such passage", "no score", "not returned"
_LARGEST = 1e12
"""Scores beyond are taken for none: below it, numbers one apart are different numbers."""


@dataclass(frozen=True, slots=True)
class Order:
    """The places of all candidates, best first, their scores, and how many things were wrong with what was said."""

    places: tuple[int, ...]
    scores: tuple[float, ...]
    counts: Mapping[str, int]

    @property
    def note(self) -> str:
        """The counts, for a person; "" where there are none."""
        return ", ".join(f"{count} {what}" for what, count in self.counts.items())


def order_candidates(said: PlaceScores, ids: Sequence[str], rest: int = 0) -> Order:
    """The candidates `ids` (given in the base's order) by what was said of them, higher scores first, equal ones by id.

    Candidates without a score follow in the base's order, and after them `rest` more that nobody was asked about, with
    scores that fall by 1 from below the lowest. What names no candidate is dropped; of a candidate that is named twice
    the first score counts; a score that is no number of a sensible size is none. All of it is counted.
    """
    scores, counts = _scores(said, len(ids))
    best = sorted(scores, key=lambda place: (-scores[place], ids[place]))
    left_out = [place for place in range(len(ids)) if place not in scores]
    if left_out:
        counts[LEFT_OUT] = len(left_out)
    others = [*left_out, *range(len(ids), len(ids) + rest)]
    lowest = min(scores.values(), default=len(others) + 1.0)
    falling = [lowest - step for step in range(1, len(others) + 1)]
    return Order((*best, *others), (*(scores[place] for place in best), *falling), dict(counts))


def _scores(said: PlaceScores, count: int) -> tuple[dict[int, float], Counter[str]]:
    scores: dict[int, float] = {}
    counts: Counter[str] = Counter()
    for place, score in said:
        if not 0 <= place < count:
            counts[UNKNOWN] += 1
        elif place in scores:
            counts[REPEATED] += 1
        elif not abs(score) <= _LARGEST:  # NaN too
            counts[NO_NUMBER] += 1
        else:
            scores[place] = score
    return scores, counts
