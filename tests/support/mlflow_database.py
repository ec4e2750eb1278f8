"""MLflow databases of tests: an empty one, and the runs that one holds."""

import warnings
from pathlib import Path
from typing import Any

import pytest
from empty_tracker import make_tracker


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of the test's own that is tracked to, in the working folder, `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    uri = make_tracker(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return uri


def make_client(uri: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=uri)


def all_runs(uri: str, view: int = 1) -> list[Any]:
    """Return the runs in the order of their start: active ones with view 1, deleted ones with view 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = make_client(uri)
        experiment = client.get_experiment_by_name("ragindex")
        if experiment is None:
            return []
        return list(client.search_runs([experiment.experiment_id], "", view, order_by=["start_time ASC"]))


def parent_of(uri: str) -> Any:
    (parent,) = [run for run in all_runs(uri) if "mlflow.parentRunId" not in run.data.tags]
    return parent
