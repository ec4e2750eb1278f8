"""Intervals, held against scipy's and against cases done by hand."""

import numpy as np
import pytest
from scipy import stats

from ragindex_eval.stats.resampling import interval, percentile_intervals, resampled_means


def some(questions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Recalls of two methods: many ties, the second a little better."""
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 5, questions) / 4
    return first, np.clip(first + generator.integers(-1, 3, questions) / 4, 0, 1)


@pytest.mark.parametrize("questions", [20, 100, 700])
def test_the_interval_of_a_mean_is_scipys(questions: int) -> None:
    values = some(questions, 3)[1]
    expected = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(7)
    ).confidence_interval
    found = interval(resampled_means(values[:, None], 0)[:, 0])
    assert found == pytest.approx(
        (expected.low, expected.high), abs=0.3 / questions
    )  # the means of quarters lie 0.25 / questions apart


def test_the_interval_of_a_percentile_is_scipys() -> None:
    values = np.random.default_rng(1).lognormal(1.0, 0.5, 200)
    for percent, found in zip((50, 95), percentile_intervals(values, (50, 95), 0), strict=True):
        expected = stats.bootstrap(
            (values,),
            lambda sample, axis, percent=percent: np.percentile(sample, percent, axis=axis),
            method="percentile",
            n_resamples=10_000,
            rng=np.random.default_rng(7),
        ).confidence_interval
        assert found == pytest.approx((expected.low, expected.high), rel=0.03)


def test_the_interval_of_two_questions_by_hand() -> None:
    """Drawn from 0 and 1: the mean is 0 a quarter of the time, 1 a quarter of the time."""
    means = resampled_means(np.array([[0.0], [1.0]]), 0)[:, 0]
    assert set(means) == {0.0, 0.5, 1.0}
    assert float((means == 0.0).mean()) == pytest.approx(0.25, abs=0.02)
    assert interval(means) == (0.0, 1.0)


def test_equal_values_have_an_interval_without_width() -> None:
    assert interval(resampled_means(np.full((50, 1), 0.75), 0)[:, 0]) == (0.75, 0.75)


def test_the_same_seed_gives_the_same_figures() -> None:
    values = some(300, 4)[0][:, None]
    assert np.array_equal(resampled_means(values, 1), resampled_means(values, 1))
    assert not np.array_equal(resampled_means(values, 1), resampled_means(values, 2))
