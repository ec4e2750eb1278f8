import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from click.testing import Result
from command_line import QUESTIONS, TEXTS
from typer.testing import CliRunner
from unrecorded import record_nothing

from ragindex.errors import BelowThresholdError, DataError, LeftOutError, UnknownNameError, UsageError
from ragindex_eval.cli import compare, compare_command

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents and questions; comparisons are not recorded (tests/integration/eval/mlflow)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    record_nothing(monkeypatch, "the id of a run")
    for name, text in TEXTS.items():
        path = tmp_path / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "questions.csv").write_text(QUESTIONS)
    return tmp_path


@pytest.fixture
def run() -> Run:
    app = typer.Typer()
    app.command("compare")(compare_command.compare)
    app.command("demo")(compare.demo)
    app.command("report")(compare.report)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, catch_exceptions=False)

    return call


def test_documents_of_ones_own_with_questions(run: Run, working_folder: Path) -> None:
    result = run("compare", "notes", "--questions", "questions.csv", "--methods", "bm25,hybrid(depth=3)", "--k", "1,3")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[2].startswith("bm25")
    assert lines[3].startswith("hybrid(depth=3)")
    assert "notes (folder): 4 documents, 4 passages, 2 questions; k = 1, 3" in result.stdout
    results = working_folder / "ragindex-results" / "notes"
    value = json.loads((results / "comparison.json").read_text())
    assert [method["label"] for method in value["methods"]] == ["bm25", "hybrid(depth=3)"]
    assert value["methods"][0]["metrics"]["R@1"] == 0.75
    assert {path.name for path in (results / "runs").iterdir()} == {"bm25.trec", "hybrid(depth=3).trec"}
    assert len((results / "per_query.jsonl").read_text().splitlines()) == 4
    assert (results / "qrels.trec").read_text().splitlines()[0] == "q00001 0 hill.md 1"
    assert (working_folder / "ragindex-workspaces" / "notes" / "workspace.json").exists()


def test_json_alone_on_standard_output(run: Run, working_folder: Path) -> None:
    result = run("compare", "notes", "--questions", "questions.csv", "--methods", "bm25", "--json", "-")
    value = json.loads(result.stdout)
    assert value == json.loads((working_folder / "ragindex-results" / "notes" / "comparison.json").read_text())
    beside = run("compare", "notes", "--questions", "questions.csv", "--methods", "bm25", "--json", "figures.json")
    assert json.loads((working_folder / "figures.json").read_text()) == value
    for record in (working_folder / "ragindex-results" / "notes").glob("inputs-*.json"):
        record.unlink()
    run("compare", "notes", "--questions", "questions.csv", "--methods", "bm25", "--json", "figures.json")
    again = json.loads((working_folder / "figures.json").read_text())
    (note,) = again.pop("notes")
    assert re.fullmatch(r"bm25: 2 answers read from \d\d:\d\d; --fresh asks again", note)
    assert again == {name: content for name, content in value.items() if name != "notes"}
    assert "bm25" in beside.stdout


def test_questions_without_gold(run: Run, working_folder: Path) -> None:
    (working_folder / "questions.txt").write_text("Which hill is highest?\nWhat is Nether Quill?\n")
    result = run("compare", "notes", "--questions", "questions.txt", "--methods", "bm25", "--out", "elsewhere")
    assert "No quality was measured" in result.stdout
    assert "use the best" not in result.stdout
    assert "--out retriever --method METHOD" in result.stdout
    assert json.loads((working_folder / "elsewhere" / "comparison.json").read_text())["methods"][0]["metrics"] == {}


