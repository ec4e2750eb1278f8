"""Intervals, held against scipy's and against cases done by hand."""

import numpy as np
import pytest
from scipy import stats

from ragindex_eval.stats.intervals import cost_interval, percentile_bounds, percentile_interval


@pytest.mark.parametrize("questions", [20, 100, 700])
def test_the_interval_of_a_mean_is_scipys(questions: int) -> None:
    costs = np.random.default_rng(3).lognormal(6.0, 0.5, questions)
    expected = stats.bootstrap(
        (costs,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(7)
    ).confidence_interval
    assert cost_interval(costs, 0) == pytest.approx((expected.low, expected.high), rel=0.02)


def test_bounds_of_percentiles_are_order_statistics() -> None:
    """Of 59 times the 53rd is the largest below the 95th percentile with 95 %: P(Bin(59, 0.95) >= 53) = 0.968.

    The largest is above it with 1 - 0.95^59 = 0.951; of 58, with 0.949.
    """
    times = [float(value) for value in range(1, 60)]
    assert percentile_bounds(times[::-1], 95, 0.05) == (53.0, 59.0)
    assert percentile_bounds(times[:-1], 95, 0.05)[1] is None
    assert percentile_bounds([], 95, 0.05) == (None, None)


@pytest.mark.parametrize(("percent", "fewest"), [(50, 6), (95, 72)])
def test_too_few_values_have_no_interval_of_a_percentile(percent: float, fewest: int) -> None:
    values = np.random.default_rng(1).lognormal(1.0, 0.5, 200)
    assert percentile_interval(values[: fewest - 1].tolist(), percent) is None
    assert percentile_interval(values[:fewest].tolist(), percent) is not None
    exact = stats.quantile_test(values, p=percent / 100).confidence_interval(0.95)
    assert percentile_interval(values.tolist(), percent) == (exact.low, exact.high)


def test_the_interval_of_two_questions_by_hand() -> None:
    """Drawn from 0 and 1: the mean is 0 a quarter of the time, 1 a quarter of the time. Equal costs have no spread."""
    assert cost_interval(np.array([0.0, 1.0]), 0) == (0.0, 1.0)
    assert cost_interval(np.full(50, 0.75), 0) == (0.75, 0.75)


def test_the_same_seed_gives_the_same_figures() -> None:
    costs = np.random.default_rng(4).random(300)
    assert cost_interval(costs, 1) == cost_interval(costs, 1) != cost_interval(costs, 2)
