"""The report's section on money: an index spread over questions, and where a costlier one pays off; totals."""

from dataclasses import replace

import pytest
from made_comparisons import answered
from snapshots import printed

from ragindex.types import PartFigures, Usage
from ragindex_eval.data.gold import Gold
from ragindex_eval.report.page import render_report
from ragindex_eval.report.sections.money import MoneyRow, PayOff, find_pay_offs, render_money
from ragindex_eval.report.terminal import render_comparison
from ragindex_eval.results.model import Comparison, MethodAnswer, SavedHit, Study

COSTS = {"cheap": (0.0, 0.004), "graph": (3.0, 0.001), "costly": (5.0, 0.005), "unknown": (None, 0.0)}


def costing(costs: dict[str, tuple[float | None, float]]) -> Comparison:
    """Methods by label with the dollars of their index and of their one question; each was paid once."""
    hits = (SavedHit("a", ("a",), 1.0),)
    answers = {
        label: [MethodAnswer("q1", hits, usage=Usage(0.0, 10, 1, question))] for label, (_, question) in costs.items()
    }
    comparison = answered(answers, {"q1": Gold(frozenset({"a"}))}, (1,))
    methods = tuple(
        replace(
            method,
            parts={"triples": PartFigures("triples", 1.0, 1, "", Usage(1.0, 10, 1, costs[method.label][0]))},
            spent=Usage(1.0, 20, 2, costs[method.label][1]),
        )
        for method in comparison.methods
    )
    return replace(comparison, methods=methods)


def test_an_index_is_spread_over_questions() -> None:
    figures = render_money(costing(COSTS))
    assert figures is not None
    assert figures.over == ("over 1,000 questions", "over 100,000 questions")
    rows = {row.label: row for row in figures.rows}
    assert rows["graph"] == MoneyRow("graph", "3.0000", "0.00100", ("0.00400", "0.00103"))
    assert rows["cheap"].spread == ("0.00400", "0.00400")
    assert "unknown" not in rows  # its index has no known price


def test_where_a_costlier_index_pays_off() -> None:
    assert find_pay_offs(costing(COSTS)) == (PayOff("graph", "cheap", 1000),)  # 3 dollars at 0.003 a question
    page = render_report(Study("made", (costing(COSTS),)))
    assert "What it costs" in page
    assert "from so many questions on" in page


def test_what_costs_nothing_has_no_section() -> None:
    free = costing({"bm25": (0.0, 0.0), "dense": (0.0, 0.0)})
    assert render_money(free) is None
    assert "What it costs" not in render_report(Study("made", (free,)))


@pytest.mark.parametrize("estimated", [True, False])
def test_the_table_has_a_total_and_the_costs_of_the_bounds(estimated: bool) -> None:
    comparison = costing({"cheap": (0.0, 0.004), "graph": (3.0, 0.001)})
    bound = replace(comparison.methods[0], label="gold-passages", spent=Usage(0.0, 30, 3, 0.25, estimated))
    failed = replace(comparison.methods[0], label="broken", spent=Usage(0.0, 30, 3, 0.5))
    complete = replace(comparison, bounds=(bound,), failed=(failed,))
    lines = [line.split() for line in printed(render_comparison(complete), 120).splitlines()]
    about = "~" if estimated else ""
    assert [f"{about}0.2500"] == next(line for line in lines if line[:1] == ["gold-passages"])[-1:]
    assert ["together", f"{about}0.7550"] in lines  # 0.004 + 0.001 + 0.25 + 0.5
    assert complete.to_json()["spent"] == {
        "input_tokens": 100,
        "output_tokens": 10,
        "money": pytest.approx(0.755),
        "estimated": estimated,
        "possibly_charged": 0.0,
        "retries": 0,
    }
    page = render_report(Study("made", (complete,)))
    assert f"{about}0.7550" in page
    assert f"{about}0.2500" in page
    recorded = replace(complete, paid=Usage(0.0, 200, 20, 1.5))  # with a holdout, which is no method's
    assert ["together", "1.5000"] in [line.split() for line in printed(render_comparison(recorded), 120).splitlines()]
