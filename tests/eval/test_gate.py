"""Gates: the verdict by hand, and the command with its exit codes, JUnit and JSON."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import make_desk, ragindex

from ragindex.errors import UsageError
from ragindex_eval.gate import QuestionScores, judge_gate


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def scored(label: str, values: list[float]) -> QuestionScores:
    return QuestionScores(label, {(f"question {number}", ("d",)): value for number, value in enumerate(values)})


@pytest.mark.parametrize(
    ("new", "baseline", "verdict"),
    [
        ([1.0] * 50, [1.0] * 50, "PASS"),
        ([1.0] * 50, [0.0] * 50, "PASS"),
        ([0.0] * 50, [1.0] * 50, "FAIL"),
        ([0.0] * 2 + [1.0] * 48, [1.0] * 50, "UNDECIDED"),  # 4 points below, from 0 to 10
        ([0.0, 1.0] * 25, [1.0, 0.0] * 25, "UNDECIDED"),
    ],
)
def test_the_interval_decides(new: list[float], baseline: list[float], verdict: str) -> None:
    gate = judge_gate(scored("new", new), scored("old", baseline), "R@5", 0.05, 0)
    assert gate.verdict == verdict
    assert (gate.new_score, gate.baseline_score) == (sum(new) / 50, sum(baseline) / 50)


def test_other_questions_or_other_gold_are_refused() -> None:
    with pytest.raises(UsageError, match="new has 3 judged questions and old 2, of which 2 are the same"):
        judge_gate(scored("new", [1.0] * 3), scored("old", [1.0] * 2), "R@5", 0.05, 0)
    other = QuestionScores("old", {(f"question {number}", ("e",)): 1.0 for number in range(3)})
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
    assert unknown.err.strip().splitlines()[-1].startswith("UNDECIDED: The questions do not tell")


def test_saved_results_are_a_baseline() -> None:
    given = ("world:100", "--limit", "40", "--index", "w")
    assert ragindex("compare", *given, "--methods", "bm25,links", "--out", "old").code == 0
    done = ragindex("gate", "bm25", "--against", "old:bm25", "--data", *given, "--json", "-")
    assert done.code == 0
    assert done.json["difference"] == [0.0, 0.0]
    assert done.json["questions"] == 40
    unnamed = ragindex("gate", "bm25", "--against", "old", "--data", *given)
    assert unnamed.code == 3
    assert "old:bm25, old:links" in unnamed.err or "old:links, old:bm25" in unnamed.err


def test_what_is_missing_is_named() -> None:
    assert "Name them: --data my-documents/" in ragindex("gate", "bm25", "--against", "dense").err
    said = ragindex("gate", "bm25", "--against", "dense", "--data", "world:100", "--limit", "10", "--metric", "R@3").err
    assert "--metric must be one of those measured: R@5" in said
