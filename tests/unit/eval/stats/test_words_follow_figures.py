"""Whatever the samples: who is said to be better is so by the value that was tested, and by what is shown beside it."""

import io
import re
from collections.abc import Sequence

import numpy as np
import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st
from made_comparisons import made
from rich.console import Console

from examples import examples
from ragindex.types import Usage
from ragindex_eval.report import page as report
from ragindex_eval.report.sections import pairs, table
from ragindex_eval.report.terminal import render_study
from ragindex_eval.results.model import COSTS, LATENCY, Comparison, Study
from ragindex_eval.stats.conclusions import DRIFT, better, differ, leaders
from ragindex_eval.stats.first_sentence import state_conclusion
from ragindex_eval.stats.resampling import LEVEL

EQUAL = {"a": [1.0, 0.0] * 100, "b": [1.0, 0.0] * 100}
FASTER = re.compile(
    r"Of (.+?), (\w+) is fastest: ([\d.]+) times faster than (\w+) \([\d.]+ to [\d.]+, geometric mean\)"
)
BEST = re.compile(r"(\w+) is best at (R@5) .*?, over (\w+)\)")


def test_a_median_that_says_otherwise_than_the_mean_makes_nobody_faster() -> None:
    """`a` answers most questions in less than half the time, and takes 126 ms more in the mean, for certain."""
    a, b = [10.0] * 120 + [363.0] * 80, [24.0] * 200
    assert np.median(b) / np.median(a) == 2.4
    assert np.mean(a) - np.mean(b) > 126
    comparison = made(EQUAL, {"a": a, "b": b})
    assert "faster" not in state_conclusion(comparison)
    assert not differ(comparison, "a", "b", LATENCY)
    assert set(words(comparison, LATENCY)) == {"", "no significant difference"}


def test_two_percentiles_that_say_different_things_make_nobody_faster() -> None:
    """Three times as fast in the geometric mean and in p50, and slower in p95: the table would say both."""
    a, b = [1.0] * 185 + [60.0] * 15, [5.0] * 200
    comparison = made(EQUAL, {"a": a, "b": b})
    pair = comparison.pair("a", "b", LATENCY)
    assert pair.value < 1 / DRIFT
    assert pair.p_adjusted < LEVEL
    assert set(words(comparison, LATENCY)) == {"", "no significant difference"}
    assert "faster" not in state_conclusion(comparison)


def test_a_certain_difference_of_latency_under_two_is_neither_called_faster_nor_insignificant() -> None:
    comparison = made(EQUAL, {"a": [10.0, 12.0] * 100, "b": [15.0, 18.0] * 100})
    assert not differ(comparison, "a", "b", LATENCY)
    assert words(comparison, LATENCY) == ["", "less than twofold", "less than twofold", ""]
    by_chance = made(EQUAL, {"a": [10.0, 12.0] * 100, "b": [12.0, 10.0] * 99 + [18.0] * 2})
    assert words(by_chance, LATENCY) == ["", "no significant difference", "no significant difference", ""]


def test_what_is_said_is_the_value_that_was_tested() -> None:
    comparison = made(EQUAL, {"a": [2.0, 8.0] * 100, "b": [10.0, 40.0] * 100})
    pair = comparison.pair("b", "a", LATENCY)
    assert (pair.value, pair.statistic) == (pytest.approx(5.0), "ratio of geometric means")
    assert pair.ci95 == pytest.approx((5.0, 5.0))  # paired: each question takes five times as long
    assert "Of a and b, a is fastest: 5.0 times faster than b (5.0 to 5.0, geometric mean)." in state_conclusion(
        comparison
    )


@pytest.mark.slow
def test_a_difference_that_is_told_is_never_shown_as_0() -> None:
    """20,000 questions tell a difference of a hundredth of a point."""
    one = [0.5002, 0.5] * 1000
    comparison = made({"a": one, "b": [0.5] * 2000})
    assert leaders(comparison, "R@5") == ("a",)
    assert "+0.01, 0.0 to 0.0, over b" in state_conclusion(comparison)


