"""Whatever the samples: a method called better is so by the tested value, and by what is shown beside it."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_comparisons import make_comparison

from examples import examples
from ragindex.types import Usage
from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.conclusions.leaders import DRIFT, better, leaders
from ragindex_eval.report import tables as table
from ragindex_eval.report.sections.differences import render_pairs
from ragindex_eval.results.model import COSTS, LATENCY, Comparison
from ragindex_eval.stats.intervals import LEVEL

FASTER = re.compile(
    r"Of (.+?), (\w+) is fastest: ([\d.,]+) times as fast as (\w+) \([\d.,]+ to [\d.,]+, geometric mean\)"
)
BEST = re.compile(r"(\w+) is best at (R@5) .*?, over (\w+)\)")


def test_a_difference_that_is_told_is_never_shown_as_0() -> None:
    """8,000 questions tell a difference of four hundredths of a point."""
    scores = [0.5008, 0.5] * 4000
    comparison = make_comparison({"a": scores, "b": [0.5] * 8000})
    assert leaders(comparison, "R@5") == ("a",)
    assert "+0.04, +0.005 to +0.1, over b" in state_conclusion(comparison)


@st.composite
def samples(draw: st.DrawFn) -> tuple[dict[str, list[float]], dict[str, list[float]], dict[str, list[Usage]]]:
    """Recalls, milliseconds and usage of three methods: alike or not, with tails, questions missing, money unknown."""
    count = draw(st.integers(2, 40))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    base = generator.lognormal(1.0, draw(st.sampled_from([0.05, 1.0, 2.5])), count)
    recalls, milliseconds, usages = {}, {}, {}
    for label in "abc":
        level = draw(st.sampled_from([0.2, 0.8, 0.9]))
        recalls[label] = (generator.random(count) < level).astype(float).tolist()
        own = base * draw(st.sampled_from([1.0, 1.5, 2.4, 6.0])) * generator.lognormal(0.0, 0.2, count)
        tail = generator.random(count) < draw(st.sampled_from([0.0, 0.1, 0.4]))
        own[tail] *= draw(st.sampled_from([3.0, 40.0]))
        milliseconds[label] = own[: draw(st.sampled_from([count, count, max(1, count // 2)]))].tolist()
        money = draw(st.sampled_from([0.0, 0.001, 0.01, None]))
        tokens = generator.integers(1, 100, count)
        usages[label] = [Usage(0.0, int(n), int(n) // 2, None if money is None else money * int(n)) for n in tokens]
    return recalls, milliseconds, usages


@given(samples())
@settings(max_examples=examples(20))
def test_words_values_tests_and_figures_agree(
    drawn: tuple[dict[str, list[float]], dict[str, list[float]], dict[str, list[Usage]]],
) -> None:
    recalls, milliseconds, usages = drawn
    comparison = make_comparison(recalls, milliseconds, paid=usages)
    conclusion = state_conclusion(comparison)
    for _, fast, ratio, slow in FASTER.findall(conclusion):
        holds_faster(comparison, fast, slow, float(ratio.replace(",", "")))
        assert {fast, slow} <= set(leaders(comparison, "R@5"))
    assert conclusion.count("is fastest") == len(FASTER.findall(conclusion))
    for best, metric, other in BEST.findall(conclusion):
        assert comparison.pair(best, other, metric).excess > 0
        assert comparison.method(best).metrics[metric] > comparison.method(other).metrics[metric]
        assert leaders(comparison, metric) == (best,)
    for metric in ("R@5", LATENCY, *COSTS):
        holds_table(comparison, metric)


def holds_faster(comparison: Comparison, fast: str, slow: str, ratio: float) -> None:
    pair, first, other = comparison.pair(fast, slow, LATENCY), comparison.method(fast), comparison.method(slow)
    assert pair.excess < 0
    assert pair.p_adjusted < LEVEL
    assert 1 / pair.value == pytest.approx(ratio, rel=0.06)
    assert pair.ci95 is not None
    assert pair.ci95[0] <= pair.value <= pair.ci95[1] < 1
    assert (first.latency.total.p50 or 0) * DRIFT <= (other.latency.total.p50 or 0)
    assert (first.latency.total.p95 or 0) <= (other.latency.total.p95 or 0)


def holds_table(comparison: Comparison, metric: str) -> None:
    """Every cell of the matrix, and who is in bold."""
    labels = [method.label for method in comparison.methods]
    for a in labels:
        for b in labels:
            if better(comparison, a, b, metric):
                assert not better(comparison, b, a, metric)
                pair = comparison.pair(a, b, metric)
                assert pair.p_adjusted < LEVEL
                assert (pair.excess > 0) == (metric == "R@5")
                assert (figure(comparison, a, metric) > figure(comparison, b, metric)) == (metric == "R@5")
    good = {"better", "faster", "less"}
    matrix = next((pairs for pairs in render_pairs(comparison) or () if pairs.metric == metric), None)
    for a, row in zip(labels, matrix.rows if matrix else (), strict=False):
        for b, cell in zip(labels, row, strict=True):
            assert (cell.word in good) == (a != b and better(comparison, a, b, metric))
    if metric in ("R@5", LATENCY):
        for label in table.methods_ahead(comparison, metric):
            assert not any(better(comparison, other, label, metric) for other in leaders(comparison, metric)[:1])


def figure(comparison: Comparison, label: str, metric: str) -> float:
    method = comparison.method(label)
    if metric == LATENCY:
        return method.latency.total.p50 or 0.0
    return float(getattr(method.query_usage, metric)) if metric in COSTS else method.metrics[metric]
