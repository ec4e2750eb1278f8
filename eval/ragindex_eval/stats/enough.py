"""Are the questions enough? What a number of questions can show, and how many more would settle what is open."""

from collections.abc import Sequence
from math import ceil, fsum, inf
from statistics import fmean, median, stdev

from ragindex_eval.results.model import Comparison
from ragindex_eval.results.question_plan import QuestionPlan
from ragindex_eval.stats.conclusions import leaders, rank_methods
from ragindex_eval.stats.power import POWER, count_questions, raise_spread, smallest_difference

FEWEST_DIFFERENCES = 5
"""With fewer, nothing is said about the spread of a difference."""
_PLANNED = (50, 100, 200, 400, 800, 1600)
_SHOWN = 3  # numbers of questions beyond those that were asked


def plan_questions(comparison: Comparison) -> QuestionPlan | None:
    """Return what the questions can show by the first metric.

    None without two methods, with too few questions, and if no rival's difference varies between questions.
    """
    metric, judged = f"R@{comparison.ks[0]}", comparison.dataset.judged
    ranked = rank_methods(comparison, metric)
    if len(ranked) < 2 or len(ranked) < len(comparison.methods) or judged < FEWEST_DIFFERENCES:
        return None
    best, *others = leaders(comparison, metric)
    rivals = [method.label for method in comparison.methods if method.label != best]
    differences = [_differences(comparison, best, rival, metric) for rival in rivals]
    varied = [one for one in differences if stdev(one)]
    if not varied:  # the same difference on every question says nothing about the spread
        return None
    spread, size, pairs = median(map(stdev, varied)), median(map(_typical_size, varied)), _count_pairs(comparison)
    counts = [judged, *[count for count in _PLANNED if count > judged][:_SHOWN]]
    more = {rival: count_more_questions(comparison, best, rival, metric) for rival in others}
    return QuestionPlan(
        metric,
        best,
        judged,
        spread,
        POWER,
        tuple((count, smallest_difference(spread, count, pairs, size)) for count in counts),
        tuple((rival, None if count == inf else ceil(count)) for rival, count in more.items()),
    )


def count_more_questions(
    comparison: Comparison, best: str, rival: str, metric: str, difference: float | None = None
) -> float:
    """Return how many more questions would show that `best` is better than `rival` with probability POWER.

    Assumes that the spread of the difference stays as it is, and so does its mean, or that the mean is `difference`.
    At least 1; infinity if the methods have the same mean.
    """
    differences = _differences(comparison, best, rival, metric)
    mean, spread = fmean(differences), stdev(differences)
    if difference is not None:
        mean, spread = difference, raise_spread(spread, difference, _typical_size(differences))
    return max(1, count_questions(mean, spread, _count_pairs(comparison)) - len(differences))


def _differences(comparison: Comparison, best: str, rival: str, metric: str) -> list[float]:
    a, b = (comparison.method(label).per_query for label in (best, rival))
    return [a[id][metric] - b[id][metric] for id in a]


def _typical_size(differences: Sequence[float]) -> float:
    """Return how large differences are where there are any, weighted by their size; 1, the most, if all are 0."""
    total = fsum(map(abs, differences))
    return fsum(one * one for one in differences) / total if total else 1.0


def _count_pairs(comparison: Comparison) -> int:
    count = len(comparison.methods)
    return count * (count - 1) // 2
