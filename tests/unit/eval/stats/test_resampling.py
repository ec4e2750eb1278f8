"""Intervals, held against scipy's and against cases done by hand."""

import numpy as np
import pytest
from scipy import stats

from ragindex_eval.stats.resampling import cost_interval


@pytest.mark.parametrize("questions", [20, 100, 700])
def test_the_interval_of_a_mean_is_scipys(questions: int) -> None:
    costs = np.random.default_rng(3).lognormal(6.0, 0.5, questions)
    expected = stats.bootstrap(
        (costs,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(7)
    ).confidence_interval
    assert cost_interval(costs, 0) == pytest.approx((expected.low, expected.high), rel=0.02)


def test_the_interval_of_two_questions_by_hand() -> None:
    """Drawn from 0 and 1: the mean is 0 a quarter of the time, 1 a quarter of the time. Equal costs have no spread."""
    assert cost_interval(np.array([0.0, 1.0]), 0) == (0.0, 1.0)
    assert cost_interval(np.full(50, 0.75), 0) == (0.75, 0.75)


def test_the_same_seed_gives_the_same_figures() -> None:
    costs = np.random.default_rng(4).random(300)
    assert cost_interval(costs, 1) == cost_interval(costs, 1) != cost_interval(costs, 2)
