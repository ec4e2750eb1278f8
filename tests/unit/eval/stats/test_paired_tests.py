"""Paired tests, held against cases done by hand, SciPy's t tests, and draws of whole questions in loops."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from examples import examples
from ragindex_eval.stats.intervals import LEVEL
from ragindex_eval.stats.paired_tests import PairedTests, paired_interval, run_paired_tests


def run_all(rows: object, largest: float | None = 1.0, draws: int = 1_000) -> PairedTests:
    """All pairs of methods, by one metric; `rows` are questions."""
    values = np.array(rows, dtype=float)[:, :, None]
    return run_paired_tests(values, list(combinations(range(values.shape[1]), 2)), 0, largest, draws)


@settings(max_examples=examples(40))
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=30))
def test_p_is_that_of_a_t_test_with_two_more_questions(quarters: list[int]) -> None:
    differences = np.array(quarters) / 4
    tests = run_all(np.stack([differences, np.zeros(len(differences))], axis=1))
    expected = stats.ttest_1samp([*differences, 1.0, -1.0], 0)
    assert tests.p[0, 0] == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert paired_interval(differences) == pytest.approx((max(-1, interval.low), min(1, interval.high)))


def test_equal_methods_have_an_interval_and_p_one() -> None:
    tests = run_all([[0.5, 0.5, 0.5]] * 20)
    assert tests.p.tolist() == tests.adjusted.tolist() == [[1.0]] * 3
    assert (tests.low < -0.1).all()
    assert (tests.high == -tests.low).all()


def test_rounding_is_no_difference() -> None:
    tests = run_all([[0.1 + 0.2, 0.3]] * 100, None)
    assert (tests.p[0, 0], tests.low[0, 0], tests.high[0, 0]) == (1.0, 0.0, 0.0)


def test_correction_is_for_pairs_that_differ_and_correlate() -> None:
    """Methods b, c and d are the same: three pairs are one test. Bonferroni would multiply by six."""
    tests = run_all([[1, 0, 0, 0]] * 8 + [[0, 0, 0, 0]] * 8)
    p = stats.ttest_1samp([1] * 9 + [0] * 8 + [-1], 0).pvalue
    assert tests.p[:3, 0] == pytest.approx([p] * 3)
    assert p <= tests.adjusted[0, 0] < 4 * p
    assert tests.adjusted[3:, 0].tolist() == [1.0] * 3


def test_adjusted_p_is_that_of_drawn_questions() -> None:
    """Gaussian weights of whole questions give the same joint distribution, here in loops."""
    generator = np.random.default_rng(2)
    rows = np.clip(generator.random((40, 4)) + np.array([0.0, 0.1, 0.2, 0.25]), 0, 1)
    pairs = list(combinations(range(4), 2))
    augmented = [[*(rows[:, first] - rows[:, other]), 1.0, -1.0] for first, other in pairs]
    scaled = [(np.array(column) - np.mean(column)) / np.std(column, ddof=1) for column in augmented]
    observed = [abs(np.mean(column)) / np.std(column, ddof=1) * math.sqrt(42) for column in augmented]
    reached, draws = np.zeros(6), 4_000
    for _ in range(draws):
        weights, scale = generator.standard_normal(42), math.sqrt(generator.chisquare(41) / 41)
        highest = max(abs(float(weights @ column)) / math.sqrt(41) / scale for column in scaled)
        reached += [highest >= value for value in observed]
    assert run_all(rows, draws=10_000).adjusted[:, 0] == pytest.approx(reached / draws, abs=0.03)


def test_pair_is_tested_over_the_questions_that_both_have() -> None:
    values = np.random.default_rng(3).random((12, 3))
    values[:3, 1] = values[2:6, 2] = np.nan
    tests = run_all(values)
    shared = values[:, 0] - values[:, 1]
    assert tests.p[0, 0] == pytest.approx(run_all(values[3:, :2]).p[0, 0])
    assert paired_interval(shared[3:])[0] >= tests.low[0, 0]
    assert (tests.adjusted >= tests.p).all()
    nothing = run_all(np.stack([np.ones(6), np.zeros(6), np.full(6, np.nan)], axis=1))
    assert nothing.p[1:, 0].tolist() == [1.0, 1.0]


def test_metrics_and_pairs_are_each_alone() -> None:
    values = np.random.default_rng(5).integers(0, 3, (11, 4, 2)) / 2
    pairs = [(0, 1), (0, 3), (2, 1)]
    tests = run_paired_tests(values, pairs, 0)
    for number, (first, other) in enumerate(pairs):
        for metric in range(2):
            alone = run_all(values[:, [first, other], metric])
            assert tests.p[number, metric] == pytest.approx(alone.p[0, 0])
    assert run_paired_tests(np.ones((5, 1, 2)), [], 0).p.shape == (0, 2)


metrics = st.integers(0, 4).map(lambda quarters: quarters / 4)
tables = st.integers(2, 5).flatmap(
    lambda m: st.lists(st.lists(metrics, min_size=m, max_size=m), min_size=1, max_size=40)
)


@settings(max_examples=examples(60))
@given(tables, st.sampled_from([1.0, None]))
def test_interval_and_p_never_disagree(rows: list[list[float]], largest: float | None) -> None:
    tests = run_all(rows, largest)
    outside = (tests.low > 0) | (tests.high < 0)
    assert (outside == (tests.adjusted < LEVEL)).all()
    values = np.array(rows)
    for number, (first, other) in enumerate(combinations(range(values.shape[1]), 2)):
        difference = float((values[:, first] - values[:, other]).mean())
        assert tests.low[number, 0] - 1e-9 <= difference <= tests.high[number, 0] + 1e-9


@pytest.mark.parametrize("draws", [999, 1_000])  # 5 % of one draw more is a whole number, or is not
@pytest.mark.parametrize("methods", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_interval_ends_at_zero_where_the_corrected_p_reaches_the_level(seed: int, methods: int, draws: int) -> None:
    """The first method's gain is halved in on: p falls below 5 % where the interval of the first pair leaves 0."""
    noise = np.random.default_rng(seed).normal(0, 0.1, (30, methods))

    def run_with(gain: float) -> PairedTests:
        return run_all(noise + np.where(np.arange(methods) == 0, gain, 0.0), draws=draws)

    least, most = -0.2, 0.4
    for _ in range(50):
        middle = (least + most) / 2
        least, most = (least, middle) if run_with(middle).adjusted[0, 0] < LEVEL else (middle, most)
    assert run_with(least).low[0, 0] <= 0 < run_with(most).low[0, 0] < 1e-6


@pytest.mark.parametrize("scale", [1e-6, 1e3])
def test_unit_of_unbounded_values_changes_only_the_intervals(scale: float) -> None:
    rows = np.random.default_rng(4).random((25, 3)) + np.array([0.0, 0.1, 0.3])
    tests, scaled = run_all(rows, None), run_all(rows * scale, None)
    assert scaled.p == pytest.approx(tests.p)
    assert scaled.adjusted == pytest.approx(tests.adjusted)
    assert (scaled.low / scale, scaled.high / scale) == (pytest.approx(tests.low), pytest.approx(tests.high))


def test_corrected_p_is_never_below_one_in_all_draws() -> None:
    assert run_all([[1, 0]] * 200, draws=1_000).adjusted[0, 0] == pytest.approx(1 / 1_001)
