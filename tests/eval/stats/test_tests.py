"""Intervals and tests, held against scipy's and against cases done by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragindex_eval.stats import resampling
from ragindex_eval.stats.resampling import holm, interval, percentile_intervals, permutation_tests, resampled_means


def some(questions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Recalls of two methods: many ties, the second a little better."""
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 5, questions) / 4
    return first, np.clip(first + generator.integers(-1, 3, questions) / 4, 0, 1)


def p_value(first: np.ndarray, second: np.ndarray, seed: int = 0) -> float:
    return float(permutation_tests(np.stack([first, second], axis=1)[:, :, None], [(0, 1)], seed)[0, 0])


def scipys(first: np.ndarray, second: np.ndarray) -> float:
    found = stats.permutation_test(
        (first, second),
        lambda one, other, axis: np.mean(one - other, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=10_000,
        rng=np.random.default_rng(7),
    )
    return float(found.pvalue)


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


@pytest.mark.parametrize("questions", [2, 5, 12])
def test_few_questions_have_an_exact_p_equal_to_scipys(questions: int) -> None:
    for seed in range(5):
        first, second = some(questions, seed)
        assert p_value(first, second) == pytest.approx(scipys(first, second), abs=1e-12)


@pytest.mark.parametrize("questions", [14, 60, 400])
def test_many_questions_have_a_p_near_scipys(questions: int) -> None:
    first, second = some(questions, 2)
    second = np.where(np.arange(questions) % 4 == 0, second, first)  # so that p lies in between
    expected = scipys(first, second)
    assert p_value(first, second) == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 10_000) + 2e-4)


def test_p_by_hand() -> None:
    """Three questions, each better by the same: of eight sign patterns two are as extreme."""
    assert p_value(np.array([1.0, 1.0, 1.0]), np.zeros(3)) == 0.25
    assert p_value(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.0
    assert p_value(np.array([0.3]), np.array([0.1])) == 1.0


def test_equal_methods_have_p_one_and_certain_ones_the_least_that_can_be() -> None:
    same = some(200, 1)[0]
    assert p_value(same, same) == 1.0
    assert p_value(np.ones(200), np.zeros(200)) == pytest.approx(1 / 10_001)


def test_rounding_makes_no_difference_of_ties() -> None:
    """0.1 + 0.2 is not 0.3: differences that are equal on paper count as equal."""
    first, second = np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.2, 0.1])
    assert p_value(first, second) == 1.0


def test_several_metrics_and_pairs_at_once_are_each_alone() -> None:
    generator = np.random.default_rng(5)
    values = generator.integers(0, 3, (11, 4, 2)) / 2
    pairs = [(0, 1), (0, 3), (2, 1)]
    found = permutation_tests(values, pairs, 0)
    assert found.shape == (3, 2)
    for at, (one, other) in enumerate(pairs):
        for metric in range(2):
            assert found[at, metric] == pytest.approx(p_value(values[:, one, metric], values[:, other, metric]))


def test_the_same_seed_gives_the_same_figures() -> None:
    first, second = some(300, 4)
    assert p_value(first, second, 1) == p_value(first, second, 1)
    values = first[:, None]
    assert np.array_equal(resampled_means(values, 1), resampled_means(values, 1))
    assert not np.array_equal(resampled_means(values, 1), resampled_means(values, 2))


def test_holm_by_hand() -> None:
    """Holm's own steps: 4 x .01, then 3 x .02 and 2 x .03, never less than the one before, and no more than 1."""
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_keeps_the_order_and_never_lowers(values: list[float]) -> None:
    corrected = holm(values)
    assert all(before <= after <= 1 for before, after in zip(values, corrected, strict=True))
    assert all(after <= min(1.0, len(values) * before) for before, after in zip(values, corrected, strict=True))
    by_p = [corrected[at] for at in sorted(range(len(values)), key=lambda at: values[at])]
    assert by_p == sorted(by_p)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=9))
def test_p_is_that_of_all_sign_patterns(pairs: list[tuple[int, int]]) -> None:
    """An independent count, in whole numbers."""
    differences = [one - other for one, other in pairs]
    observed, reached = abs(sum(differences)), 0
    for pattern in range(2 ** len(pairs)):
        total = sum(d if pattern >> at & 1 else -d for at, d in enumerate(differences))
        reached += abs(total) >= observed
    first, second = (np.array(column, dtype=float) / 4 for column in zip(*pairs, strict=True))
    assert p_value(first, second) == pytest.approx(reached / 2 ** len(pairs))


def test_the_false_alarms_are_as_many_as_they_should_be() -> None:
    """Of methods that do not differ, about one in twenty is told apart at p < 0.05, and no more."""
    generator = np.random.default_rng(11)
    alarms = 0
    for trial in range(200):
        values = generator.integers(0, 3, (40, 2)) / 2
        alarms += permutation_tests(values[:, :, None], [(0, 1)], trial, 500)[0, 0] < resampling.LEVEL
    assert 3 <= alarms <= 18
