"""Whether methods tell questions that no document answers from others, by the score of their best hit.

A method finds nothing if its best score lies below a threshold. The threshold for a question is chosen on all others
(leave-one-out), where it has the greatest balanced accuracy: the mean of the share of unanswerable questions below it
and that of the others above it. Of thresholds that are equally good the lowest is taken, which drops fewest hits.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ragindex_eval.data.gold import Gold
from ragindex_eval.results.model import MethodResult
from ragindex_eval.results.records import FindsNothing, QuestionShare
from ragindex_eval.stats.intervals import LEVEL, SampleArray

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
