"""Tests by sign flips, held against cases done by hand, scipy's, and a version in loops."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_sign_flips import naive_tests
from scipy import stats

from examples import examples
from ragindex_eval.stats.resampling import LEVEL
from ragindex_eval.stats.sign_flips import SignFlipTests, run_sign_flips


def some(questions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Recalls of two methods: many ties, the second a little better."""
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 5, questions) / 4
    return first, np.clip(first + generator.integers(-1, 3, questions) / 4, 0, 1)


def p_value(first: np.ndarray, second: np.ndarray, seed: int = 0) -> float:
    return float(run_sign_flips(np.stack([first, second], axis=1)[:, :, None], [(0, 1)], seed).p[0, 0])


def run_all(rows: list[list[float]], seed: int = 0) -> SignFlipTests:
    """All pairs of methods, by one metric; `rows` are questions."""
    values = np.array(rows, dtype=float)[:, :, None]
    return run_sign_flips(values, list(combinations(range(values.shape[1]), 2)), seed)


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


# ---------------------------------------------------------------- one pair


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
    """0.1 + 0.2 is not 0.3: differences that are equal on paper count as equal, and are no difference if they are 0."""
    first, second = np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.2, 0.1])
    assert p_value(first, second) == 1.0
    sums = np.full(100, 0.1 + 0.2)
    assert p_value(sums, np.full(100, 0.3)) == 1.0


def test_several_metrics_and_pairs_at_once_are_each_alone() -> None:
    generator = np.random.default_rng(5)
    values = generator.integers(0, 3, (11, 4, 2)) / 2
    pairs = [(0, 1), (0, 3), (2, 1)]
    found = run_sign_flips(values, pairs, 0).p
    assert found.shape == (3, 2)
    for at, (one, other) in enumerate(pairs):
        for metric in range(2):
            assert found[at, metric] == pytest.approx(p_value(values[:, one, metric], values[:, other, metric]))


def test_the_same_seed_gives_the_same_figures() -> None:
    first, second = some(300, 4)
    assert p_value(first, second, 1) == p_value(first, second, 1)


@settings(max_examples=examples(30))
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


# ---------------------------------------------------------------- all pairs


def test_step_down_and_best_by_hand() -> None:
    """Three questions, three methods: a - b is 1, 1, 1; a - c is 1, 1, 0; b - c is 0, 0, -1.

    The statistics are 3/√3 = 1.73, 2/√2 = 1.41 and -1/1. Up to a flip of everything, which changes no size, the four
    patterns give sizes of
        + + +   1.73  1.41  1
        + + -   0.58  1.41  1
        + - +   0.58  0     1
        - + +   0.58  0     1
    a-b: 1.73 is reached by one of four. a-c: the larger of itself and b-c reaches 1.41 in two of four. b-c: always.

    As the best, a is behind none: p = 1. b is behind a by 1.73, which its rivals reach under one of eight patterns. c
    is behind a by 1.41, reached under two of eight. Both are doubled.
    """
    found = run_all([[1, 0, 0], [1, 0, 0], [1, 0, 1]])
    assert found.p[:, 0].tolist() == [0.25, 0.5, 1.0]
    assert found.adjusted[:, 0].tolist() == [0.25, 0.5, 1.0]
    assert found.best[:, 0].tolist() == [1.0, 0.25, 0.5]


def test_it_is_stronger_than_bonferroni_for_correlated_pairs() -> None:
    """Methods b, c and d are the same: three pairs are one test, and three have no difference."""
    found = run_all([[1, 0, 0, 0]] * 6)
    assert found.p[:, 0].tolist() == [1 / 32] * 3 + [1.0] * 3
    assert found.adjusted[:, 0].tolist() == [1 / 32] * 3 + [1.0] * 3
    assert found.best[:, 0].tolist() == [1.0] + [1 / 32] * 3


quarters = st.integers(0, 4).map(lambda one: one / 4)


