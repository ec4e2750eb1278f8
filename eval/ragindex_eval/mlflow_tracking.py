"""MLflow tracking of a study: one parent run, and one child run per method of each comparison.

If the tracker fails, a warning is issued and the comparison goes on. The tracking store is MLFLOW_TRACKING_URI, or
sqlite:///mlflow.db in the working folder.
"""

import io
import json
import logging
import os
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import regex

from ragindex.canonical import digest
from ragindex.distribution import install_line, require_module
from ragindex.mlflow_tracing import autolog, check_connection
from ragindex.redaction import bare_address, hide_secrets
from ragindex_eval.metrics import answers
from ragindex_eval.report.page import save_report
from ragindex_eval.results.model import COSTS, LATENCY, Comparison, MethodResult, Percentiles, Study
from ragindex_eval.results.save import method_file_name, save_method, save_results

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "ragindex"
DEFAULT_URI = "sqlite:///mlflow.db"
_METRIC_NAMES = {
    "R": "recall",
    "full_R": "full_recall",
    "Success": "success",
    "RR": "reciprocal_rank",
    "nDCG": "ndcg",
    "one_doc_R": "one_document_recall",
}
_LOGGERS = ("mlflow", "alembic", "urllib3.connectionpool")
_LONGEST_VALUE = 6000  # characters of a parameter value; MLflow rejects longer ones
_LONGEST_REASON = 300
# MLflow's default limits wait for minutes. That is too long if there is no server, and right once it has answered.
_CONNECT_LIMITS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
_UPLOAD_LIMITS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}


class TrackingWarning(UserWarning):
    """Warning that a comparison could not be recorded in MLflow."""


def tracking_uri() -> str:
    """Return the URI of the MLflow store in which comparisons are recorded."""
    return os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI


def store_id(uri: str) -> str:
    """Return an id of the store at a URI, without its address and credentials."""
    path = _sqlite_path(uri)
    return digest(bare_address(uri) if path is None else str(path))


def has_run(uri: str, run: str | None) -> bool:
    """Return whether a run that was recorded is still there. An SQLite database is asked; other stores are trusted."""
    path = _sqlite_path(uri)
    if run is None or path is None:
        return run is not None
    active = "SELECT count(*) FROM runs WHERE run_uuid = ? AND lifecycle_stage = 'active'"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            return bool(database.execute(active, [run]).fetchone()[0])
    except sqlite3.Error:
        return False


def _sqlite_path(uri: str) -> Path | None:
    """Return the path of an SQLite database; None for other stores."""
    scheme, _, rest = uri.partition(":///")
    return Path(rest.partition("?")[0]).resolve() if scheme.partition("+")[0] == "sqlite" and rest else None


def track(study: Study) -> str | None:
    """Record a study in MLflow and return the id of its parent run.

    Warn and return None if MLflow is not installed or the tracker fails.
    """
    if find_spec("mlflow") is None:
        said = f"The comparison is not recorded: MLflow is not installed. Run: {install_line('mlflow')}"
        warnings.warn(said, TrackingWarning, stacklevel=2)
        return None
    uri = tracking_uri()
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mlflow's dependencies deprecate one another
        try:
            check_connection(uri)
            return _record_study(study, uri)
        except _tracker_errors() as error:
            said = hide_secrets(str(error).strip().partition("\n")[0]) or type(error).__name__
            failure = said if len(said) <= _LONGEST_REASON else f"{said[:_LONGEST_REASON]}…"
    warnings.warn(
        f"The comparison was not recorded in MLflow at {bare_address(uri)}: {failure.rstrip('.')}. "
        "The results above are complete. Set MLFLOW_TRACKING_URI to record elsewhere.",
        TrackingWarning,
        stacklevel=2,
    )
    return None