def test_a_study_of_a_file(run: Run, working_folder: Path) -> None:
    (working_folder / "study.yaml").write_text(
        "name: seeds\ncorpora: [notes]\nquestions: questions.csv\nseeds: [0, 1]\nk: [1]\nmethods: [bm25, hybrid]\n"
        "grid: ['hybrid:rrf_k=1,60']\nfail-below: ['bm25:R@1=0.1']\n"
    )
    result = run("compare", "--config", "study.yaml")
    assert "notes, encoder lsa, seed 1" in result.stdout
    folder = working_folder / "ragindex-results" / "seeds"
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("inputs-"))
    assert names == ["01-notes", "02-notes", "report.html", "study.json"]
    value = json.loads((folder / "02-notes" / "comparison.json").read_text())
    assert [method["label"] for method in value["methods"]] == ["bm25", "hybrid(rrf_k=1)", "hybrid(rrf_k=60)"]


def test_a_figure_that_is_too_low_fails_after_the_results_are_written(run: Run, working_folder: Path) -> None:
    arguments = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25", "--k", "1")
    run(*arguments, "--fail-below", "bm25:R@1=0.5")
    with pytest.raises(BelowThresholdError, match=r"R@1 of bm25 on notes is 0\.7500, below the required 0\.9"):
        run(*arguments, "--fail-below", "bm25:R@1=0.5", "--fail-below", "bm25:R@1=0.9", "--out", "elsewhere")
    assert (working_folder / "elsewhere" / "report.html").is_file()


def test_files_that_cannot_be_read_are_left_out(run: Run, working_folder: Path) -> None:
    """The results are written all the same; only --skip-bad makes it a success, and --strict stops at once."""
    (working_folder / "notes" / "empty.txt").write_text("")
    (working_folder / "notes" / "picture.png").write_bytes(b"\x89PNG")
    arguments = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25")
    with pytest.raises(LeftOutError, match="1 file that cannot be read was left out"):
        run(*arguments, "--out", "results")
    comparison = json.loads((working_folder / "results" / "comparison.json").read_text())
    assert [note.rpartition("/")[2] for note in comparison["notes"] if note.startswith("skipped: ")] == [
        "empty.txt: expected a file with text in it; found none."
    ]
    with pytest.raises(DataError, match=r"empty\.txt: expected a file with text in it; found none\."):
        run(*arguments, "--strict")
    (working_folder / "questions.csv").write_text(QUESTIONS + "Who?,,nobody.md\n")
    skipped = run(*arguments, "--skip-bad")
    assert skipped.exit_code == 0
    assert "skipped: " in skipped.stdout
    assert "nobody.md" in skipped.stdout
    assert "ignored: 1 picture (picture.png)" in skipped.stdout


def test_a_file_of_settings_and_flags_that_win(run: Run, working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUESTIONS_FILE", "questions.csv")
    (working_folder / "study.yaml").write_text(
        "data: notes\nquestions: ${QUESTIONS_FILE}\nk: [2, 3]\nseed: 5\njson: '-'\nskip-bad: true\n"
        "methods:\n- bm25\n- name: hybrid\n  label: deep\n  params: {depth: 50}\n- {name: hybrid, label: flat}\n"
    )
    value = json.loads(run("compare", "--config", "study.yaml", "--seed", "7").stdout)
    assert [(method["name"], method["label"]) for method in value["methods"]] == [
        ("bm25", "bm25"),
        ("hybrid", "deep"),
        ("hybrid", "flat"),
    ]
    assert value["methods"][1]["params"]["depth"] == 50
    assert value["seed"] == 7
    assert {name.partition("@")[2] for name in value["methods"][0]["metrics"]} == {"2", "3"}
    other = json.loads(run("compare", "--config", "study.yaml", "--methods", "bm25", "--k", "1").stdout)
    assert [method["label"] for method in other["methods"]] == ["bm25"]
    assert set(other["methods"][0]["metrics"]) == {
        f"{name}@1" for name in ("R", "full_R", "Success", "RR", "nDCG", "one_doc_R")
    }


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (["--methods", "bm52"], UnknownNameError, "Did you mean bm25"),
        (["--k", "0"], UsageError, r"range \[1, inf\)"),
        (["--language", "klingon"], UsageError, "klingon"),
    ],
)
def test_flags_that_cannot_be(run: Run, arguments: list[str], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        run("compare", "notes", "--questions", "questions.csv", *arguments)
