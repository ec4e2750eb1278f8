"""The verdict of a gate, by hand and by simulation."""

from dataclasses import replace

import pytest

from ragindex.errors import UsageError
from ragindex_eval.choose.gate import QuestionScores, judge_gate


def scored(label: str, values: list[float], hits: str = "") -> QuestionScores:
    """The scores of a method whose hits are called by the letters of `hits`, its label by default."""
    keys = [(f"question {number}", ("d",)) for number in range(len(values))]
    return QuestionScores(label, dict(zip(keys, values, strict=True)), dict.fromkeys(keys, tuple(hits or label)), "lsa")


@pytest.mark.parametrize(
    ("new", "baseline", "verdict"),
    [
        ([1.0] * 56, [1.0] * 56, "PASS"),
        ([1.0] * 55, [1.0] * 55, "UNDECIDED"),  # other questions may be lost
        ([1.0] * 50, [0.0] * 50, "PASS"),
        ([0.0] * 50, [1.0] * 50, "FAIL"),
        ([0.0] * 2 + [1.0] * 48, [1.0] * 50, "UNDECIDED"),  # 4 points below, from 12 below to 4 above
        ([0.0, 1.0] * 25, [1.0, 0.0] * 25, "UNDECIDED"),
    ],
)
def test_the_interval_decides(new: list[float], baseline: list[float], verdict: str) -> None:
    gate = judge_gate(scored("new", new), scored("old", baseline), "R@5", 0.05)
    assert gate.verdict == verdict
    assert (gate.new_score, gate.baseline_score) == (sum(new) / len(new), sum(baseline) / len(baseline))


@pytest.mark.parametrize("questions", [1, 8, 50])
def test_few_questions_that_are_level_do_not_pass(questions: int) -> None:
    """They are level with a probability of 98 % each although the method loses 2 points, as the margin says."""
    gate = judge_gate(scored("new", [1.0] * questions), scored("old", [1.0] * questions), "R@5", 0.02)
    low, high = gate.difference
    assert gate.verdict == "UNDECIDED"
    assert low == -high < -0.02


@pytest.mark.parametrize("margin", [0.05, 0.1])
def test_needed_questions_pass_and_one_fewer_does_not(margin: float) -> None:
    few = judge_gate(scored("new", [0.5] * 12), scored("old", [0.5] * 12), "R@5", margin)
    assert few.needed is not None
    gates = [
        judge_gate(scored("new", [0.5] * number), scored("old", [0.5] * number), "R@5", margin)
        for number in (few.needed - 1, few.needed)
    ]
    assert [(gate.verdict, gate.needed) for gate in gates] == [("UNDECIDED", few.needed), ("PASS", None)]


def test_no_number_of_questions_settles_a_loss_of_just_the_margin() -> None:
    values = [0.0] * 5 + [1.0] * 95
    assert judge_gate(scored("new", values), scored("old", [1.0] * 100), "R@5", 0.05).needed is None


@pytest.mark.parametrize(
    ("new", "baseline", "sentence"),
    [
        ("lsa", "lsa", " Encoder lsa."),
        ("lsa", "openai:small", " Encoder lsa, of the baseline openai:small."),
        ("lsa", "unknown", " Encoder of new: lsa."),
        ("unknown", "lsa", " Encoder of the baseline: lsa."),
        ("unknown", "unknown", ""),
    ],
)
def test_verdict_names_known_encoders(new: str, baseline: str, sentence: str) -> None:
    of_new, of_baseline = scored("new", [0.0, 1.0]), scored("old", [1.0, 0.0])
    gate = judge_gate(replace(of_new, encoder=new), replace(of_baseline, encoder=baseline), "R@5", 0.02)
    assert gate.describe().partition("margin 2.0.")[2] == sentence
    assert "unknown" not in gate.describe()


def test_only_same_method_passes_by_its_hits() -> None:
    same = judge_gate(scored("bm25", [1.0, 0.0]), scored("bm25", [1.0, 0.0]), "R@5", 0.02)
    assert (same.verdict, same.same_hits) == ("PASS", True)
    assert same.describe() == (
        "PASS: R@5 of bm25 is 50.0, from the same hits as in the baseline for each of 2 questions. Encoder lsa."
    )
    others = (
        scored("dense", [1.0, 0.0], hits="bm25"),
        scored("bm25", [1.0, 0.0], hits="bm52"),
        scored("bm25", [0.0, 1.0]),  # other answers from the same hits
    )
    for other in others:
        gate = judge_gate(scored("bm25", [1.0, 0.0]), other, "R@5", 0.02)
        assert (gate.verdict, gate.same_hits) == ("UNDECIDED", False)


def test_lost_questions_are_named_the_largest_loss_first() -> None:
    keys = [(f"question {number}", ("d", "e")) for number in range(4)]
    values = {"new": [1.0, 0.5, 0.0, 1.0], "old": [1.0, 1.0, 1.0, 0.5]}
    ranks = {"new": [{"d": 1, "e": 2}, {"d": 3}, {}, {}], "old": [{}, {"d": 2, "e": 1}, {"d": 5, "e": 4}, {}]}
    new, old = (
        QuestionScores(
            label, dict(zip(keys, values[label], strict=True)), {}, "lsa", dict(zip(keys, ranks[label], strict=True))
        )
        for label in ("new", "old")
    )
    gate = judge_gate(new, old, "R@5", 0.02)
    assert gate.verdict == "UNDECIDED"
    assert gate.describe_lost() == [
        "2 questions lost, 1 won:",
        "  'question 2': 0.0, before 100.0; gold not found, before gold at rank 4, 5",
        "  'question 1': 50.0, before 100.0; gold at rank 3, 1 not found, before gold at rank 1, 2",
    ]
    many = judge_gate(scored("new", [0.0] * 12), scored("old", [0.5] * 12), "R@5", 0.9)
    assert (many.verdict, many.describe_lost()) == ("PASS", [])
    many = judge_gate(scored("new", [0.0] * 12), scored("old", [0.5] * 12), "R@5", 0.02)
    assert (many.verdict, len(many.describe_lost()), many.describe_lost()[-1]) == (
        "FAIL",
        12,
        "  … and 2 more, in --json",
    )


def test_other_questions_or_other_gold_are_refused() -> None:
    with pytest.raises(UsageError, match="new has 3 judged questions and old 2, of which 2 are the same"):
        judge_gate(scored("new", [1.0] * 3), scored("old", [1.0] * 2), "R@5", 0.05)
    other = QuestionScores("old", {(f"question {number}", ("e",)): 1.0 for number in range(3)}, {}, "lsa")
    with pytest.raises(UsageError, match="of which 0 are the same"):
        judge_gate(scored("new", [1.0] * 3), other, "R@5", 0.05)
