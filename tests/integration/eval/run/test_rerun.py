"""A rerun of a finished comparison shows its results only if nothing that they depend on has changed."""

import importlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import QUESTIONS, TEXTS, ragindex, write
from unrecorded import record_nothing

from ragindex.errors import StoreError
from ragindex.plugins import registry
from ragindex_eval.cli import compare
from ragindex_eval.run import rerun
from ragindex_eval.run.settings import make_settings

GIVEN = ("compare", "notes", "--questions", "questions.csv", "--k", "1,3")
RESULTS = Path("ragindex-results/notes")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record_nothing(monkeypatch)
    write(tmp_path / "notes", TEXTS)
    (tmp_path / "questions.csv").write_text(QUESTIONS)


def is_shown_again(*extra: str, methods: str = "bm25", code: int = 0) -> bool:
    """Run the comparison; return whether it showed the results of the run before."""
    before = _started()
    done = ragindex(*GIVEN, "--methods", methods, *extra)
    assert done.code == code
    again = "\n  unchanged       since " in done.out
    assert again == (_started() == before)
    return again


def _started() -> str | None:
    file = RESULTS / "study.json"
    return str(json.loads(file.read_text())["started"]) if file.exists() else None


def test_a_rerun_says_the_same_and_writes_nothing() -> None:
    first = ragindex(*GIVEN, "--methods", "bm25,dense", "--encoder", "lsa:1")
    files = {path: path.read_bytes() for path in RESULTS.rglob("*") if path.is_file()}
    changed = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    second = ragindex(*GIVEN, "--methods", "bm25,dense", "--encoder", "lsa:1")
    assert second.out.startswith(first.out)
    assert second.out[len(first.out) :].startswith("  unchanged       since ")
    assert second.err == ""
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == changed
    figures = ragindex(*GIVEN, "--methods", "bm25,dense", "--encoder", "lsa:1", "--json", "-").json
    assert figures == json.loads(files[RESULTS / "comparison.json"])


def test_it_measures_thresholds_and_files_left_out_again() -> None:
    write(Path("notes"), {"empty.txt": ""})
    assert not is_shown_again(code=11)
    assert is_shown_again(code=11)
    assert is_shown_again("--fail-below", "bm25:R@1=0.5", code=11)
    Path("notes/empty.txt").unlink()
    assert not is_shown_again()
    assert is_shown_again("--fail-below", "bm25:R@1=0.9", code=8)
    done = ragindex(*GIVEN, "--methods", "bm25", "--fail-below", "dense:R@1=0.9")
    assert (done.code, done.out) == (2, "")
    assert "--fail-below names the method 'dense', which is not in this comparison. Available: bm25." in done.err


def _keep_size_and_time(path: str, text: str) -> None:
    file = Path(path)
    status = file.stat()
    assert len(text.encode()) == status.st_size
    file.write_text(text)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def _add_to_index() -> None:
    write(Path("more"), {"coal.txt": "Coal is another source of heat."})
    done = ragindex("add", "more", "--as", "more", "--index", "ragindex-workspaces/notes")
    assert done.code == 0, done.err


