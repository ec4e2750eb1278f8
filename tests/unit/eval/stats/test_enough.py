"""What questions can show: by hand, and by simulation of the tests that the formula speaks of."""

import math
from statistics import NormalDist, stdev

import numpy as np
import pytest
from made_comparisons import made

from ragindex_eval.results.question_plan import QuestionPlan
from ragindex_eval.stats.enough import plan_questions, smallest_difference

GOOD, FAIR, BAD = [1.0] * 40, [1.0] * 38 + [0.0] * 2, [0.0] * 40


def test_the_plan_of_a_comparison_by_hand() -> None:
    plan = plan_questions(made({"a": FAIR, "b": GOOD}))
    assert plan is not None
    spread = stdev([0.0] * 38 + [1.0] * 2)
    assert (plan.best, plan.questions, plan.spread) == ("b", 40, pytest.approx(spread))
    assert [count for count, _ in plan.smallest] == [40, 50, 100, 200]
    assert plan.smallest[0][1] == pytest.approx((1.959964 + 0.841621) * spread / math.sqrt(40), abs=1e-6)
    assert plan.settle == (("a", 113),)  # 152.95 - 40, rounded up
    assert QuestionPlan.from_json(plan.to_json()) == plan
    assert plan.describe() == (
        "40 questions show differences of 9.8 points of R@5 or more (80 % power); 50 of 8.7, 100 of 6.2, 200 of 4.4"
    )


def test_questions_that_are_too_few_for_any_difference_say_so() -> None:
    """Differences of 1 and 0 spread by 0.5 and more: five questions would show 69 points or more, two none."""
    plan = QuestionPlan.from_json(
        {**plan_of_five().to_json(), "questions": 2, "smallest": [(2, 1.09), (5, 0.69), (10, 0.49)]}
    )
    assert plan.describe() == (
        "2 questions are too few to show any difference of R@5 (80 % power); 5 of 69.0, 10 of 49.0"
    )


def plan_of_five() -> QuestionPlan:
    plan = plan_questions(made({"a": [1, 0, 1, 0, 1], "b": [1, 1, 1, 1, 1]}))
    assert plan is not None
    return plan


def test_equal_methods_are_never_told_apart_and_one_method_has_no_plan() -> None:
    plan = plan_questions(made({"a": FAIR, "b": FAIR, "c": GOOD}))
    assert plan is not None
    assert plan.best == "c"
    assert plan_questions(made({"a": FAIR, "b": FAIR})) is None, "differences that are all 0 tell no spread"
    assert plan_questions(made({"a": FAIR})) is None
    assert plan_questions(made({"a": FAIR[:4], "b": GOOD[:4]})) is None


@pytest.mark.parametrize(("questions", "rivals"), [(50, 1), (100, 1), (200, 4), (400, 15)])
def test_the_smallest_difference_is_shown_in_four_of_five_simulated_comparisons(questions: int, rivals: int) -> None:
    """Differences of a question are -1, 0 or 1, as those of a recall with one gold document."""
    spread = 0.5
    mean = smallest_difference(spread, questions, rivals)
    squares = spread**2 + mean**2
    up, down = (squares + mean) / 2, (squares - mean) / 2
    rng = np.random.default_rng(7)
    drawn = rng.choice([1.0, -1.0, 0.0], p=[up, down, 1 - up - down], size=(20_000, questions))
    error = drawn.std(axis=1, ddof=1) / math.sqrt(questions)
    shown = drawn.mean(axis=1) / error > NormalDist().inv_cdf(1 - 0.05 / 2 / rivals)
    assert shown.mean() == pytest.approx(0.8, abs=0.025)
