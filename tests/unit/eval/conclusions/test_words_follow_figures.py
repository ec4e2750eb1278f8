"""Whatever the samples: a method called better is so by the tested value, and by what is shown beside it."""

import io
from collections.abc import Sequence

import numpy as np
import pytest
from bs4 import BeautifulSoup
from made_comparisons import make_comparison
from rich.console import Console

from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.conclusions.leaders import DRIFT, differ
from ragindex_eval.mlflow.values import method_metrics
from ragindex_eval.report import page as report
from ragindex_eval.report.sections.differences import render_pairs
from ragindex_eval.report.terminal import render_study
from ragindex_eval.results.model import LATENCY, Comparison, Study
from ragindex_eval.stats.intervals import LEVEL

EQUAL = {"a": [1.0, 0.0] * 100, "b": [1.0, 0.0] * 100}


def test_a_median_that_says_otherwise_than_the_mean_makes_nobody_faster() -> None:
    """`a` answers most questions in less than half the time, and takes 126 ms more in the mean, for certain."""
    a, b = [10.0] * 120 + [363.0] * 80, [24.0] * 200
    assert np.median(b) / np.median(a) == 2.4
    assert np.mean(a) - np.mean(b) > 126
    comparison = make_comparison(EQUAL, {"a": a, "b": b})
    assert "faster" not in state_conclusion(comparison)
    assert not differ(comparison, "a", "b", LATENCY)
    assert set(words(comparison, LATENCY)) == {"", "no significant difference"}


def test_two_percentiles_that_say_different_things_make_nobody_faster() -> None:
    """Three times as fast in the geometric mean and in p50, and slower in p95: the table would say both."""
    a, b = [1.0] * 185 + [60.0] * 15, [5.0] * 200
    comparison = make_comparison(EQUAL, {"a": a, "b": b})
    pair = comparison.pair("a", "b", LATENCY)
    assert pair.value < 1 / DRIFT
    assert pair.p_adjusted < LEVEL
    assert set(words(comparison, LATENCY)) == {"", "no significant difference"}
    assert "faster" not in state_conclusion(comparison)


def test_a_certain_difference_of_latency_under_two_is_neither_called_faster_nor_insignificant() -> None:
    comparison = make_comparison(EQUAL, {"a": [10.0, 12.0] * 100, "b": [15.0, 18.0] * 100})
    assert not differ(comparison, "a", "b", LATENCY)
    assert words(comparison, LATENCY) == ["", "less than twofold", "less than twofold", ""]
    by_chance = make_comparison(EQUAL, {"a": [10.0, 12.0] * 100, "b": [12.0, 10.0] * 99 + [18.0] * 2})
    assert words(by_chance, LATENCY) == ["", "no significant difference", "no significant difference", ""]


def words(comparison: Comparison, metric: str) -> list[str]:
    (matrix,) = (pair for pair in render_pairs(comparison) or () if pair.metric == metric)
    return [cell.word for row in matrix.rows for cell in row]


# ---------------------------------------------------------------- what is shown


def lines(study: Study) -> Sequence[str]:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_study(study))
    return console.export_text().splitlines()


def test_times_of_different_comparisons_stand_in_no_common_table() -> None:
    comparison = make_comparison(EQUAL, {"a": [2.0] * 200, "b": [3.0] * 200})
    other = make_comparison(EQUAL, {"a": [9.0] * 200, "b": [8.0] * 200}, name="other")
    page = BeautifulSoup(report.render_report(Study("study", (comparison, other))), "html.parser")
    overview = [cell.get_text() for cell in page.select("#overview thead th")]
    assert overview == ["corpus", "encoder", "seed", "method", "R@5", "index s", "index MB"]
    assert "p50 ms" in [cell.get_text() for cell in page.select("#c1-table thead th")]
    assert sum("p50" in line for line in lines(Study("study", (comparison, other)))) == 2


def test_questions_that_are_all_alike_have_an_interval_everywhere() -> None:
    """3 of 3: at least 29.2 %, Clopper and Pearson's bound, in the terminal, the report, JSON and MLflow alike."""
    comparison = make_comparison({"a": [1.0] * 3, "b": [1.0] * 3})
    assert any("(95 % intervals of R@5: ±70.8 at most)" in line for line in lines(Study("study", (comparison,))))
    page = BeautifulSoup(report.render_report(Study("study", (comparison,))), "html.parser")
    assert [cell.get_text(" ", strip=True) for cell in page.select("#c1-table tbody td:nth-of-type(1)")] == [
        "100.0 29.2 – 100.0"
    ] * 2
    low = pytest.approx(0.025 ** (1 / 3))
    assert comparison.to_json()["methods"][0]["ci95"]["R@5"] == [low, 1.0]
    logged = method_metrics(comparison.methods[0])
    assert (logged["retrieval/recall_at_5/ci95_low"], logged["retrieval/recall_at_5/ci95_high"]) == (low, 1.0)
