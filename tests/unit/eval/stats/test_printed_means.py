"""Bounds from printed means, held against every sample of few questions, random samples, and SciPy's tests."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from examples import examples
from ragindex_eval.stats.paired_tests import run_paired_tests
from ragindex_eval.stats.printed_means import (
    BINARY,
    GRADED,
    PrintedMean,
    bound_p,
    fitting_counts,
    mcnemar_p,
    most_disagreements,
    needed_correlation,
    needed_questions,
    paired_p,
    plausible_p,
    plausible_spreads,
    spread_of,
)

TOLERANCE = 1e-9


def printed(values: np.ndarray, decimals: int, *, binary: bool) -> PrintedMean:
    """The mean of the values as a table in percent with so many decimals prints it."""
    shown, half = round(100 * float(values.mean()), decimals) / 100, 0.5 * 10.0**-decimals / 100
    return PrintedMean(len(values), shown - half, shown + half, binary=binary)


def p_of_sample(first: np.ndarray, second: np.ndarray) -> float:
    table = np.stack([first, second], axis=1)[:, :, None].astype(float)
    return float(run_paired_tests(table, [(0, 1)], 0, resamples=100).p[0, 0])


def exact_p_of_sample(first: np.ndarray, second: np.ndarray) -> float:
    wins, losses = int((first > second).sum()), int((first < second).sum())
    return float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=80), st.integers(0, 2))
def test_bounds_hold_p_of_every_binary_sample(answers: list[tuple[bool, bool]], decimals: int) -> None:
    first, second = np.array(answers, dtype=float).T
    bounds = bound_p(*(printed(values, decimals, binary=True) for values in (first, second)))
    assert bounds.least - TOLERANCE <= p_of_sample(first, second) <= bounds.most + TOLERANCE
    assert bounds.exact is not None
    assert bounds.exact[0] - TOLERANCE <= exact_p_of_sample(first, second) <= bounds.exact[1] + TOLERANCE


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=60),
    st.integers(0, 3),
    st.sampled_from([1, 4]),
)
def test_bounds_hold_p_of_every_graded_sample(pairs: list[tuple[float, float]], decimals: int, grades: int) -> None:
    values = np.array(pairs)
    first, second = (values if grades == 1 else np.round(values * grades) / grades).T
    bounds = bound_p(*(printed(column, decimals, binary=False) for column in (first, second)))
    assert bounds.least - TOLERANCE <= p_of_sample(first, second) <= bounds.most + TOLERANCE
    assert bounds.exact is None


@pytest.mark.parametrize("questions", [1, 2, 3, 4, 5])
def test_bounds_are_the_ends_of_all_binary_samples(questions: int) -> None:
    """Every pair of samples of so few questions, by its two counts of right answers."""
    seen: dict[tuple[float, float], list[tuple[float, float]]] = {}
    for first, second in product(product((0.0, 1.0), repeat=questions), repeat=2):
        a, b = np.array(first), np.array(second)
        seen.setdefault((a.mean(), b.mean()), []).append((p_of_sample(a, b), exact_p_of_sample(a, b)))
    for means, both in seen.items():
        bounds = bound_p(*(PrintedMean(questions, mean, mean, binary=True) for mean in means))
        ours, exact = zip(*both, strict=True)
        assert (bounds.least, bounds.most) == pytest.approx((min(ours), max(ours)))
        assert bounds.exact == pytest.approx((min(exact), max(exact)))


def test_graded_least_bound_is_reached_by_equal_differences() -> None:
    first, second = np.full(50, 0.46), np.full(50, 0.42)
    bounds = bound_p(*(PrintedMean(50, mean, mean, binary=False) for mean in (0.46, 0.42)))
    assert bounds.least == pytest.approx(p_of_sample(first, second))


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_scipys_binomial_test(wins: int, losses: int) -> None:
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert mcnemar_p(wins, losses) == pytest.approx(expected)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40))
def test_paired_p_is_scipys_t_test_with_two_more_questions(differences: list[float]) -> None:
    array = np.array(differences)
    expected = stats.ttest_1samp([*array, 1.0, -1.0], 0).pvalue
    assert paired_p(len(array), float(array.sum()), float((array**2).sum())) == pytest.approx(expected, abs=1e-7)


def test_threshold_of_disagreements_is_where_p_is_the_level() -> None:
    first, second = (PrintedMean(1000, mean, mean, binary=True) for mean in (0.45, 0.40))
    most = most_disagreements(first, second, 0.05)
    assert paired_p(1000, 50, most) == pytest.approx(0.05)


def test_needed_correlation_is_where_p_is_the_level() -> None:
    first, second = (PrintedMean(500, mean, mean, binary=False) for mean in (0.456, 0.417))
    needed = needed_correlation(first, second, 0.05)
    assert needed is not None
    spread = math.sqrt(0.456 * 0.544 + 0.417 * 0.583 - 2 * needed * math.sqrt(0.456 * 0.544 * 0.417 * 0.583))
    assert paired_p(500, 19.5, 500 * spread**2 + 500 * 0.039**2) == pytest.approx(0.05)
    assert needed_correlation(first, first, 0.05) is None


def test_few_differences_cannot_spread_less_than_they_are() -> None:
    """Of 0 and 1, a mean difference of 0.1 takes at least a tenth of the questions."""
    assert spread_of(0.5, 0.4, 1.0) == pytest.approx(math.sqrt(0.1 * 0.9))


def test_needed_questions_show_the_difference() -> None:
    narrow, wide = needed_questions(0.456, 0.417, GRADED)
    assert 100 < narrow < wide < 10_000
    _, most = plausible_spreads(0.456, 0.417, GRADED)
    assert wide == pytest.approx(7.85 * (most / 0.039) ** 2, rel=0.15)  # the normal distribution's (1.96 + 0.84)²
    assert needed_questions(0.4, 0.4, GRADED) == (math.inf, math.inf)


def test_plausible_p_is_between_the_bounds() -> None:
    for questions, p, q, binary in (
        (500, 0.456, 0.417, False),
        (1000, 0.405, 0.364, True),
        (19, 14 / 19, 11 / 19, True),
    ):
        first, second = (PrintedMean(questions, mean, mean, binary=binary) for mean in (p, q))
        bounds = bound_p(first, second)
        narrow, wide = plausible_p(first, second, BINARY if binary else GRADED)
        assert bounds.least - TOLERANCE <= narrow < wide <= bounds.most + TOLERANCE


def test_figure_that_no_count_gives() -> None:
    """32.4 % is no whole number of 125 answers; it is 81 of 250."""
    assert PrintedMean(125, 0.3235, 0.3245, binary=True).sums is None
    assert PrintedMean(250, 0.3235, 0.3245, binary=True).sums == (81.0, 81.0)
    assert fitting_counts(0.3235, 0.3245, 125, 1000) == 136  # 44 of 136 rounds to it too
    assert fitting_counts(0.57895, 0.57896, 2, 18) is None