CHANGES: dict[str, Callable[[], Any]] = {
    "a document": lambda: write(Path("notes"), {"quill.txt": "Nether Quill is a town made of wool."}),
    "a document of equal size and time": lambda: _keep_size_and_time(
        "notes/quill.txt", TEXTS["quill.txt"].replace("slate", "stone")
    ),
    "a document more": lambda: write(Path("notes"), {"rivers/more.md": "Slate is carried on a third river."}),
    "a document less": lambda: Path("notes/rivers/orla.md").unlink(),
    "a document's name": lambda: Path("notes/rivers/orla.md").rename("notes/rivers/orla2.md"),
    "a file that no reader takes": lambda: write(Path("notes"), {"picture.png": "none"}),
    "a question": lambda: Path("questions.csv").write_text(QUESTIONS.replace("Slate?", "Wool?")),
    "the gold": lambda: Path("questions.csv").write_text(QUESTIONS.replace(";quill.txt", "")),
    "a result that is gone": lambda: (RESULTS / "runs" / "bm25.trec").unlink(),
    "the report that is gone": lambda: (RESULTS / "report.html").unlink(),
    "a result half written": lambda: (RESULTS / "per_query.jsonl").write_text(
        (RESULTS / "per_query.jsonl").read_text()[:100]
    ),
    "the record half written": lambda: [
        path.write_text(path.read_text()[:-40]) for path in RESULTS.glob("inputs-*.json")
    ],
    "the index that is gone": lambda: [
        path.unlink() for path in Path("ragindex-workspaces/notes").glob("workspace*.json")
    ],
    "a document that is added to the index": _add_to_index,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_a_result_runs_the_comparison_again(change: str) -> None:
    assert not is_shown_again()
    CHANGES[change]()
    assert not is_shown_again()
    assert is_shown_again()


def test_the_documents_of_an_index() -> None:
    assert not is_shown_again()
    given = ("compare", "--index", "ragindex-workspaces/notes", "--questions", "questions.csv", "--methods", "bm25")
    assert "unchanged " not in ragindex(*given).out
    assert "unchanged " in ragindex(*given).out
    _add_to_index()
    changed = ragindex(*given).out
    assert "unchanged " not in changed
    assert "5 documents" in changed


@pytest.mark.parametrize(
    "extra",
    [("--k", "2"), ("--seed", "3"), ("--encoder", "lsa:1"), ("--language", "german"), ("--limit", "1"), ("--fresh",)],
    ids=" ".join,
)
def test_other_settings_run_the_comparison_again(extra: tuple[str, ...]) -> None:
    assert not is_shown_again()
    if extra[0] == "--language":  # an index has one language
        extra = (*extra, "--index", "another")
    assert not is_shown_again(*extra)
    assert is_shown_again(*(one for one in extra if one != "--fresh"))


def test_other_parameters_of_a_method_run_it_again() -> None:
    assert not is_shown_again(methods="hybrid(depth=3)")
    assert is_shown_again(methods="hybrid(depth=3)")
    assert not is_shown_again(methods="hybrid(depth=2)")


def test_a_file_that_was_only_touched_is_unchanged() -> None:
    assert not is_shown_again()
    os.utime("notes/quill.txt", (1, 1))
    assert is_shown_again()


def test_each_folder_of_results_has_its_own_comparison() -> None:
    assert not is_shown_again()
    assert not is_shown_again(methods="bm25,dense")
    assert not is_shown_again()  # the results of both were in one folder
    ragindex(*GIVEN, "--methods", "dense", "--out", "elsewhere")
    assert is_shown_again()
    ragindex(*GIVEN, "--methods", "bm25(over=preceding)", "--out", "elsewhere")
    assert not is_shown_again()  # the index has one more part
    assert is_shown_again()


def test_a_crash_while_results_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_shown_again()

    def crash(study: object, path: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(compare, "save_report", crash)
        with pytest.raises(OSError, match="no space left"):
            ragindex(*GIVEN, "--methods", "bm25", "--fresh")
    assert not is_shown_again()
    assert is_shown_again()


def test_a_document_that_changes_while_the_comparison_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = compare.run_study

    def change_after(*arguments: Any) -> Any:
        study = run(*arguments)
        write(Path("notes"), {"quill.txt": "Nether Quill is a town made of wool."})
        return study

    with monkeypatch.context() as patch:
        patch.setattr(compare, "run_study", change_after)
        assert not is_shown_again()
    write(Path("notes"), {"quill.txt": "Nether Quill is a town made of wool."})
    assert not is_shown_again()
    assert is_shown_again()


# ---------------------------------------------------------------- plugins

PLUGIN = """
from ragindex_baselines.bm25 import BM25

class Turned(BM25):
    version = 1
    def open(self, index):
        base = super().open(index)
        class Retriever:
            def retrieve(self, queries, k):
                FAIL
                return base.retrieve(queries, k)
        return Retriever()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Install a plugin of another distribution, or its code anew, as a new process would see it."""
    site = tmp_path / "site"
    write(site, {"turned-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: turned\nVersion: 1\n"})
    write(site, {"turned-1.dist-info/entry_points.txt": "[ragindex.schemes]\nturned = a_turned_plugin:Turned\n"})
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write_code(failing: str) -> None:
        write(site, {"a_turned_plugin.py": PLUGIN.replace("FAIL", failing)})
        sys.modules.pop("a_turned_plugin", None)
        importlib.invalidate_caches()
        registry._table.cache_clear()

    yield write_code
    sys.modules.pop("a_turned_plugin", None)
    registry._table.cache_clear()


def test_the_code_of_a_plugin(install: Callable[[str], None]) -> None:
    install("pass")
    assert not is_shown_again(methods="turned")
    assert is_shown_again(methods="turned")
    install("queries = list(queries)")
    assert not is_shown_again(methods="turned")


def test_a_question_that_failed_is_asked_again(install: Callable[[str], None]) -> None:
    install("assert not any('Slate' in query.text for query in queries), 'no slate'")
    assert not is_shown_again(methods="turned")
    assert not is_shown_again(methods="turned")
    assert not list(RESULTS.glob("inputs-*.json"))


# ---------------------------------------------------------------- what is described


def described(**settings: Any) -> rerun.Inputs:
    return rerun.describe_inputs(make_settings({"data": "notes", "questions": "questions.csv", **settings}))


@pytest.mark.parametrize(
    "settings",
    [
        {"encoder": "sentence-transformers:models/one"},
        {"methods": 'bm25,rerank(reranker="cross-encoder:models/one")'},
        {"methods": [{"name": "evidence", "params": {"weights": "models/one/weights.json#0123"}}]},
        {"grid": ['evidence:weights="models/one/weights.json"']},
        {"reranker": "cross-encoder:models/one"},
        {"qa_model": "models/one"},
        {"triples": "models/one/weights.json"},
    ],
    ids=lambda settings: str(*settings),
)
def test_files_of_models_that_settings_name(settings: dict[str, Any]) -> None:
    write(Path("models/one"), {"weights.json": "1"})
    before = described(**settings)
    assert described(**settings).matches(before)
    write(Path("models/one"), {"weights.json": "2"})
    assert not described(**settings).matches(before)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_file_name_that_is_not_unicode() -> None:
    Path(os.fsdecode(b"notes/caf\xe9.txt")).write_text("Coffee.")
    assert not is_shown_again(code=11)
    assert is_shown_again(code=11)


def test_results_that_cannot_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_shown_again()

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StoreError, match=r"inputs-\w+\.json could not be removed: Operation not permitted"):
        rerun.remove_records(RESULTS)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_among_the_documents_is_not_read() -> None:
    os.mkfifo("notes/pipe")
    assert described().files["0/pipe"] == rerun.FileState(hash=None, stamp=None)


def test_a_label_is_no_path() -> None:
    methods = [{"name": "bm25", "label": "[b]models[/]"}, {"name": "bm25", "label": "models/one"}]
    write(Path("models"), {"one": "1"})
    before = described(methods=methods)
    write(Path("models"), {"one": "2"})
    assert described(methods=methods).matches(before)


def test_the_revision_of_a_model_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(Path("hub").resolve()))
    write(Path("hub/models--a--b/refs"), {"main": "0123"})
    before = described()
    write(Path("hub/models--a--b/refs"), {"main": "4567"})
    assert not described().matches(before)


