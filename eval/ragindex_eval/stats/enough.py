"""Are the questions enough? What a number of questions can show, and how many more would settle what is open.

Means of paired differences are about normal. A difference d of two methods is shown by n questions with the probability
POWER if d = (z + z') s / √n, where s is the standard deviation of a question's difference, z the quantile of the test's
level, divided by the number of rivals (Bonferroni), and z' that of POWER.
"""

from math import ceil, inf, sqrt
from statistics import NormalDist, fmean, median, stdev

from ragindex_eval.results.model import Comparison
from ragindex_eval.results.question_plan import QuestionPlan
from ragindex_eval.stats.conclusions import leaders, rank_methods
from ragindex_eval.stats.resampling import LEVEL

POWER = 0.8
"""The probability with which `count_more_questions` questions exclude a method, if its difference stays as it is."""
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
    spreads = [spread for rival in rivals if (spread := stdev(_differences(comparison, best, rival, metric)))]
    if not spreads:  # the same difference on every question says nothing about the spread
        return None
    spread = median(spreads)
    counts = [judged, *[count for count in _PLANNED if count > judged][:_SHOWN]]
    more = {rival: count_more_questions(comparison, best, rival, metric) for rival in others}
    return QuestionPlan(
        metric,
        best,
        judged,
        spread,
        POWER,
        tuple((count, smallest_difference(spread, count, len(rivals))) for count in counts),
        tuple((rival, None if count == inf else ceil(count)) for rival, count in more.items()),
    )


def smallest_difference(spread: float, questions: int, rivals: int = 1) -> float:
    """Return the smallest difference of means that the questions show with the probability POWER."""
    return _quantiles(rivals) * spread / sqrt(questions)


def count_more_questions(comparison: Comparison, best: str, rival: str, metric: str) -> float:
    """Return how many more questions would exclude `rival` as the best with probability POWER.

    Assumes that mean and spread of the difference stay as they are, and Bonferroni's bound for the number of rivals.
    Returns infinity if the methods have the same mean.
    """
    differences = _differences(comparison, best, rival, metric)
    mean = fmean(differences)
    if abs(mean) < 1e-12:
        return inf
    needed = (_quantiles(len(comparison.methods) - 1) * stdev(differences) / mean) ** 2
    return max(1.0, needed - len(differences))


def _differences(comparison: Comparison, best: str, rival: str, metric: str) -> list[float]:
    a, b = (comparison.method(label).per_query for label in (best, rival))
    return [a[id][metric] - b[id][metric] for id in a]


def _quantiles(rivals: int) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - LEVEL / 2 / rivals) + normal.inv_cdf(POWER)
