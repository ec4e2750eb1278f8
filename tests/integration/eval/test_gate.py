"""Gates: the verdict by hand, and the command with its exit codes, JUnit and JSON."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from command_line import make_desk, ragindex

from ragindex.errors import UsageError
from ragindex_eval.gate import QuestionScores, count_needed_questions, judge_gate


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def scored(label: str, values: list[float], hits: str = "") -> QuestionScores:
    """The scores of a method whose hits are called by the letters of `hits`, its label by default."""
    keys = [(f"question {number}", ("d",)) for number in range(len(values))]
    return QuestionScores(label, dict(zip(keys, values, strict=True)), dict.fromkeys(keys, tuple(hits or label)))


@pytest.mark.parametrize(
    ("new", "baseline", "verdict"),
    [
        ([1.0] * 77, [1.0] * 77, "PASS"),
        ([1.0] * 76, [1.0] * 76, "UNDECIDED"),  # 4 of 80 that are drawn again may be lost
        ([1.0] * 50, [0.0] * 50, "PASS"),
        ([0.0] * 50, [1.0] * 50, "FAIL"),
        ([0.0] * 2 + [1.0] * 48, [1.0] * 50, "UNDECIDED"),  # 4 points below, from 0 to 10
        ([0.0, 1.0] * 25, [1.0, 0.0] * 25, "UNDECIDED"),
    ],
)
def test_the_interval_decides(new: list[float], baseline: list[float], verdict: str) -> None:
    gate = judge_gate(scored("new", new), scored("old", baseline), "R@5", 0.05, 0)
    assert gate.verdict == verdict
    assert (gate.new_score, gate.baseline_score) == (sum(new) / len(new), sum(baseline) / len(baseline))


@pytest.mark.parametrize("questions", [1, 2, 8, 21, 50])
def test_few_questions_that_are_level_do_not_pass(questions: int) -> None:
    """They are level with a probability of 98 % each although the method loses 2 points, as the margin says."""
    gate = judge_gate(scored("new", [1.0] * questions), scored("old", [1.0] * questions), "R@5", 0.02, 0)
    low, high = gate.difference
    assert gate.verdict == "UNDECIDED"
    assert low == -high < -0.02


@pytest.mark.parametrize("margin", [0.01, 0.02, 0.05, 0.1, 0.3, 0.5])
def test_as_many_questions_as_are_said_to_be_needed_pass_and_one_fewer_does_not(margin: float) -> None:
    needed = count_needed_questions(margin)
    verdicts = [
        judge_gate(scored("new", [0.5] * number), scored("old", [0.5] * number), "R@5", margin, 0).verdict
        for number in (needed - 1, needed)
    ]
    assert verdicts == ["UNDECIDED", "PASS"]


@pytest.mark.parametrize(
    ("lost", "won", "margin", "questions"),
    [(0.02, 0.0, 0.02, 50), (0.02, 0.0, 0.02, 200), (0.12, 0.10, 0.02, 20), (0.12, 0.07, 0.05, 50)],
)
def test_a_method_that_is_worse_by_the_margin_passes_seldom(
    lost: float, won: float, margin: float, questions: int
) -> None:
    draws, passed = np.random.default_rng(0), 0
    for _ in range(200):
        values = draws.choice([0.0, 0.5, 1.0], questions, p=[lost, 1 - lost - won, won]).tolist()
        level = scored("old", [0.5] * questions)
        halved = judge_gate(scored("new", values), level, "R@5", margin / 2, 0)
        passed += halved.verdict == "PASS"
    assert passed <= 200 * 0.05


def test_a_method_with_the_same_hits_passes_and_another_with_equal_hits_does_not() -> None:
    same = judge_gate(scored("bm25", [1.0, 0.0]), scored("bm25", [1.0, 0.0]), "R@5", 0.02, 0)
    assert (same.verdict, same.same_hits) == ("PASS", True)
    assert same.describe() == (
        "PASS: R@5 of bm25 is 50.0, from the same hits as in the baseline for each of 2 questions."
    )
    others = (
        scored("dense", [1.0, 0.0], hits="bm25"),
        scored("bm25", [1.0, 0.0], hits="bm52"),
        scored("bm25", [0.0, 1.0]),  # other answers from the same hits
    )
    for other in others:
        gate = judge_gate(scored("bm25", [1.0, 0.0]), other, "R@5", 0.02, 0)
        assert (gate.verdict, gate.same_hits) == ("UNDECIDED", False)


def test_other_questions_or_other_gold_are_refused() -> None:
    with pytest.raises(UsageError, match="new has 3 judged questions and old 2, of which 2 are the same"):
        judge_gate(scored("new", [1.0] * 3), scored("old", [1.0] * 2), "R@5", 0.05, 0)
    other = QuestionScores("old", {(f"question {number}", ("e",)): 1.0 for number in range(3)}, {})
    with pytest.raises(UsageError, match="of which 0 are the same"):
        judge_gate(scored("new", [1.0] * 3), other, "R@5", 0.05, 0)


def test_files_that_cannot_be_read_are_told_and_do_not_pass_unsaid(desk: Path) -> None:
    (desk / "notes" / "broken.pdf").write_bytes(b"no PDF")
    given = ("gate", "bm25", "--against", "bm25", "--data", "notes", "--questions", "questions.csv", "--index", "w")
    done = ragindex(*given)
    assert (done.code, done.out[:5]) == (11, "PASS:")
    assert "skipped: notes/broken.pdf: expected " in done.err
    accepted = ragindex(*given, "--skip-bad")
    assert (accepted.code, "skipped: notes/broken.pdf: expected " in accepted.err) == (0, True)


def test_the_command_passes_fails_and_does_not_know() -> None:
    given = ("--data", "world:200", "--limit", "60", "--index", "w")
    passed = ragindex("gate", "links", "--against", "bm25", *given, "--junit", "gate.xml", "--json", "gate.json")
    assert passed.code == 0, passed.err
    assert passed.out.startswith("PASS: R@5 of links is ")
    suite = ElementTree.parse("gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    failed = ragindex("gate", "bm25", "--against", "links", *given, "--margin", "0.001", "--junit", "gate.xml")
    assert failed.code == 12
    assert failed.out.startswith("FAIL: ")
    assert failed.err.strip().splitlines()[-1].startswith("FAIL: bm25 is worse than links")
    failure = ElementTree.parse("gate.xml").getroot().find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "FAIL"
    unknown = ragindex("gate", "dense", "--against", "bm25", *given, "--margin", "0.01")
    assert unknown.code == 13
    assert unknown.err.strip().splitlines()[-1] == (
        "UNDECIDED: The questions do not tell: add questions (this margin needs at least 397), or choose a larger "
        "--margin before looking at the next result."
    )


def test_saved_results_are_a_baseline() -> None:
    given = ("world:100", "--limit", "40", "--index", "w")
    assert ragindex("compare", *given, "--methods", "bm25,links", "--out", "old").code == 0
    for ks in ((), ("--k", "5")):  # the hits that R@5 counts are the same
        done = ragindex("gate", "bm25", "--against", "old:bm25", "--data", *given, *ks, "--json", "-")
        assert done.code == 0
        assert (done.json["same_hits"], done.json["questions"]) == (True, 40)
    limited = ragindex("gate", "old:bm25", "--against", "old:links", "--limit", "5", "--skip-bad")
    assert limited.code == 2
    assert "Saved results stand as they are, so leave out --skip-bad and --limit." in limited.err
    assert ragindex("gate", "old:bm25", "--against", "old:links", "--seed", "3").code in (0, 12, 13)
    unnamed = ragindex("gate", "bm25", "--against", "old", "--data", *given)
    assert unnamed.code == 3
    assert "old:bm25, old:links" in unnamed.err or "old:links, old:bm25" in unnamed.err


def test_what_is_missing_is_named() -> None:
    assert "Name them: --data my-documents/" in ragindex("gate", "bm25", "--against", "dense").err
    said = ragindex("gate", "bm25", "--against", "dense", "--data", "world:100", "--limit", "10", "--metric", "R@3").err
    assert "--metric must be one of those measured: R@5" in said
