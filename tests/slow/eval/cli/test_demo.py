"""The command `demo`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from click.testing import Result
from snapshots import SENTENCE, assert_matches, masked
from typer.testing import CliRunner
from unrecorded import record_nothing

from ragindex.errors import MissingExtraError
from ragindex.plugins import registry
from ragindex_eval.cli import compare, compare_command
from ragindex_eval.run import plan

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    record_nothing(monkeypatch, "the id of a run")
    return tmp_path


@pytest.fixture
def run() -> Run:
    app = typer.Typer()
    app.command("compare")(compare_command.compare)
    app.command("demo")(compare.demo)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, catch_exceptions=False)

    return call


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three methods that need nothing, on a small world; the README's examples compare all that there are."""
    monkeypatch.setattr(compare, "_DEMO", "world:50")
    monkeypatch.setattr(compare, "_DEMO_QUESTIONS", 10)
    monkeypatch.setattr(compare, "_DEMO_METHODS", "bm25")
    monkeypatch.setattr(plan, "list_all", lambda: ["bm25", "dense", "parent"])


def test_demo_compares_quick_methods(run: Run, working_folder: Path) -> None:
    result = run("demo")
    assert result.exit_code == 0
    value = json.loads((working_folder / "ragindex-demo" / "results" / "comparison.json").read_text())
    labels = [method["label"] for method in value["methods"]]
    assert set(labels) == {"bm25", "dense", "hybrid", "composed", "links", "ircot"}
    assert all(method["unanswered"] == 0 for method in value["methods"])
    assert (value["dataset"]["documents"], value["dataset"]["questions"]) == (1000, 200)
    assert (working_folder / "ragindex-demo" / "results" / "report.html").is_file()
    assert_matches(masked(result.stdout, *SENTENCE), Path(__file__).parent / "snapshots" / "demo.txt")


def test_failed_tracker_is_not_named(run: Run, small_demo: None, monkeypatch: pytest.MonkeyPatch) -> None:
    record_nothing(monkeypatch)
    assert "mlflow" not in run("demo").stdout


def test_server_of_runs_is_named(run: Run, small_demo: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert "the runs        http://127.0.0.1:5000\n" in run("demo").stdout


def test_demo_of_all_lists_what_is_not_installed(
    run: Run, small_demo: None, working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme = registry.scheme

    def without(written: registry.PluginSpec) -> object:
        if written == "dense":
            raise MissingExtraError("The method 'dense' needs … Run: pip install 'sentence-transformers>=5'")
        return scheme(written)

    monkeypatch.setattr(registry, "scheme", without)
    result = run("demo", "--all", "--dir", "elsewhere")
    assert "left out: dense: The method 'dense' needs … Run: pip install 'sentence-transformers>=5'" in result.stdout
    value = json.loads((working_folder / "elsewhere" / "results" / "comparison.json").read_text())
    assert {method["label"] for method in value["methods"]} == {"bm25", "parent"}