# ---------------------------------------------------------------- any samples


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


@pytest.mark.slow
@given(samples())
@settings(max_examples=examples(60))
def test_words_values_tests_and_figures_agree(
    drawn: tuple[dict[str, list[float]], dict[str, list[float]], dict[str, list[Usage]]],
) -> None:
    recalls, milliseconds, usages = drawn
    comparison = made(recalls, milliseconds, paid=usages)
    said = state_conclusion(comparison)
    for _, fast, ratio, slow in FASTER.findall(said):
        holds_faster(comparison, fast, slow, float(ratio))
        assert {fast, slow} <= set(leaders(comparison, "R@5"))
    assert said.count("faster") == len(FASTER.findall(said))
    for best, metric, other in BEST.findall(said):
        assert comparison.pair(best, other, metric).excess > 0
        assert comparison.method(best).metrics[metric] > comparison.method(other).metrics[metric]
        assert leaders(comparison, metric) == (best,)
    for metric in ("R@5", LATENCY, *COSTS):
        holds_table(comparison, metric)


def holds_faster(comparison: Comparison, fast: str, slow: str, ratio: float) -> None:
    pair, one, other = comparison.pair(fast, slow, LATENCY), comparison.method(fast), comparison.method(slow)
    assert pair.excess < 0
    assert pair.p_adjusted < LEVEL
    assert 1 / pair.value == pytest.approx(ratio, rel=0.06)
    assert pair.ci95 is not None
    assert pair.ci95[0] <= pair.value <= pair.ci95[1] < 1
    assert (one.latency.total.p50 or 0) * DRIFT <= (other.latency.total.p50 or 0)
    assert (one.latency.total.p95 or 0) <= (other.latency.total.p95 or 0)


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
    matrix = next((one for one in pairs.render_pairs(comparison) or () if one.metric == metric), None)
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


def words(comparison: Comparison, metric: str) -> list[str]:
    (matrix,) = (one for one in pairs.render_pairs(comparison) or () if one.metric == metric)
    return [cell.word for row in matrix.rows for cell in row]


# ---------------------------------------------------------------- what is shown


def test_the_matrix_of_latency_says_how_many_times_as_long() -> None:
    comparison = made(EQUAL, {"a": [2.0, 8.0] * 100, "b": [10.0, 40.0] * 100})
    page = BeautifulSoup(report.render_report(Study("study", (comparison,))), "html.parser")
    matrix = page.select("#c1-pairs details")[1]
    assert matrix.summary is not None
    assert "how many times as long as, the geometric mean" in matrix.summary.get_text()
    cells = [" ".join(cell.get_text(" ").split()) for cell in matrix.select("tbody td")]
    assert cells[1] == "faster × 0.20 × 0.20 to × 0.20 p < 0.001"
    assert cells[2] == "slower × 5.00 × 5.00 to × 5.00 p < 0.001"


def lines(study: Study) -> Sequence[str]:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_study(study))
    return console.export_text().splitlines()


def test_times_of_different_comparisons_stand_in_no_common_table() -> None:
    """Each comparison of a study was timed at another moment."""
    one = made(EQUAL, {"a": [2.0] * 200, "b": [3.0] * 200})
    other = made(EQUAL, {"a": [9.0] * 200, "b": [8.0] * 200}, name="other")
    page = BeautifulSoup(report.render_report(Study("study", (one, other))), "html.parser")
    overview = [cell.get_text() for cell in page.select("#overview thead th")]
    assert overview == ["corpus", "encoder", "seed", "method", "R@5", "index s", "index MB"]
    assert "p50 ms" in [cell.get_text() for cell in page.select("#c1-table thead th")]
    assert sum("p50" in line for line in lines(Study("study", (one, other)))) == 2
