"""A rerun of a finished comparison shows its results only if nothing that they depend on has changed."""

import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import QUESTIONS, TEXTS, Done, ragindex, write
from unrecorded import record_nothing

from ragindex.plugins import registry
from ragindex_eval.cli import compare
from ragindex_eval.run import rerun
from ragindex_eval.run.settings import make_settings

GIVEN = ("compare", "notes", "--questions", "questions.csv", "--k", "1,3")
RESULTS = Path("ragindex-results/notes")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """A folder with a finished comparison of bm25, and what it printed."""
    folder = tmp_path_factory.mktemp("finished")
    write(folder / "notes", TEXTS)
    (folder / "questions.csv").write_text(QUESTIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        record_nothing(patch)
        done = ragindex(*GIVEN, "--methods", "bm25")
    shutil.copytree(folder, folder.with_suffix(".saved"))
    return folder, done


@pytest.fixture(autouse=True)
def desk(finished: tuple[Path, Done], monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder as it was then, in the place that the index remembers."""
    shutil.rmtree(finished[0])
    shutil.copytree(finished[0].with_suffix(".saved"), finished[0])
    monkeypatch.chdir(finished[0])
    record_nothing(monkeypatch)


def is_shown_again(*extra: str, methods: str = "bm25", code: int = 0) -> bool:
    """Run the comparison; return whether it showed the results of the run before."""
    before = json.loads((RESULTS / "study.json").read_text())["started"]
    done = ragindex(*GIVEN, "--methods", methods, *extra)
    assert done.code == code
    again = "\n  unchanged       since " in done.out
    assert again == (json.loads((RESULTS / "study.json").read_text())["started"] == before)
    return again


def is_unchanged() -> bool:
    """Return whether the comparison of bm25 would show the results of the run before."""
    settings = make_settings({"data": "notes", "questions": "questions.csv", "k": "1,3", "methods": "bm25"})
    record = rerun.find_record(rerun.settings_digest(settings), settings.out)
    if record is None:
        return False
    inputs = rerun.describe_inputs(settings, record[1].files)
    return rerun.load_unchanged(settings, *record, inputs) is not None


def test_rerun_says_the_same_and_writes_nothing(finished: tuple[Path, Done]) -> None:
    first, saved = finished[1], (RESULTS / "comparison.json").read_text()
    changed = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    second = ragindex(*GIVEN, "--methods", "bm25")
    assert second.out.startswith(first.out)
    assert second.out[len(first.out) :].startswith("  unchanged       since ")
    assert second.err == ""
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == changed
    assert ragindex(*GIVEN, "--methods", "bm25", "--json", "-").json == json.loads(saved)


def test_rerun_checks_thresholds_and_files_left_out() -> None:
    assert is_shown_again("--fail-below", "bm25:R@1=0.9", code=8)
    done = ragindex(*GIVEN, "--methods", "bm25", "--fail-below", "dense:R@1=0.9")
    assert (done.code, done.out) == (2, "")
    assert "--fail-below names the method 'dense', which is not in this comparison. Available: bm25." in done.err
    write(Path("notes"), {"empty.txt": ""})
    assert not is_shown_again(code=11)
    assert is_shown_again(code=11)
    assert is_shown_again("--fail-below", "bm25:R@1=0.5", code=11)


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
def test_change_of_input_or_result(change: str) -> None:
    assert is_unchanged()
    CHANGES[change]()
    assert not is_unchanged()


def test_touched_file_is_unchanged() -> None:
    os.utime("notes/quill.txt", (1, 1))
    assert is_unchanged()


def test_documents_of_an_index() -> None:
    given = ("compare", "--index", "ragindex-workspaces/notes", "--questions", "questions.csv", "--methods", "bm25")
    assert "unchanged " not in ragindex(*given).out
    assert "unchanged " in ragindex(*given).out
    _add_to_index()
    changed = ragindex(*given).out
    assert "unchanged " not in changed
    assert "5 documents" in changed


def test_each_results_folder_has_its_own_comparison() -> None:
    assert not is_shown_again(methods="bm25,dense")
    assert not is_shown_again()  # the results of both were in one folder
    ragindex(*GIVEN, "--methods", "dense", "--out", "elsewhere")
    assert is_shown_again()
    ragindex(*GIVEN, "--methods", "bm25(over=topics)", "--out", "elsewhere")
    assert not is_unchanged()  # the index has one more part


def test_crash_while_results_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(study: object, path: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(compare, "save_report", crash)
        with pytest.raises(OSError, match="no space left"):
            ragindex(*GIVEN, "--methods", "bm25", "--fresh")
    assert not is_shown_again()
    assert is_shown_again()


def test_document_that_changes_while_comparison_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = compare.run_study

    def change_after(*arguments: Any, **options: Any) -> Any:
        study = run(*arguments, **options)
        write(Path("notes"), {"quill.txt": "Nether Quill is a town made of wool."})
        return study

    monkeypatch.setattr(compare, "run_study", change_after)
    assert not is_shown_again("--fresh")
    assert not is_unchanged()
    assert not is_shown_again()
    assert is_unchanged()


PLUGIN = """
from ragindex_baselines.bm25 import BM25

class Turned(BM25):
    version = 1
    def _open(self, index):
        base = super()._open(index)
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


def test_code_of_a_plugin(install: Callable[[str], None]) -> None:
    install("pass")
    assert not is_shown_again(methods="turned")
    assert is_shown_again(methods="turned")
    install("queries = list(queries)")
    assert not is_shown_again(methods="turned")


def test_failed_question_is_asked_again(install: Callable[[str], None]) -> None:
    install("assert not any('Slate' in query.text for query in queries), 'no slate'")
    assert not is_shown_again(methods="turned")
    assert not list(RESULTS.glob("inputs-*.json"))
    assert not is_shown_again(methods="turned")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_file_name_that_is_not_unicode() -> None:
    Path(os.fsdecode(b"notes/caf\xe9.txt")).write_text("Coffee.")
    assert not is_shown_again(code=11)
    assert is_shown_again(code=11)


def test_files_of_the_index_own_encoder() -> None:
    write(Path("models"), {"one/config.json": "{}"})
    own = ("--index", "w", "--encoder", "sentence-transformers:models/one")
    assert ragindex("index", "notes", *own, "--methods", "bm25").code == 0
    given = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25", "--index", "w", "--out", "of own")
    outputs = [ragindex(*given).out for _ in range(2)]
    write(Path("models"), {"one/config.json": '{"layers": 2}'})
    outputs.append(ragindex(*given).out)
    assert ["\n  unchanged " in output for output in outputs] == [False, True, False]
