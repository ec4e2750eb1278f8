"""The command `gate`: its exit codes, JUnit and JSON."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import make_desk, ragindex
from made_comparisons import make_comparison
from openai_server import chat
from till import billing, open_desk

from ragindex_eval.results.files import save_results
from ragindex_eval.results.model import Study


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


def test_unread_files_are_told(desk: Path) -> None:
    (desk / "notes" / "broken.pdf").write_bytes(b"no PDF")
    given = ("gate", "bm25", "--against", "bm25", "--data", "notes", "--questions", "questions.csv", "--index", "w")
    done = ragindex(*given)
    assert (done.code, done.out[:5]) == (11, "PASS:")
    assert "skipped: notes/broken.pdf: expected " in done.err
    accepted = ragindex(*given, "--skip-bad")
    assert (accepted.code, "skipped: notes/broken.pdf: expected " in accepted.err) == (0, True)


def test_method_that_fails_on_every_question_has_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with billing() as till:
        open_desk(till, tmp_path, monkeypatch)
        till.server.choose = lambda received, earlier: chat(content=None, refusal="I cannot help with this.")
        given = ("--data", "notes", "--questions", "questions.csv", "--index", "w", "--llm", "openai:small")
        done = ragindex("gate", "ircot(base=bm25)", "--against", "bm25", *given)
    assert (done.code, done.out) == (7, "")
    last = done.err.strip().splitlines()[-1]
    assert last.startswith("error: There is no verdict. ircot failed on every question, and is not compared: ")
    assert "I cannot help with this" in last


def test_verdicts_of_saved_results() -> None:
    recalls = {"best": [1.0] * 60, "same": [1.0] * 60, "worst": [0.0] * 60}
    save_results(Study("made", (make_comparison(recalls, rankings={"same": [["a", "b"]] * 60}),)), Path("old"))
    passed = ragindex("gate", "old:best", "--against", "old:worst", "--junit", "gate.xml", "--json", "gate.json")
    assert passed.code == 0, passed.err
    assert passed.out.startswith("PASS: R@5 of best is 100.0, of worst 0.0; ")
    suite = ElementTree.parse("gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    failed = ragindex("gate", "old:worst", "--against", "old:best", "--seed", "3", "--junit", "gate.xml")
    assert failed.code == 12
    assert failed.out.startswith("FAIL: ")
    assert failed.err.strip().splitlines()[-1].startswith("FAIL: worst is worse than best")
    failure = ElementTree.parse("gate.xml").getroot().find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "FAIL"
    assert failure.text == "\n".join(failed.out.splitlines()[1:])
    assert failure.text.startswith(
        "60 questions lost, 0 won:\n  'What is q1?': 0.0, before 100.0; gold at rank 1, before gold at rank 1\n"
    )
    unknown = ragindex("gate", "old:same", "--against", "old:best", "--margin", "0.01")
    assert unknown.code == 13
    assert unknown.err.strip().splitlines()[-1] == (
        "UNDECIDED: The questions do not tell: add questions (about 280 in all would settle it if the differences "
        "stay, 80 % power), or choose a larger --margin before looking at the next result."
    )
    limited = ragindex("gate", "old:best", "--against", "old:worst", "--limit", "5", "--skip-bad")
    assert limited.code == 2
    assert "Saved results stand as they are, so leave out --limit and --skip-bad." in limited.err


def test_measured_method_against_saved_results() -> None:
    given = ("notes", "--questions", "questions.csv", "--index", "w")
    assert ragindex("compare", *given, "--methods", "bm25,bm25(over=triples)", "--out", "old").code == 0
    for ks in ((), ("--k", "5")):  # the hits that R@5 counts are the same
        done = ragindex("gate", "bm25", "--against", "old:bm25", "--data", *given, *ks, "--json", "-")
        assert done.code == 0
        assert (done.json["same_hits"], done.json["questions"]) == (True, 2)
    unnamed = ragindex("gate", "bm25", "--against", "old", "--data", *given)
    assert unnamed.code == 3
    assert "there are old:bm25, old:bm25(over=triples)" in unnamed.err
    other = ragindex("gate", "bm25", "--against", "bm25", "--data", *given, "--metric", "R@3")
    assert "--metric must be one of those measured: R@5" in other.err
    assert "Name them: --data my-documents/" in ragindex("gate", "bm25", "--against", "dense").err
