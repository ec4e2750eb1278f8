"""What the commands print, held in text files. UPDATE_SNAPSHOTS=1 writes the files anew: look at the difference."""

from pathlib import Path

import pytest
from command_line import QUESTIONS, TEXTS, ragindex, write
from snapshots import FIGURES, SPACES, assert_matches, masked

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///runs.db")
    monkeypatch.setattr("ragindex_eval.cli.compare.track", lambda study: None)
    write(tmp_path / "notes", TEXTS)
    (tmp_path / "questions.csv").write_text(QUESTIONS)


def test_compare_and_report() -> None:
    done = ragindex("compare", "notes", "--questions", "questions.csv", "--methods", "bm25,dense", "--k", "1,3")
    assert done.code == 0
    assert_matches(masked(done.out, SPACES, FIGURES), SNAPSHOTS / "compare.txt")
    assert_matches(masked(ragindex("report", "ragindex-results/notes").out), SNAPSHOTS / "report.txt")


def test_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragindex.llm.tokens._loaded", lambda name: None)  # the same with and without a network
    done = ragindex("estimate", "notes", "--methods", "bm25(over=triples)", "--llm", "openai:gpt-4o-mini")
    assert done.code == 0
    assert_matches(masked(done.out), SNAPSHOTS / "estimate.txt")


def test_questions() -> None:
    text = "The mill of Lindau was built in 1871. It ground rye for the town of Lindau until the flood of 1904."
    write(Path("more"), {"mill.txt": text, "flood.txt": "The flood of 1904 destroyed eleven bridges in Lindau."})
    done = ragindex("questions", "more", "--out", "drafted.csv", "--n", "4")
    assert_matches(masked(done.out + done.err), SNAPSHOTS / "questions.txt")