def trace_to_tracker() -> None:
    """Record each retrieval from now on as an MLflow span, in the store and experiment of the comparisons.

    Raises MissingExtraError if MLflow is not installed.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    with warnings.catch_warnings(), _silence():
        warnings.simplefilter("ignore")
        mlflow = require_module("mlflow", "mlflow", "--trace")
        try:
            check_connection(tracking_uri())
            mlflow.set_tracking_uri(tracking_uri())
            mlflow.set_experiment(EXPERIMENT)
        except _tracker_errors():
            pass  # recording the spans and the comparison will warn about it
    autolog()


def metric_name(name: str) -> str:
    """Return the MLflow name of a metric: `R@5` becomes `retrieval/recall_at_5`, `F1` becomes `qa/f1`."""
    base, _, k = name.partition("@")
    if name in answers.ANSWER_METRICS:
        return f"qa/{name.replace('-', '_').lower()}"
    return f"retrieval/{_METRIC_NAMES[base]}_at_{k}"


def _tracker_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a tracker may raise.

    These imports take seconds, so they run only after a failure.
    """
    known = (OSError, ValueError, RuntimeError, ImportError, sqlite3.Error)
    try:
        from alembic.util import CommandError
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:
        return known
    return (*known, CommandError, MlflowException, SQLAlchemyError)


def _record_study(study: Study, uri: str) -> str:
    from mlflow import MlflowClient

    with _silence():
        with _set_environment(_CONNECT_LIMITS):
            client = MlflowClient(tracking_uri=uri)
            experiment = _ensure_experiment(client)
        with _set_environment(_UPLOAD_LIMITS), tempfile.TemporaryDirectory() as folder:
            return _log_runs(client, experiment, study, Path(folder))


def _ensure_experiment(client: "MlflowClient") -> str:
    held = client.get_experiment_by_name(EXPERIMENT)
    return str(held.experiment_id) if held is not None else client.create_experiment(EXPERIMENT)


def _log_runs(client: "MlflowClient", experiment: str, study: Study, folder: Path) -> str:
    tags = {"ragindex.fingerprint": digest([comparison.fingerprint for comparison in study.comparisons])}
    parent: str = client.create_run(experiment, run_name=study.name, tags=tags).info.run_id
    for number, comparison in enumerate(study.comparisons):
        for method in (*comparison.methods, *comparison.failed):
            name = _run_name(study, comparison, method)
            tags = {"mlflow.parentRunId": parent, "ragindex.fingerprint": method.fingerprint}
            child: str = client.create_run(experiment, run_name=name, tags=tags).info.run_id
            _log_batch(client, child, _method_params(comparison, method), _method_metrics(method))
            own = folder / f"{number}" / method_file_name(method.label)
            save_method(comparison, method, own)
            client.log_artifacts(child, str(own))
            client.set_terminated(child, "FAILED" if method in comparison.failed else "FINISHED")
    only = study.comparisons[0] if len(study.comparisons) == 1 else None
    _log_batch(client, parent, _params(only) if only else _shared_params(study), _bound_metrics(only) if only else {})
    save_results(study, folder / "all")
    save_report(study, folder / "all" / "report.html")
    client.log_artifacts(parent, str(folder / "all"))
    client.set_terminated(parent)
    return parent


def _run_name(study: Study, comparison: Comparison, method: MethodResult) -> str:
    """Return the label, and in a study of several comparisons the settings that differ between them."""
    told = {
        "dataset": comparison.dataset.name,
        "encoder": comparison.encoder,
        "seed": f"seed {comparison.seed}",
    }
    others = [value for name, value in told.items() if len(_values(study, name)) > 1]
    return ", ".join([method.label, *others])


def _shared_params(study: Study) -> Mapping[str, Any]:
    return {name: _values(study, name) for name in ("dataset", "encoder", "seed")}


def _values(study: Study, name: str) -> list[Any]:
    """Return the distinct datasets, encoders or seeds of a study."""
    of = [one.dataset.name if name == "dataset" else getattr(one, name) for one in study.comparisons]
    return list(dict.fromkeys(of))


