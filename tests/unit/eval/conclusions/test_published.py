"""Verdicts on published figures, by cases worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest
from made_comparisons import make_comparison

from ragindex_eval.conclusions.published import compare_published, judge_figure, judge_gain, list_measured_conditions
from ragindex_eval.data.published import PublishedTable
from ragindex_eval.report.sections.published import tabulate_published
from ragindex_eval.results.model import Comparison
from ragindex_eval.results.records import ComparedCondition, ReaderFacts

# 20 questions; the differences of a and b are fifteen times 1 and five times 0, so both intervals are known to hold
# their mean and to leave out 0; a and c are equal.
RECALLS = {"a": [1.0] * 20, "b": [1.0] * 5 + [0.0] * 15, "c": [1.0] * 20}


def table(figures: dict[str, list[float | None]], **given: Any) -> PublishedTable:
    data = {"letters": {"figures": figures}}
    return PublishedTable.model_validate(
        {"source": "A paper, Table 1", "unit": "percent", "metrics": ["R@5"], "data": data, **given}
    )


def compared(figures: dict[str, list[float | None]], comparison: Comparison | None = None, **given: Any) -> Any:
    measured = comparison or make_comparison(RECALLS)
    reader = "none" if measured.reader is None else measured.reader.llm
    models = {"encoder": measured.encoder, "llm": measured.llm, "reader": reader}
    conditions = list_measured_conditions(measured.dataset, measured.ks[-1], **models)
    return compare_published(table(figures, **given), "letters", measured, conditions, measured.bounds)


@pytest.mark.parametrize(
    ("published", "here", "bounds", "comparable", "verdict"),
    [
        (0.45, 0.5, (0.4, 0.6), True, "within the interval"),
        (0.4, 0.5, (0.4, 0.6), True, "within the interval"),
        (0.6, 0.5, (0.4, 0.6), True, "within the interval"),
        (0.39, 0.5, (0.4, 0.6), True, "differs"),
        (0.61, 0.5, (0.4, 0.6), True, "differs"),
        (0.45, 0.5, (0.4, 0.6), False, "not comparable"),
        (0.5, 0.5, None, True, "no interval"),
        (0.45, None, None, True, "not measured"),
        (0.45, None, None, False, "not measured"),
    ],
)
def test_verdicts(published: float, here: float | None, bounds: Any, comparable: bool, verdict: str) -> None:
    assert judge_figure(published, here, bounds, comparable=comparable) == verdict


@pytest.mark.parametrize(
    ("published", "bounds", "direction"),
    [
        (0.039, (0.019, 0.093), "agrees"),
        (-0.02, (-0.05, -0.01), "agrees"),
        (-0.039, (0.019, 0.093), "contradicts"),
        (0.02, (-0.05, -0.01), "contradicts"),
        (0.0, (0.019, 0.093), "contradicts"),
        (0.0, (-0.05, -0.01), "contradicts"),
        (0.039, (0.0, 0.093), "unclear"),
        (0.039, (-0.093, 0.0), "unclear"),
        (0.039, None, "unclear"),
    ],
)
def test_directions_of_gains(published: float, bounds: Any, direction: str) -> None:
    assert judge_gain(published, bounds) == direction


def test_a_figure_with_its_difference_and_gain() -> None:
    first, second = compared({"a": [90.0], "b": [40.0]}, baseline="b", conditions={"questions": 20}).figures
    assert (first.here, first.verdict) == (1.0, "within the interval")
    assert first.ci95 == pytest.approx((0.025 ** (1 / 20), 1.0))  # Clopper and Pearson, all of 20
    assert first.difference == "+10.0 (−6.8 to 10.0)"
    assert first.gain.over == "b"
    assert first.gain.published == pytest.approx(0.5)
    assert first.gain.here == 0.75
    assert 0.0 < first.gain.ci95[0] < 0.75 < first.gain.ci95[1] < 1.0
    assert first.gain.direction == "agrees"
    assert (second.here, second.verdict, second.gain) == (0.25, "within the interval", None)
    assert second.difference.startswith("−15.0 (−")


def test_equal_methods_make_a_gain_unclear() -> None:
    (gain,) = [
        figure.gain for figure in compared({"a": [90.0], "c": [40.0]}, baseline={"a": "c"}).figures if figure.gain
    ]
    assert (gain.here, gain.direction) == (0.0, "unclear")
    assert gain.ci95[0] < 0 < gain.ci95[1]


def test_methods_and_metrics_that_the_comparison_lacks_are_not_measured() -> None:
    comparison = compared({"a": [90.0, 5.0], "z": [40.0, None]}, metrics=["R@5", "EM"], baseline="z")
    assert [(figure.method, figure.metric, figure.verdict) for figure in comparison.figures] == [
        ("a", "R@5", "within the interval"),
        ("a", "EM", "not measured"),
        ("z", "R@5", "not measured"),
    ]
    assert comparison.figures[0].gain.direction == "not measured"
    assert comparison.figures[1].gain is None  # the paper has no EM of z
    assert comparison.figures[1].difference == ""


def test_one_question_has_no_interval() -> None:
    comparison = make_comparison({"a": [1.0], "b": [0.0]})
    first, second = compared({"a": [100.0], "b": [0.0]}, comparison, baseline="b").figures
    assert (first.verdict, first.difference, second.verdict) == ("no interval", "0.0", "no interval")
    assert (first.gain.here, first.gain.direction) == (1.0, "unclear")


def test_conditions_are_those_that_the_comparison_ran_with() -> None:
    comparison = replace(
        make_comparison(RECALLS, encoder="sentence-transformers:/home/x/all-MiniLM-L6-v2"), llm="offline"
    )
    conditions = {"encoder": "all-mpnet-base-v2", "llm": "gpt-4o-mini", "reader": "gpt-4o", "questions": 500, "k": 5}
    published = compared({"a": [90.0], "b": [40.0]}, comparison, conditions={**conditions, "documents": 139_416})
    assert [figure.verdict for figure in published.figures] == ["not comparable"] * 2
    assert published.conditions[-1] == ComparedCondition("k", "5", "5", True)
    assert published.reason == (
        "encoder is all-MiniLM-L6-v2, published all-mpnet-base-v2; llm is rules, published gpt-4o-mini; "
        "reader is none, published gpt-4o; 20 questions, published 500; 3 documents, published 139,416"
    )


@pytest.mark.parametrize(
    ("encoder", "published", "equal"),
    [
        ("sentence-transformers:sentence-transformers/all-mpnet-base-v2", "all-mpnet-base-v2", True),
        ("sentence-transformers:C:\\models\\all-mpnet-base-v2\\", "all-mpnet-base-v2", True),
        ("sentence-transformers(model=/m/all-mpnet-base-v2, device=cpu)", "all-mpnet-base-v2", True),
        ("openai:text-embedding-3-small", "text-embedding-3-small", True),
        ("openai:text-embedding-3-small-2", "text-embedding-3-small", False),
        ("lsa", "all-mpnet-base-v2", False),
    ],
)
def test_models_are_equal_by_name(encoder: str, published: str, equal: bool) -> None:
    (condition,) = compared(
        {"a": [1.0]}, make_comparison(RECALLS, encoder=encoder), conditions={"encoder": published}
    ).conditions
    assert condition.equal is equal
    assert "/m/" not in condition.here


def test_equal_conditions_are_the_readers_too() -> None:
    comparison = replace(
        make_comparison(RECALLS), llm="openai:gpt-4o", reader=ReaderFacts("openai:gpt-4o", 4000, False)
    )
    published = compared({"a": [100.0]}, comparison, conditions={"llm": "gpt-4o", "reader": "gpt-4o"})
    assert (published.reason, published.figures[0].verdict) == ("", "within the interval")


def test_seconds_and_their_growth_are_no_shares() -> None:
    """A question of `b` takes twice the time of one of `a` over a pool three times as large: TPER is 2/3."""
    measured = make_comparison({"a": [1.0, 0.0], "b": [1.0, 0.0]}, {"a": [1000.0, 3000.0], "b": [4000.0, 4000.0]})
    printed = table({"a": [1.5, None], "b": [2.65, 0.6]}, metrics=["TPQ", "TPER"], baseline={"b": "a"})
    conditions = list_measured_conditions(measured.dataset, 5, encoder="lsa", llm="offline")
    done = compare_published(printed, "letters", measured, conditions, pools={"a": 100, "b": 300})
    figures = [(figure.method, figure.metric, figure.published, figure.here, figure.gain) for figure in done.figures]
    third = pytest.approx(2 / 3)
    assert figures == [
        ("a", "TPQ", 1.5, 2.0, None),
        ("b", "TPQ", 2.65, 4.0, None),
        ("b", "TPER", 0.6, third, None),
    ]
    assert [(row.published, row.here, row.difference) for row in tabulate_published(done).rows] == [
        ("1.50", "2.00", "+0.50"),
        ("2.65", "4.00", "+1.35"),
        ("0.60", "0.67", "+0.07"),
    ]
    (unknown,) = [
        figure.verdict
        for figure in compare_published(printed, "letters", measured, conditions).figures
        if figure.metric == "TPER"
    ]
    assert unknown == "not measured"
