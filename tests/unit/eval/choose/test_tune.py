"""Nested cross-validation by hand: which bases stay, what is claimed in sample and found out of fold."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from ragindex_eval.choose.tune import Judged, fit_nested
from ragindex_eval.stats.logistic import JudgedCandidates

KS = (1, 2)


def judged(names: Sequence[str], questions: Sequence[Sequence[Sequence[float]]], right: Sequence[int]) -> Judged:
    """One relevant candidate each, at the place that `right` says."""
    candidates = []
    for features, place in zip(questions, right, strict=True):
        relevant = tuple("d" if row == place else "" for row in range(len(features)))
        ids = tuple(f"p{row}" for row in range(len(features)))
        candidates.append(JudgedCandidates(np.array(features, float), relevant, ids, 1))
    return Judged(tuple(candidates), tuple(names), (True,) * len(names))


def test_a_base_that_adds_nothing_is_dropped() -> None:
    """`rank:good` finds every passage first, `links_rank` one of two, and `copy` the same ones, by both its columns."""
    half, other = [[0, 0, 0, 0], [1 / 6, 1 / 7, 1 / 6, 1 / 6]], [[0, 0, 0, 0], [0, 1 / 2, 0, 0]]
    names = ("links_rank", "rank:good", "rank:copy", "second_question:copy")
    nested = fit_nested(judged(names, [half, other] * 20, [1] * 40), KS, 0)
    assert nested.bases == ("good",)
    assert nested.dropped == {"copy": 0.0}
    assert nested.out_of_fold == nested.in_sample == (1.0, 1.0)
    assert nested.best_single == "good"
    assert nested.single == (1.0, 1.0)
    assert nested.gain == (0.0, 0.0)
    for low, high in nested.interval:  # other questions may differ
        assert low == -high == pytest.approx(-0.0793, abs=1e-4)
    assert (nested.p, nested.gains) == ((1.0, 1.0), False)
    assert set(nested.weights) == {"links_rank", "rank:good"}


def test_the_gain_over_the_best_single_ranking_is_that_of_both_together() -> None:
    """Each of two rankings finds the passages of half of the questions, and is silent in the others."""
    first, second = [[0, 0], [1 / 6, 0]], [[0, 0], [0, 1 / 6]]
    nested = fit_nested(judged(("links_rank", "rank:good"), [*[first] * 24, *[second] * 16], [1] * 40), KS, 0)
    assert (nested.best_single, nested.single) == ("links", (0.6, 1.0))
    assert nested.out_of_fold == (1.0, 1.0)
    assert nested.gain == (0.4, 0.0)
    low, high = nested.interval[0]
    # t tests of 16 gains, 24 zeros and the two added ones; for two k
    tested = stats.ttest_1samp([1.0] * 17 + [0.0] * 24 + [-1.0], 0.0)
    assert (low, high) == pytest.approx(tested.confidence_interval(0.975))
    assert nested.p == (pytest.approx(2 * tested.pvalue), 1.0)
    assert nested.gains
    assert nested.bases == ("good",)


def test_few_gains_among_many_level_questions_are_not_significant() -> None:
    """Of 40 questions the weights gain 5 and lose none."""
    first, second = [[0, 0], [1 / 6, 0]], [[0, 0], [0, 1 / 6]]
    nested = fit_nested(judged(("links_rank", "rank:good"), [*[first] * 35, *[second] * 5], [1] * 40), KS, 0)
    assert nested.gain[0] == pytest.approx(5 / 40)
    assert nested.interval[0][0] < 0
    assert nested.p[0] == pytest.approx(2 * stats.ttest_1samp([1.0] * 6 + [0.0] * 35 + [-1.0], 0.0).pvalue)
    assert not nested.gains


def test_what_holds_for_one_question_alone_is_no_gain_out_of_fold() -> None:
    """Each question has a feature of its own, which tells its passage; without it the passage is the last of two."""
    count = 30
    questions = [[[0.0] * count, [float(n == own) for n in range(count)]] for own in range(count)]
    nested = fit_nested(
        judged(
            [f"mark{n}" for n in range(count)] + ["links_rank"],
            [[[*row, 0.0] for row in question] for question in questions],
            [1] * count,
        ),
        KS,
        0,
    )
    assert nested.in_sample == (1.0, 1.0)
    assert nested.out_of_fold == (0.0, 1.0)