def _log_batch(client: "MlflowClient", run_id: str, params: Mapping[str, Any], values: Mapping[str, float]) -> None:
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in params.items()}
    client.log_batch(
        run_id,
        metrics=[Metric(_clean_name(name), value, now, 0) for name, value in values.items()],
        params=[Param(_clean_name(key), text[:_LONGEST_VALUE]) for key, text in texts.items()],
    )


def _params(comparison: Comparison) -> Mapping[str, Any]:
    return {
        **{f"dataset/{name}": value for name, value in comparison.dataset.to_json().items()},
        "encoder": comparison.encoder,
        "encoder_id": comparison.encoder_id,
        "llm": comparison.llm,
        "store": comparison.store,
        "language": comparison.language,
        "seed": comparison.seed,
        "k": ",".join(map(str, comparison.ks)),
        "fingerprint": comparison.fingerprint,
    }


def _method_params(comparison: Comparison, method: MethodResult) -> Mapping[str, Any]:
    own = {f"params/{name}": value for name, value in method.params.items()}
    shared = {**_params(comparison), "fingerprint": method.fingerprint}
    return {"method": method.name, "label": method.label, **own, **shared}


def _bound_metrics(comparison: Comparison) -> dict[str, float]:
    """Return the metrics of the reader's bounds by MLflow name, such as `bounds/gold-passages/qa/f1`."""
    return {
        f"bounds/{bound.label}/{metric_name(name)}": value
        for bound in comparison.bounds
        for name, value in bound.metrics.items()
    }


def _method_metrics(method: MethodResult) -> dict[str, float]:
    values = {metric_name(name): value for name, value in method.metrics.items()}
    split = method.latency
    for prefix, part in (("", split.total), ("encoder_", split.encoder), ("store_", split.store), ("own_", split.own)):
        values |= _milliseconds(prefix, part)
    for name, figures in method.parts.items():
        values |= {f"index/{name}/seconds": figures.seconds, f"index/{name}/bytes": figures.bytes}
    for name, bounds in method.ci95.items():
        values |= {f"{_figure_name(name)}/ci95_low": bounds[0], f"{_figure_name(name)}/ci95_high": bounds[1]}
    for phase, usage in (("index", method.index_usage), ("spent", method.spent), ("query", method.query_usage)):
        costs = {cost: getattr(usage, cost) for cost in COSTS}
        values |= {f"usage/{phase}/{cost}": float(value) for cost, value in costs.items() if value is not None}
    values["usage/query/calls"] = method.calls
    for task, counts in method.stages.items():
        values |= {f"language/{task}/{stage}": float(count) for stage, count in counts.items()}
    read = method.reading_costs
    reading = read.to_json() if read else {}
    values |= {f"usage/reader/{name}": value for name, value in reading.items() if value is not None}
    totals = {"index/seconds": method.index_seconds, "index/bytes": method.index_bytes}
    return {**values, **totals, "unanswered": len(method.failures)}


def _figure_name(name: str) -> str:
    """Return the MLflow name of a figure that has an interval."""
    if name in COSTS:
        return f"usage/query/{name}"
    measured = "@" in name or name in answers.ANSWER_METRICS
    return metric_name(name) if measured else f"{name.replace(f'{LATENCY}_', 'latency/')}_ms"


def _milliseconds(prefix: str, part: Percentiles) -> dict[str, float]:
    named = {f"latency/{prefix}p50_ms": part.p50, f"latency/{prefix}p95_ms": part.p95}
    return {name: value for name, value in named.items() if value is not None}


def _clean_name(name: str) -> str:
    """Replace characters that MLflow does not allow in names, and cut the name at 250 characters."""
    return str(regex.sub(r"[^\w./ -]", "_", name))[:250]


@contextmanager
def _set_environment(defaults: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that the user has not set, and remove them at the end of the block."""
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _silence() -> Iterator[None]:
    """Silence the log messages of MLflow and alembic, which would otherwise mix with JSON on standard output."""
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
