"""Comparisons that appear in MLflow while they run, in real SQLite stores; some are stopped."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import QUESTIONS, TEXTS, ragindex, write
from filelock import FileLock
from mlflow_database import all_runs, parent_of

from ragindex.plugins import registry
from ragindex_eval.mlflow import live as mlflow_live
from ragindex_eval.run.scores import ScoredMethod

COMMAND = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25,dense", "--k", "1")
COMMAND += ("--encoder", "lsa:1")
FINISHED = {"": "FINISHED", "0/bm25": "FINISHED", "0/dense": "FINISHED"}
RECALL, LATENCY = "retrieval/recall_at_1", "latency/p50_ms"


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, uri: str) -> None:
    write(tmp_path / "notes", TEXTS)
    write(tmp_path, {"questions.csv": QUESTIONS})


def states(uri: str) -> dict[str, str]:
    """Return the status of each run by its method, and of the parent by ""."""
    return {run.data.tags.get("ragindex.method", ""): run.info.status for run in all_runs(uri)}


def run_watched(monkeypatch: pytest.MonkeyPatch, see: Callable[[ScoredMethod | None], None]) -> None:
    """Run the comparison; `see` is called after each thing that MLflow recorded."""
    watch = mlflow_live.LiveRuns.watch

    def watch_and_see(live: mlflow_live.LiveRuns, number: int, dataset: str, method: ScoredMethod | None) -> None:
        watch(live, number, dataset, method)
        see(method)

    with monkeypatch.context() as patch:
        patch.setattr(mlflow_live.LiveRuns, "watch", watch_and_see)
        assert ragindex(*COMMAND).code == 0


def stop_after(label: str, error: BaseException) -> Callable[[ScoredMethod | None], None]:
    def see(method: ScoredMethod | None) -> None:
        if method is not None and method.label == label:
            raise error

    return see


def test_runs_appear_as_the_methods_answer(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, recalls, ids = [], {}, set()

    def see(method: ScoredMethod | None) -> None:
        seen.append(states(uri))
        ids.update(run.info.run_id for run in all_runs(uri))
        if method is not None:
            (run,) = [run for run in all_runs(uri) if run.info.run_name == method.label]
            recalls[method.label] = run.data.metrics[RECALL]
            assert LATENCY not in run.data.metrics
            assert run.data.params == {"method": registry.name_of(method.answers.scheme), "label": method.label}

    run_watched(monkeypatch, see)
    assert seen == [
        {"": "RUNNING"},
        {"": "RUNNING", "0/bm25": "FINISHED"},
        {"": "RUNNING", "0/bm25": "FINISHED", "0/dense": "FINISHED"},
    ]
    assert states(uri) == FINISHED
    runs = all_runs(uri)
    assert {run.info.run_id for run in runs} == ids
    children = {run.info.run_name: run for run in runs if "ragindex.method" in run.data.tags}
    assert {label: run.data.metrics[RECALL] for label, run in children.items()} == recalls
    assert all(run.data.metrics[LATENCY] > 0 and run.data.params["k"] == "1" for run in children.values())
    parent = parent_of(uri)
    assert re.fullmatch(r"notes, questions\.csv, \d{4}-\d\d-\d\d \d\d:\d\d UTC", parent.info.run_name)
    assert "ragindex.unfinished" not in parent.data.tags
    assert parent.info.end_time - parent.info.start_time >= 1000 * parent.data.metrics["duration_seconds"]
    assert all(run.inputs.dataset_inputs for run in runs)


def test_second_comparison_adds_to_the_same_tree(uri: str) -> None:
    ragindex(*COMMAND)
    before = {run.info.run_id for run in all_runs(uri)}
    assert ragindex(*COMMAND, "--fresh").code == 0
    assert {run.info.run_id for run in all_runs(uri)} == before
    assert states(uri) == FINISHED
    assert {run.info.status for run in all_runs(uri, view=2)} == {"KILLED", "FINISHED"}  # what was shown meanwhile


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BaseException("as the command line raises for Ctrl-C"), "KILLED"),
        (OSError("no space left on device"), "FAILED"),
    ],
)
def test_stopped_comparison_is_ended_and_completed_later(
    uri: str, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str
) -> None:
    with pytest.raises(BaseException):  # noqa: B017, PT011  # Ctrl-C ends the command with another code than 0
        run_watched(monkeypatch, stop_after("bm25", error))
    assert states(uri) == {"": status, "0/bm25": "FINISHED"}
    stopped = parent_of(uri).info.run_id
    assert ragindex(*COMMAND).code == 0
    assert states(uri) == FINISHED
    assert parent_of(uri).info.run_id == stopped


def leave_running(monkeypatch: pytest.MonkeyPatch) -> str:
    """Stop the comparison after bm25 as if its process had died: its runs do not end. Returns the path of its lock."""
    locks: list[str] = []
    make_lock = mlflow_live.FileLock
    with monkeypatch.context() as patch:
        patch.setattr(mlflow_live, "end_tree", lambda *given: None)
        patch.setattr(mlflow_live, "FileLock", lambda path: (locks.append(str(path)), make_lock(path))[1])
        with pytest.raises(OSError, match="as if killed"):
            run_watched(monkeypatch, stop_after("bm25", OSError("as if killed")))
    return locks[0]


def test_next_run_takes_over_what_a_dead_process_left(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_running(monkeypatch)
    assert states(uri) == {"": "RUNNING", "0/bm25": "FINISHED"}
    left = {run.info.run_id for run in all_runs(uri)}
    text = "# Barle\n\nBarle is a bay in the south."
    Path("notes", "new.md").write_text(text)  # another comparison, by the same command
    assert ragindex(*COMMAND).code == 0
    assert states(uri) == FINISHED
    assert left <= {run.info.run_id for run in all_runs(uri)}
    assert {run.data.params["dataset/documents"] for run in all_runs(uri)} == {str(len(TEXTS) + 1)}
    assert list(Path("ragindex-results").glob("**/.*")) == []  # no lock stays


def test_run_of_a_living_process_is_left_alone(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = leave_running(monkeypatch)
    assert Path(lock).parent.name == "ragindex-results"
    left = parent_of(uri).info.run_id
    with FileLock(lock):
        assert ragindex(*COMMAND).code == 0
    statuses = {run.info.run_id: run.info.status for run in all_runs(uri)}
    assert statuses[left] == "RUNNING"
    assert sorted(statuses.values()) == ["FINISHED"] * 4 + ["RUNNING"]


def test_tracker_is_opened_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = list[tuple[str, str]]()

    def hang(*given: object) -> None:
        limits.append((os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"], os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]))
        raise OSError("no answer")

    monkeypatch.setattr("mlflow.MlflowClient.get_experiment_by_name", hang)
    live = mlflow_live.LiveRuns("key", None, tmp_path)
    live.watch(0, "notes", None)
    live.watch(0, "notes", None)
    live.end("KILLED")
    assert limits == [("5", "0")]  # once: a tracker that failed is not used again


@pytest.mark.filterwarnings("always::ragindex_eval.mlflow.tracking.TrackingWarning")
def test_a_tracker_that_fails_is_told_once_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////proc/nothing/runs.db")
    done = ragindex(*COMMAND)
    assert done.code == 0
    assert done.err.count("not recorded in MLflow") == 1
    assert Path("ragindex-results/notes/comparison.json").is_file()
