"""Comparisons that appear in MLflow while they run, in real SQLite stores; some are stopped, or their process dies."""

import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import QUESTIONS, TEXTS, ragindex, write
from filelock import FileLock

from ragindex_eval import mlflow_live
from ragindex_eval.results.model import MethodResult

COMMAND = (
    "compare",
    "notes",
    "--questions",
    "questions.csv",
    "--methods",
    "bm25,dense",
    "--k",
    "1",
    "--encoder",
    "lsa:1",
)
RECALL, LATENCY = "retrieval/recall_at_1", "latency/p50_ms"


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables, which take seconds to make."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture(autouse=True)
def uri(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    shutil.copy(empty_store, tmp_path)
    write(tmp_path / "notes", TEXTS)
    write(tmp_path, {"questions.csv": QUESTIONS})
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return uri


def all_runs(uri: str, view: int = 1) -> list[Any]:
    """Return the runs in the order of their start: active ones with view 1, deleted ones with view 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name("ragindex")
        if experiment is None:
            return []
        return list(client.search_runs([experiment.experiment_id], "", view, order_by=["start_time ASC"]))


def states(uri: str) -> dict[str, str]:
    """Return the status of each run by its method, and of the parent by ""."""
    return {run.data.tags.get("ragindex.method", ""): run.info.status for run in all_runs(uri)}


def parent_of(uri: str) -> Any:
    (parent,) = [run for run in all_runs(uri) if "mlflow.parentRunId" not in run.data.tags]
    return parent


def run_watched(monkeypatch: pytest.MonkeyPatch, see: Callable[[MethodResult | None], None]) -> None:
    """Run the comparison; `see` is called after each thing that MLflow was told."""
    watch = mlflow_live.LiveRuns.watch

    def watch_and_see(live: mlflow_live.LiveRuns, number: int, dataset: str, method: MethodResult | None) -> None:
        watch(live, number, dataset, method)
        see(method)

    with monkeypatch.context() as patch:
        patch.setattr(mlflow_live.LiveRuns, "watch", watch_and_see)
        assert ragindex(*COMMAND).code == 0


def stop_after(label: str, error: BaseException) -> Callable[[MethodResult | None], None]:
    def see(method: MethodResult | None) -> None:
        if method is not None and method.label == label:
            raise error

    return see


def test_runs_appear_as_the_methods_answer(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, recalls, ids = [], {}, set()

    def see(method: MethodResult | None) -> None:
        seen.append(states(uri))
        ids.update(run.info.run_id for run in all_runs(uri))
        if method is not None:
            (run,) = [run for run in all_runs(uri) if run.info.run_name == method.label]
            recalls[method.label] = run.data.metrics[RECALL]
            assert LATENCY not in run.data.metrics
            assert run.data.params == {"method": method.name, "label": method.label}

    run_watched(monkeypatch, see)
    assert seen == [
        {"": "RUNNING"},
        {"": "RUNNING", "0/bm25": "FINISHED"},
        {"": "RUNNING", "0/bm25": "FINISHED", "0/dense": "FINISHED"},
    ]
    assert states(uri) == {"": "FINISHED", "0/bm25": "FINISHED", "0/dense": "FINISHED"}
    runs = all_runs(uri)
    assert {run.info.run_id for run in runs} == ids
    children = {run.info.run_name: run for run in runs if "ragindex.method" in run.data.tags}
    assert {label: run.data.metrics[RECALL] for label, run in children.items()} == recalls
    assert all(run.data.metrics[LATENCY] > 0 and run.data.params["k"] == "1" for run in children.values())
    parent = parent_of(uri)
    assert parent.info.run_name == f"notes {parent.data.tags['ragindex.comparison'][:8]}"
    assert "ragindex.unfinished" not in parent.data.tags
    assert parent.info.end_time - parent.info.start_time >= 1000 * parent.data.metrics["duration_seconds"]
    assert all(run.inputs.dataset_inputs for run in runs)


@pytest.mark.slow
def test_a_comparison_that_runs_again_adds_its_figures_to_the_tree_that_is_there(uri: str) -> None:
    ragindex(*COMMAND)
    before = {run.info.run_id for run in all_runs(uri)}
    assert ragindex(*COMMAND, "--fresh").code == 0
    assert {run.info.run_id for run in all_runs(uri)} == before
    assert states(uri) == {"": "FINISHED", "0/bm25": "FINISHED", "0/dense": "FINISHED"}
    assert {run.info.status for run in all_runs(uri, view=2)} == {"KILLED", "FINISHED"}  # what was shown meanwhile


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), "KILLED"),
        (BaseException("as the command line raises for Ctrl-C"), "KILLED"),
        (OSError("no space left on device"), "FAILED"),
    ],
)
def test_a_comparison_that_was_stopped_is_ended_and_completed_later(
    uri: str, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str
) -> None:
    with pytest.raises(BaseException):  # noqa: B017, PT011  # Ctrl-C ends the command with another code than 0
        run_watched(monkeypatch, stop_after("bm25", error))
    assert states(uri) == {"": status, "0/bm25": "FINISHED"}
    stopped = parent_of(uri).info.run_id
    assert ragindex(*COMMAND).code == 0
    assert states(uri) == {"": "FINISHED", "0/bm25": "FINISHED", "0/dense": "FINISHED"}
    assert parent_of(uri).info.run_id == stopped


def kill_after_bm25() -> None:
    """Run the comparison in a process that is killed when bm25 has answered."""
    code = (
        "import os, signal, sys\n"
        "from ragindex.cli.main import run_cli\n"
        "from ragindex_eval import mlflow_live\n"
        "watch = mlflow_live.LiveRuns.watch\n"
        "def die(live, number, dataset, method):\n"
        "    watch(live, number, dataset, method)\n"
        "    if method is not None:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "mlflow_live.LiveRuns.watch = die\n"
        f"sys.argv = {['ragindex', *COMMAND]!r}\n"
        "run_cli()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_the_next_run_takes_over_what_a_killed_process_left(uri: str) -> None:
    kill_after_bm25()
    assert states(uri) == {"": "RUNNING", "0/bm25": "FINISHED"}
    left = {run.info.run_id for run in all_runs(uri)}
    Path("notes", "new.md").write_text(
        "# Barle\n\nBarle is a bay in the south."
    )  # another comparison, by the same command
    assert ragindex(*COMMAND).code == 0
    assert states(uri) == {"": "FINISHED", "0/bm25": "FINISHED", "0/dense": "FINISHED"}
    assert left <= {run.info.run_id for run in all_runs(uri)}
    assert {run.data.params["dataset/documents"] for run in all_runs(uri)} == {str(len(TEXTS) + 1)}


@pytest.mark.slow
def test_a_run_of_a_living_process_is_left_alone(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_after_bm25()
    left = parent_of(uri).info.run_id
    locks: list[str] = []
    made = mlflow_live.FileLock
    with monkeypatch.context() as patch:
        patch.setattr(mlflow_live, "FileLock", lambda path: (locks.append(path), made(path))[1])
        with pytest.raises(OSError, match="only for the path"):
            run_watched(monkeypatch, stop_after("bm25", OSError("only for the path of the lock")))
    kill_after_bm25()
    with FileLock(locks[0]):
        assert ragindex(*COMMAND).code == 0
    found = {run.info.run_id: run.info.status for run in all_runs(uri)}
    assert found[left] == "RUNNING"
    assert sorted(found.values()) == ["FINISHED"] * 4 + ["RUNNING"]


def test_the_lock_is_in_the_results_and_does_not_stay(uri: str) -> None:
    assert ragindex(*COMMAND).code == 0
    assert parent_of(uri).info.status == "FINISHED"
    assert list(Path("ragindex-results").glob("**/.*")) == []


@pytest.mark.filterwarnings("always::ragindex_eval.mlflow_tracking.TrackingWarning")
def test_a_tracker_that_fails_is_told_once_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////proc/nothing/runs.db")
    done = ragindex(*COMMAND)
    assert done.code == 0
    assert done.err.count("not recorded in MLflow") == 1
    assert Path("ragindex-results/notes/comparison.json").is_file()
