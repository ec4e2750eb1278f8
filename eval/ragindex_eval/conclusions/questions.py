"""What the questions of a comparison can show, how many more would settle what is open, and what has no answer."""

from collections.abc import Mapping, Sequence
from math import ceil, fsum, inf
from statistics import fmean, median, stdev

import numpy as np

from ragindex_eval.conclusions.leaders import leaders, rank_methods
from ragindex_eval.data.gold import Gold
from ragindex_eval.format import about_questions, points
from ragindex_eval.results.model import ComparedMethods, MethodResult
from ragindex_eval.results.records import FindsNothing, QuestionPlan, QuestionShare
from ragindex_eval.stats.intervals import LEVEL, SampleArray
from ragindex_eval.stats.paired_tests import POWER, count_questions, paired_interval, raise_spread, smallest_difference

FEWEST_DIFFERENCES = 5
"""With fewer, no statement is made about the spread of a difference."""
_STATED_DIFFERENCES = (0.05, 0.02, 0.01)
_PLANNED = (50, 100, 200, 400, 800, 1600)
_SHOWN = 3  # numbers of questions beyond those that were asked


def plan_questions(compared: ComparedMethods, judged: int) -> QuestionPlan | None:
    """Return what the questions, of which so many are judged, can show by the first metric.

    None without two methods, with too few questions, and if no rival's difference varies between questions.
    """
    metric = f"R@{compared.ks[0]}"
    ranked = rank_methods(compared, metric)
    if len(ranked) < 2 or len(ranked) < len(compared.methods) or judged < FEWEST_DIFFERENCES:
        return None
    best, *others = leaders(compared, metric)
    rivals = [method.label for method in compared.methods if method.label != best]
    differences = [list_differences(compared, best, rival, metric) for rival in rivals]
    varied = [difference for difference in differences if stdev(difference)]
    if not varied:  # the same difference on every question says nothing about the spread
        return None
    spread, size, pairs = median(map(stdev, varied)), median(map(_typical_size, varied)), _count_pairs(compared)
    counts = [judged, *[count for count in _PLANNED if count > judged][:_SHOWN]]
    more = {rival: count_more_questions(compared, best, rival, metric) for rival in others}
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
    compared: ComparedMethods, best: str, rival: str, metric: str, difference: float | None = None
) -> float:
    """Return how many more questions would show that `best` is better than `rival` with probability POWER.

    Assumes that the spread of the difference stays as it is, and so does its mean, or that the mean is `difference`.
    At least 1; infinity if the methods have the same mean.
    """
    return _count_more(list_differences(compared, best, rival, metric), _count_pairs(compared), difference)


def _count_more(differences: Sequence[float], pairs: int, difference: float | None = None) -> float:
    mean, spread = fmean(differences), stdev(differences)
    if difference is not None:
        mean, spread = difference, raise_spread(spread, difference, _typical_size(differences))
    return max(1, count_questions(mean, spread, pairs) - len(differences))


def describe_more_questions(best: str, rivals: Mapping[str, Sequence[float]], methods: int) -> str:
    """Say how many more questions would show `best` to be better than its rivals: the fewest and the most.

    `rivals` has by label the differences of `best` and the rival, by question, and `methods` is how many are compared.
    Where all means are equal, say what the difference may be, and how many questions would show a given one. "" without
    rivals, and with too few questions.
    """
    pairs = methods * (methods - 1) // 2
    if not rivals or min(map(len, rivals.values())) < FEWEST_DIFFERENCES:
        return ""
    more = sorted((_count_more(differences, pairs), rival) for rival, differences in rivals.items())
    (fewest, first), (most, last) = more[0], more[-1]
    power = f"({100 * POWER:.0f} % power)"
    if fewest == inf:
        return _describe_equal_means(best, first, rivals[first], pairs, power)
    sentence = (
        f"{about_questions(fewest).capitalize()} more question{'' if fewest == 1 else 's'} would show {best} ahead of"
    )
    equal = most == inf  # the means of the two are, so no number of questions would
    also = "" if len(more) == 1 or equal else f", and {about_questions(most)} ahead of {last}"
    return f"{sentence} {first}{also}, if the difference stays {power}."


