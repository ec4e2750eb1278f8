"""How often methods find nothing, rightly and wrongly, with thresholds worked out by hand."""

from collections.abc import Sequence

import numpy as np
import pytest
from made_comparisons import answered

from ragindex_eval.conclusions.questions import choose_threshold, measure_finds_nothing
from ragindex_eval.data.gold import Gold
from ragindex_eval.results.model import MethodAnswer, SavedHit
from ragindex_eval.results.records import FindsNothing

NOTHING = -np.inf


@pytest.mark.parametrize(
    ("answerable", "unanswerable", "threshold"),
    [
        ([5, 4, 3, 1], [2, 0.5], 2.5),  # 1 - 1/4; at 0.75 it is 1/2
        ([5, 4, 3], [2], 2.5),
        ([5, 4, 3, 1], [0.5], 0.75),
        ([5, 4, 1], [2, 0.5], 3.0),
        ([1, 2, 3], [4, 5], None),  # the better the score, the worse
        ([1, 1], [1, 1], None),
        ([2, 1], [NOTHING, NOTHING], None),
        ([2, NOTHING], [NOTHING, 1], 1.5),
        ([NOTHING, NOTHING], [1, 2], float(np.nextafter(2, 3))),
        ([NOTHING], [NOTHING], None),
    ],
)
def test_the_threshold_has_the_greatest_balanced_accuracy(
    answerable: Sequence[float], unanswerable: Sequence[float], threshold: float | None
) -> None:
    chosen = choose_threshold(np.array(answerable, float), np.array(unanswerable, float))
    assert chosen == (float(np.nextafter(NOTHING, 0)) if threshold is None else threshold)


def found_nothing(answerable: Sequence[float], unanswerable: Sequence[float]) -> tuple[FindsNothing, ...]:
    """Of a method with these best scores; a question without hits has the score NOTHING."""
    scores = {f"a{n}": score for n, score in enumerate(answerable)} | {f"u{n}": s for n, s in enumerate(unanswerable)}
    gold = {id: Gold(frozenset("a" if id[0] == "a" else ""), answerable=id[0] == "a") for id in scores}
    answers = [
        MethodAnswer(id, () if score == NOTHING else (SavedHit("a", ("a",), score), SavedHit("b", ("b",), score - 9)))
        for id, score in scores.items()
    ]
    comparison = answered({"flat": answers}, gold, (1, 2))
    assert set(comparison.method("flat").per_query) == {id for id in scores if id[0] == "a"}  # recall is of these
    return measure_finds_nothing(comparison.methods, gold)


def test_each_question_is_measured_by_a_threshold_of_the_others() -> None:
    """Without 2 the threshold is 0.75, so 2 is found; without 1 it is 2.5, so 1 is lost; the rest keep 2.5 or 3."""
    (measures,) = found_nothing([5, 4, 3, 1], [2, 0.5])
    assert (measures.label, measures.threshold) == ("flat", 2.5)
    assert (measures.rightly.count, measures.rightly.of, measures.wrongly.count, measures.wrongly.of) == (1, 2, 1, 4)
    for share in (measures.rightly, measures.wrongly):
        assert 0 <= share.low < share.count / share.of < share.high <= 1
    assert measures.wrongly.describe().startswith("25 % (")
    assert measures.wrongly.describe().endswith("), 1 of 4")
    assert FindsNothing.from_json(measures.to_json()) == measures


def test_questions_without_hits_find_nothing() -> None:
    (measures,) = found_nothing([3, 2, NOTHING], [NOTHING, NOTHING])
    assert (measures.rightly.count, measures.wrongly.count, measures.threshold) == (2, 1, None)
    assert measures.rightly.low < 0.5  # two questions do not show much


@pytest.mark.parametrize(("answerable", "unanswerable"), [([3, 2, 1], [1]), ([3], [1, 2]), ([3, 2], [])])
def test_too_few_questions_choose_no_threshold(answerable: Sequence[float], unanswerable: Sequence[float]) -> None:
    assert found_nothing(answerable, unanswerable) == ()
