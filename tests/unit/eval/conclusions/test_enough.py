"""What questions can show: by hand, and by simulation of the tests that the formula speaks of."""

import json
from dataclasses import replace
from statistics import stdev

import pytest
from made_comparisons import make_comparison

from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.conclusions.questions import plan_questions
from ragindex_eval.report.sections.differences import render_enough, render_pairs
from ragindex_eval.results.model import Comparison
from ragindex_eval.results.records import QuestionPlan
from ragindex_eval.stats.paired_tests import (
    raise_spread,
    smallest_difference,
)

GOOD, FAIR, BAD = [1.0] * 40, [1.0] * 38 + [0.0] * 2, [0.0] * 40


def planned(comparison: Comparison) -> QuestionPlan | None:
    return plan_questions(comparison, comparison.dataset.judged)


def test_the_plan_of_a_comparison_by_hand() -> None:
    plan = planned(make_comparison({"a": FAIR, "b": GOOD}))
    assert plan is not None
    spread = stdev([0.0] * 38 + [1.0] * 2)
    assert (plan.best, plan.questions, plan.spread) == ("b", 40, pytest.approx(spread))
    assert [count for count, _ in plan.smallest] == [40, 50, 100, 200]
    # 200 · 0.047 - 0.8434 · 0.2207 √200 = 6.768 is above
    # 1.9718 √(202/201 · (199 · 0.2207² + 2 + 400/202 · 0.047²)) = 6.761
    assert plan.smallest[3][1] == 0.047
    assert plan.settle == (("a", 140),)
    assert plan.describe() == (
        "40 questions show differences of 20.2 points of R@5 or more between b and another method (80 % power); "
        "50 of 16.5, 100 of 8.7, 200 of 4.7"
    )


def test_questions_that_are_too_few_for_any_difference_say_so() -> None:
    plan = planned(make_comparison({label: [1, 0, 1, 0, 1] for label in "abcd"} | {"e": [1, 1, 1, 1, 1]}))
    assert plan is not None
    assert plan.describe() == (
        "5 questions are too few to show any difference of R@5 between e and another method (80 % power); "
        "50 of 31.0, 100 of 20.9, 200 of 14.5"
    )
    assert QuestionPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_equal_methods_are_never_told_apart_and_one_method_has_no_plan() -> None:
    plan = planned(make_comparison({"a": FAIR, "b": FAIR, "c": GOOD}))
    assert plan is not None
    assert plan.best == "c"
    assert planned(make_comparison({"a": FAIR, "b": FAIR})) is None, "differences that are all 0 tell no spread"
    assert planned(make_comparison({"a": FAIR})) is None
    assert planned(make_comparison({"a": FAIR[:4], "b": GOOD[:4]})) is None


def test_sentence_and_tables_quote_one_figure() -> None:
    """Rounded alike: 194 more questions, and a difference of 5.0 points."""
    comparison = make_comparison({"a": FAIR, "b": GOOD, "c": GOOD})
    plan, conclusion = planned(comparison), state_conclusion(comparison)
    figures = render_enough(replace(comparison, enough=plan))
    assert plan is not None
    assert figures is not None
    assert plan.settle == (("c", None), ("a", 194))
    assert figures.settle == (("c", "no number"), ("a", "about 200"))
    assert "About 200 more questions would show b ahead of a" in conclusion
    assert [f"{count} of {least}" for count, least in figures.smallest[1:]] == plan.describe().split("; ")[1].split(
        ", "
    )
    cell = (render_pairs(comparison) or ())[0].rows[1][0]
    assert f"{cell.difference}, {cell.interval})" in conclusion


def test_graded_differences_need_not_be_as_large_as_those_of_0_and_1() -> None:
    """Of a mean of 0.047, differences of a quarter spread by √(0.047 · 0.203) at least, not by √(0.047 · 0.953)."""
    quarters = planned(make_comparison({"a": [0.25, 0.5] * 100, "b": [0.5] * 200}))
    assert quarters is not None
    assert quarters.smallest[0][1] == smallest_difference(stdev([0.25, 0.0] * 100), 200, size=0.25)
    assert (smallest_difference(0.125, 200, size=0.25), smallest_difference(0.125, 200)) == (0.03, 0.045)
    assert raise_spread(0.05, 0.047, 0.25) == pytest.approx((0.047 * 0.203) ** 0.5)
    assert raise_spread(0.05, 0.3, 0.25) == 0.05