def _describe_equal_means(best: str, rival: str, differences: Sequence[float], pairs: int, power: str) -> str:
    """Say what the difference of two methods may be, and how many more questions would show one that these do not."""
    low, high = map(points, paired_interval(np.array(differences)))
    sentence = f"The difference of {best} and {rival} may be {low} to {high} points"
    for size in _STATED_DIFFERENCES:
        count = _count_more(differences, pairs, size)
        if count > 1:
            return f"{sentence}; {about_questions(count)} more questions would show one of {100 * size:.0f} {power}."
    return f"{sentence}."


def list_differences(compared: ComparedMethods, best: str, rival: str, metric: str) -> list[float]:
    """Return the differences of two methods by a metric, of each question for which both have it."""
    a, b = (compared.method(label).per_query for label in (best, rival))
    return [a[id][metric] - b[id][metric] for id in a if metric in a[id] and metric in b[id]]


def _typical_size(differences: Sequence[float]) -> float:
    """Return how large differences are where there are any, weighted by their size; 1, the most, if all are 0."""
    total = fsum(map(abs, differences))
    return fsum(difference * difference for difference in differences) / total if total else 1.0


def _count_pairs(compared: ComparedMethods) -> int:
    count = len(compared.methods)
    return count * (count - 1) // 2


# ---------------------------------------------------------------- questions that no document answers


FEWEST_OF_EACH = 2
"""Questions that are answerable, and that are not, without which no threshold can be chosen on the others."""


def measure_finds_nothing(methods: Sequence[MethodResult], gold: Mapping[str, Gold] | None) -> tuple[FindsNothing, ...]:
    """Return how often each method finds nothing; () if too few questions are answerable, or not.

    Questions that a method did not answer are left out.
    """
    measured = []
    for method in methods:
        best = {
            answer.query_id: max((hit.score for hit in answer.hits), default=-np.inf)
            for answer in method.final
            if answer.error is None
        }
        answered = {id: of_query for id, of_query in (gold or {}).items() if id in best}
        answerable = np.array([best[id] for id, of_query in answered.items() if of_query.doc_ids])
        unanswerable = np.array([best[id] for id, of_query in answered.items() if not of_query.answerable])
        if min(len(answerable), len(unanswerable)) >= FEWEST_OF_EACH:
            measured.append(_measure(method.label, answerable, unanswerable))
    return tuple(measured)


def _measure(label: str, answerable: SampleArray, unanswerable: SampleArray) -> FindsNothing:
    rightly = [
        score < choose_threshold(answerable, np.delete(unanswerable, at)) for at, score in enumerate(unanswerable)
    ]
    wrongly = [score < choose_threshold(np.delete(answerable, at), unanswerable) for at, score in enumerate(answerable)]
    threshold = choose_threshold(answerable, unanswerable)
    return FindsNothing(label, _share(rightly), _share(wrongly), threshold if threshold > _NO_HITS else None)


_NO_HITS = float(np.nextafter(-np.inf, 0))  # the lowest threshold: only questions without hits lie below it


def choose_threshold(answerable: SampleArray, unanswerable: SampleArray) -> float:
    """Return the score with the greatest balanced accuracy, between two scores; best scores below it find nothing."""
    scores = np.unique(np.concatenate([answerable, unanswerable]))
    scores = scores[np.isfinite(scores)]
    between = scores[:-1] + np.diff(scores) / 2
    thresholds = np.array([_NO_HITS, *between, *np.nextafter(scores[-1:], np.inf)])
    below, lost = (np.searchsorted(np.sort(group), thresholds) / len(group) for group in (unanswerable, answerable))
    return float(thresholds[np.argmax(below - lost)])


def _share(outcomes: Sequence[bool]) -> QuestionShare:
    from scipy.stats import binomtest  # takes a second to import

    exact = binomtest(sum(map(bool, outcomes)), len(outcomes)).proportion_ci(1 - LEVEL)  # Clopper and Pearson 1934
    return QuestionShare(sum(map(bool, outcomes)), len(outcomes), float(exact.low), float(exact.high))
