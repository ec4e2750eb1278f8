"""The tree of MLflow runs of a study: a parent run, and a child run per method of each comparison.

A study that runs again has the same tree: runs that are missing are added, and figures that changed are logged. The
tree may have been begun while the study ran; `ragindex_eval.mlflow.live` says when.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragindex._util.canonical import digest
from ragindex.errors import RagindexError
from ragindex_eval.mlflow import values
from ragindex_eval.report.page import save_report
from ragindex_eval.results.files import save_method, save_results
from ragindex_eval.results.model import Comparison, DatasetFacts, MethodResult, Study

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_ID, METHOD_TAG = "ragindex.comparison", "ragindex.method"
"""Tags by which the runs of a study that ran before are found."""
_UNFINISHED = "ragindex.unfinished"
"""Tag of a parent run whose study has not finished; its value is the key of the command."""
_MOST_RUNS = 50_000  # runs that MLflow returns at most


def comparison_id(study: Study) -> str:
    """Return the id of what a study compares: equal studies have one tree of runs, however often they run."""
    compared = [
        [comparison.fingerprint, sorted(method.label for method in (*comparison.methods, *comparison.failed))]
        for comparison in study.comparisons
    ]
    return digest([study.name, compared])


@dataclass(slots=True)
class RunFiles:
    """Files of runs: made below `folder`, and stored among the artifacts; after a first `error` no more are stored."""

    client: "MlflowClient"
    folder: Path
    error: Exception | None = None

    def store(self, run: str, files: Path, path: str | None = None) -> None:
        """Store the files of a folder among the artifacts of a run, below `path`."""
        if self.error is not None:
            return
        try:
            self.client.log_artifacts(run, str(files), path)
        except Exception as error:  # libraries of artifact stores raise classes of their own
            if isinstance(error, RagindexError):
                raise
            self.error = error


def log_tree(client: "MlflowClient", experiment: str, study: Study, files: RunFiles, begun: str | None = None) -> str:
    """Log the parent run and a child run per method; runs of an equal study are completed or updated.

    `begun` is the parent run that was shown while the study ran. It is completed, or deleted if an equal study has a
    tree already.
    """
    id, children = comparison_id(study), list(_list_children(study))
    source = source_tags()
    parent = _take_parent(client, experiment, study, {_ID: id, **source}, begun)
    logged_runs = {run.data.tags.get(METHOD_TAG): run for run in _list_below(client, parent)}
    for child in children:
        tags = {"mlflow.parentRunId": parent.info.run_id, METHOD_TAG: child.key, **source}
        run = logged_runs.get(child.key) or _create_run(client, experiment, study, child.name, tags)
        failed = child.method in child.comparison.failed
        logged = _Logged(
            values.method_params(child.comparison, child.method),
            values.method_metrics(child.method),
            {**source, "ragindex.fingerprint": child.method.fingerprint, "mlflow.runName": child.name},
            [child.comparison],
            "FAILED" if failed else "FINISHED",
            child.method.spent.seconds,
        )
        own = files.folder / digest(child.key)
        _log_run(client, run, logged, files, own, partial(save_method, child.comparison, child.method, own))
    only = study.comparisons[0] if len(study.comparisons) == 1 else None
    params = values.params(only) if only else values.shared_params(study)
    metrics = {**(values.bound_metrics(only) if only else {}), **values.summary_metrics(study)}
    best = {"ragindex.best_method": only.methods[0].label} if only else {}
    logged = _Logged(params, metrics, {**source, **best}, study.comparisons, "FINISHED", study.seconds)
    all_folder = files.folder / "all"
    _log_run(client, parent, logged, files, all_folder, partial(_save_all, study, all_folder))
    if _UNFINISHED in parent.data.tags:
        client.delete_tag(parent.info.run_id, _UNFINISHED)
    return str(parent.info.run_id)


def _take_parent(
    client: "MlflowClient", experiment: str, study: Study, tags: Mapping[str, str], begun: str | None
) -> "Run":
    """Return the parent run of an equal study, else the one that was begun, else a new one."""
    runs = client.search_runs([experiment], f"tags.`{_ID}` = '{tags[_ID]}'", max_results=1, order_by=["start_time ASC"])
    name = values.study_name(study)
    if begun is None:
        return runs[0] if runs else _create_run(client, experiment, study, name, tags)
    run = client.get_run(begun)
    if runs:
        end_tree(client, begun, "KILLED")
        for each in (*_list_below(client, run), run):
            client.delete_run(each.info.run_id)
        return runs[0]
    for tag, value in {**tags, "mlflow.runName": name}.items():
        client.set_tag(begun, tag, value)
    return run


def _list_below(client: "MlflowClient", parent: "Run") -> list["Run"]:
    """Return the children of a parent run."""
    query = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    return list(client.search_runs([parent.info.experiment_id], query, max_results=_MOST_RUNS))


# ---------------------------------------------------------------- while the study runs


def begin_tree(client: "MlflowClient", experiment: str, key: str, name: str, started: float) -> str:
    """Return the parent run of a study that begins: a new one, or that of an equal command which did not finish.

    The caller makes sure that no other process runs the command with this key. `started` is in Unix seconds. An
    unfinished tree that has its id already is ended, and `log_tree` completes it if the studies are equal.
    """
    runs = client.search_runs([experiment], f"tags.`{_UNFINISHED}` = '{key}'", max_results=_MOST_RUNS)
    for run in runs:
        end_tree(client, run.info.run_id, "KILLED")
    unfinished = [run.info.run_id for run in runs if _ID not in run.data.tags]
    if unfinished:
        client.update_run(unfinished[0], "RUNNING")
        return str(unfinished[0])
    tags = {_UNFINISHED: key, **source_tags()}
    return str(client.create_run(experiment, int(started * 1000), tags, name).info.run_id)


def log_answered(client: "MlflowClient", parent: str, number: int, method: MethodResult) -> None:
    """Log a method that has answered, of the comparison at place `number` in its study: figures without latency."""
    from mlflow.entities import Metric, Param

    above = client.get_run(parent)
    key, now = f"{number}/{method.label}", time.time()
    logged_runs = {run.data.tags.get(METHOD_TAG): run.info.run_id for run in _list_below(client, above)}
    tags = {"mlflow.parentRunId": parent, METHOD_TAG: key, **source_tags()}
    start, experiment = int((now - method.spent.seconds) * 1000), above.info.experiment_id
    id = logged_runs.get(key) or client.create_run(experiment, start, tags, method.label).info.run_id
    known = client.get_run(id).data.params
    figures, texts = values.method_metrics(method), {"method": method.name, "label": method.label}
    names = values.distinct_names(figures)
    client.log_batch(
        id,
        metrics=[Metric(names[name], value, int(now * 1000), 0) for name, value in figures.items()],
        params=[Param(name, values.param_text(value)) for name, value in texts.items() if name not in known],
    )
    client.set_terminated(id, "FINISHED")


def end_tree(client: "MlflowClient", parent: str, status: str) -> None:
    """End a parent run and its children, as far as they are running, with a status."""
    run = client.get_run(parent)
    for each in (*_list_below(client, run), run):
        if each.info.status == "RUNNING":
            client.set_terminated(each.info.run_id, status)


# ---------------------------------------------------------------- one run


@dataclass(frozen=True, slots=True)
class _Child:
    """Method of a comparison, with the key by which its run is found again and the name of the run."""

    comparison: Comparison
    method: MethodResult
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class _Logged:
    """What a run holds. `seconds` is its duration."""

    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    comparisons: Sequence[Comparison]
    status: str
    seconds: float


def _list_children(study: Study) -> Iterator[_Child]:
    for number, comparison in enumerate(study.comparisons):
        for method in (*comparison.methods, *comparison.failed):
            yield _Child(comparison, method, f"{number}/{method.label}", values.run_name(study, comparison, method))


def _create_run(client: "MlflowClient", experiment: str, study: Study, name: str, tags: Mapping[str, str]) -> "Run":
    return client.create_run(experiment, _start_time(study), dict(tags), name)


def _start_time(study: Study) -> int:
    """Return when a study started in Unix milliseconds; now if that is unknown."""
    return int((datetime.fromisoformat(study.started).timestamp() if study.started else time.time()) * 1000)


def _log_run(
    client: "MlflowClient", run: "Run", logged: _Logged, files: RunFiles, folder: Path, save: Callable[[], object]
) -> None:
    """Log what a run lacks or holds otherwise; a finished run with equal metrics and tags is left as it is.

    `save` writes its files into `folder`.
    """
    id = run.info.run_id
    metrics, datasets = (
        {**logged.metrics, **_duration(logged)},
        [comparison.dataset for comparison in logged.comparisons],
    )
    changed = log_values(client, run, logged.params, metrics, logged.tags, datasets)
    if not changed and run.info.status == logged.status:
        return
    save()
    files.store(id, folder)
    shown = _UNFINISHED in run.data.tags  # then it ends now, even if it began with an earlier command that was stopped
    client.set_terminated(id, logged.status, None if shown else run.info.start_time + int(logged.seconds * 1000))


def log_values(
    client: "MlflowClient",
    run: "Run",
    params: Mapping[str, Any],
    metrics: Mapping[str, float],
    tags: Mapping[str, str],
    datasets: Iterable[DatasetFacts],
) -> bool:
    """Log the values that a run lacks or holds otherwise; return whether there are metrics or tags among them.

    Parameters stay as they were first logged, because MLflow forbids changes.
    """
    from mlflow.entities import Metric, Param

    id, logged, now = run.info.run_id, run.data, int(time.time() * 1000)
    named = {clean: metrics[name] for name, clean in values.distinct_names(metrics).items()}
    texts = {clean: values.param_text(params[name]) for name, clean in values.distinct_names(params).items()}
    new = [Metric(name, value, now, 0) for name, value in named.items() if logged.metrics.get(name) != value]
    new_tags = {name: value for name, value in tags.items() if logged.tags.get(name) != value}
    missing = [Param(name, text) for name, text in texts.items() if name not in logged.params]
    if new or missing:
        client.log_batch(id, metrics=new, params=missing)
    for name, value in new_tags.items():
        client.set_tag(id, name, value)
    if run.inputs is None or not run.inputs.dataset_inputs:
        client.log_inputs(id, values.dataset_inputs(datasets))
    return bool(new or new_tags)


def _save_all(study: Study, folder: Path) -> None:
    save_results(study, folder)
    save_report(study, folder / "report.html")


def _duration(logged: _Logged) -> Mapping[str, float]:
    return {"duration_seconds": logged.seconds} if logged.seconds else {}


def source_tags() -> dict[str, str]:
    """Return MLflow's tags of the source: the program, and the commit of the working folder in a git repository."""
    from mlflow.utils.git_utils import get_git_commit

    commit = get_git_commit(os.getcwd())
    tags = {"mlflow.source.name": "ragindex", "mlflow.source.type": "LOCAL"}
    return tags if commit is None else {**tags, "mlflow.source.git.commit": commit}