@settings(max_examples=examples(40))
@given(
    st.integers(2, 4).flatmap(lambda m: st.lists(st.lists(quarters, min_size=m, max_size=m), min_size=1, max_size=7))
)
def test_all_p_are_those_of_students_t_in_loops(rows: list[list[float]]) -> None:
    pairs = list(combinations(range(len(rows[0])), 2))
    found, (p, adjusted, best) = run_all(rows), naive_tests(rows, pairs)
    assert found.p[:, 0] == pytest.approx(p)
    assert found.adjusted[:, 0] == pytest.approx(adjusted)
    assert found.best[:, 0] == pytest.approx(best)


def test_drawn_patterns_come_near_those_in_loops() -> None:
    generator = np.random.default_rng(2)
    rows = (generator.random((40, 4)) + np.array([0.0, 0.1, 0.2, 0.25])).tolist()
    found, (p, adjusted, best) = run_all(rows), naive_tests(rows, list(combinations(range(4), 2)), drawn=4_000)
    assert found.p[:, 0] == pytest.approx(p, abs=0.03)
    assert found.adjusted[:, 0] == pytest.approx(adjusted, abs=0.03)
    assert found.best[:, 0] == pytest.approx(best, abs=0.06)


def test_a_pair_is_tested_over_the_questions_that_both_have() -> None:
    """The correction covers all pairs, and each pair has its own p as if the others were not there."""
    generator = np.random.default_rng(3)
    values = generator.random((12, 3))
    values[:3, 1] = values[2:6, 2] = np.nan
    found = run_sign_flips(values[:, :, None], [(0, 1), (0, 2), (1, 2)], 0)
    assert found.p[0, 0] == pytest.approx(p_value(values[3:, 0], values[3:, 1]))
    assert found.p[1, 0] == pytest.approx(
        p_value(np.delete(values[:, 0], slice(2, 6)), np.delete(values[:, 2], slice(2, 6)))
    )
    assert found.p[2, 0] == pytest.approx(p_value(values[6:, 1], values[6:, 2]))
    assert (found.adjusted >= found.p).all()


def test_a_method_without_any_question_and_a_single_question_decide_nothing() -> None:
    nothing = np.stack([np.ones(6), np.zeros(6), np.full(6, np.nan)], axis=1)[:, :, None]
    found = run_sign_flips(nothing, [(0, 1), (0, 2), (1, 2)], 0)
    assert found.adjusted[:, 0].tolist() == [1 / 32, 1.0, 1.0]
    assert found.best[:, 0].tolist() == [1.0, 1 / 32, 1.0]
    one = run_all([[1, 0, 0.5]])
    assert one.p[:, 0].tolist() == one.adjusted[:, 0].tolist() == [1.0] * 3
    assert one.best[:, 0].tolist() == [1.0] * 3
    alone = run_sign_flips(np.ones((5, 1, 2)), [], 0)
    assert (alone.p.shape, alone.best.tolist()) == ((0, 2), [[1.0, 1.0]])


def test_small_chunks_give_the_same_counts_as_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(4).random((11, 5)).tolist()
    whole = run_all(rows)
    monkeypatch.setattr("ragindex_eval.stats.sign_flips._CELLS", 60)
    parts = run_all(rows)
    assert np.array_equal(whole.adjusted, parts.adjusted)
    assert np.array_equal(whole.best, parts.best)


def test_the_false_alarms_of_all_pairs_are_as_many_as_they_should_be() -> None:
    """Of four methods that do not differ, any is told apart in about one comparison of twenty, and no more."""
    generator = np.random.default_rng(11)
    alarms = 0
    for trial in range(200):
        values = generator.integers(0, 3, (40, 4, 1)) / 2
        found = run_sign_flips(values, list(combinations(range(4), 2)), trial, 500)
        alarms += bool(found.adjusted.min() < LEVEL)
    assert 3 <= alarms <= 18