def test_another_service_and_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://one.example/v1")
    before = described()
    monkeypatch.setenv("OPENAI_BASE_URL", "https://user:password@one.example/v1")
    assert described().matches(before)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://two.example/v1")
    assert not described().matches(before)


def test_the_corpus_beside_a_file_of_questions() -> None:
    write(Path("data"), {"some.json": "[]"})
    before = described(data="data/some.json")
    write(Path("data"), {"some_corpus.json": "[]"})
    assert not described(data="data/some.json").matches(before)


def test_a_file_that_was_changed_just_now_is_read_again() -> None:
    old = time.time() - 60
    for name in TEXTS:
        os.utime(Path("notes", name), (old, old))
    states = described().files
    assert {state.stamp for state in states.values()} == {None}  # the files are as new as their ctime
    time.sleep(2.1)
    assert None not in {state.stamp for state in described().files.values() if state.hash}


@pytest.mark.slow
def test_a_rerun_imports_neither_engine_nor_mlflow_and_records_nothing() -> None:
    command = [sys.executable, "-m", "ragindex", *GIVEN, "--methods", "bm25,hybrid"]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": "sqlite:///runs.db"}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    recorded = count_runs()
    assert recorded["runs"] == 3
    code = (
        "import runpy, sys\n"
        f"sys.argv = {['ragindex', *command[3:]]!r}\n"
        "try:\n    runpy.run_module('ragindex', run_name='__main__')\n"
        "except SystemExit:\n    pass\n"
        "late = {'mlflow', 'lancedb', 'pandas', 'sklearn', 'torch', 'matplotlib'} & sys.modules.keys()\n"
        "print(sorted(late), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert "unchanged       since" in done.stdout
    assert done.stderr == "[]\n"
    assert count_runs() == recorded
    Path("runs.db").unlink()
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert "unchanged       since" in done.stdout
    # A store that lacks the runs gets them, without the durations of the two methods, which the files do not have.
    assert count_runs() == {**recorded, "metrics": recorded["metrics"] - 2}


def count_runs() -> dict[str, int]:
    with closing(sqlite3.connect("runs.db")) as database:
        tables = ("runs", "metrics", "params", "tags", "inputs")
        return {table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
