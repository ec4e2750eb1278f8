"""The command `tune`, and what `compare` makes of the weights that it writes."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import failed, ragindex
from made_mills import write_mills
from unrecorded import record_nothing

MILLS = ("mills", "--questions", "questions.csv", "--index", "index", "--k", "1,2")
TUNE = ("tune", *MILLS, "--limit", "30")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """What `tune` printed and reported of 30 of 32 questions, in its folder."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("desk")
        patch.chdir(folder)
        record_nothing(patch)
        write_mills(folder)
        done = ragindex(*TUNE, "--bases", "bm25,hybrid", "--out", "mine.json", "--json", "told.json")
        assert done.code == 0, done.err
        yield SimpleNamespace(done=done, report=json.loads(Path("told.json").read_text()))


def test_weights_rank_as_tune_says(tuned: SimpleNamespace) -> None:
    """Recall in sample is what `compare` measures with the weights, and the bases are in the file."""
    report, method = tuned.report, "evidence(weights=mine.json)"
    assert (report["questions"], report["file"]) == (30, "mine.json")
    assert sorted([*report["bases"], *report["dropped"]]) == ["bm25", "hybrid"]
    compared = ragindex("compare", *MILLS, "--limit", "30", "--methods", method, "--json", "-").json
    (measured,) = compared["methods"]
    assert [measured["metrics"][f"R@{k}"] for k in (1, 2)] == pytest.approx(report["in_sample"])
    warning = f"{measured['label']} was fitted to 30 of these 30 questions, where its figures are too high"
    assert [note.partition(":")[0] for note in compared["notes"] if "was fitted to" in note] == [warning]
    more = ragindex("compare", *MILLS, "--methods", f"bm25,parent(base={method})", "--json", "-").json
    (note,) = [note for note in more["notes"] if "was fitted to" in note]
    assert note.startswith("parent(")
    assert " was fitted to 30 of these 32 questions, " in note


def test_tune_prints_how_to_use_weights(tuned: SimpleNamespace) -> None:
    out, err = tuned.done.out, " ".join(tuned.done.err.split())
    assert "evidence, out of fold" in out
    assert "evidence, on the questions it was fitted to" in out
    assert "Gain out of fold over " in out
    naming = r"\d+ of 30 questions name the title of a document that answers them: questions without it may give other"
    assert re.search(f"{naming} weights and gains", err)
    (line,) = [text for text in out.splitlines() if "use them" in text]
    assert ("use them anyway" in line) == ("No gain is significant" in out)
    command = shlex.split(line[line.index("ragindex index") :])
    method = "evidence(weights=mine.json)"
    assert command == ["ragindex", "index", "mills", "--index", "index", "--methods", method]
    assert ragindex(*command[1:]).code == 0
    result = ragindex("search", "What does Quill grind?", "--index", "index", "--method", method)
    assert result.code == 0, result.err


@pytest.mark.parametrize(
    ("count", "bases", "message"),
    [
        (29, "bm25", "tune needs at least 30 questions with gold documents, and got 29. Draft more: "),
        (32, "dens", "No method is called 'dens'."),
    ],
)
def test_tune_refuses_before_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, bases: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_mills(tmp_path, count)
    assert failed(2, "tune", *MILLS, "--bases", bases).startswith(message)
    assert not Path("tuned.json").exists()
    assert not Path("index").exists()
