"""Recording in MLflow: of a study (`ragindex_eval.mlflow.runs` has the runs), and of retrievals as spans.

If the tracker fails, a warning is issued and the comparison goes on. The tracking store is MLFLOW_TRACKING_URI, or
sqlite:///mlflow.db in the working folder.
"""

import io
import logging
import os
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ragindex._util.canonical import digest
from ragindex._util.distribution import install_line, require_module
from ragindex._util.redaction import bare_address, hide_secrets
from ragindex.errors import UsageError
from ragindex.mlflow_tracing import autolog, check_connection
from ragindex_eval.mlflow.runs import RunFiles, log_tree
from ragindex_eval.results.model import Study

if TYPE_CHECKING:
    from mlflow import MlflowClient

_EXPERIMENT = "ragindex"
_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""Tag of experiments that MLflow shows as runs with metrics; it shows others as traces of an application."""
DEFAULT_URI = "sqlite:///mlflow.db"
_LOGGERS = ("mlflow", "alembic", "urllib3.connectionpool")
_LONGEST_REASON = 300
# MLflow's default limits wait for minutes. These are for a server that has just answered, and for files.
_CONNECT_LIMITS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
UPLOAD_LIMITS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}


class TrackingWarning(UserWarning):
    """Warning that a comparison could not be recorded in MLflow."""


def tracking_uri() -> str:
    """Return the URI of the MLflow store in which comparisons are recorded."""
    return os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI


def _experiment_name() -> str:
    """Return the name of the experiment in which comparisons are recorded."""
    return os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT


def store_id(uri: str) -> str:
    """Return an id of the store at a URI and of the experiment in it, without its address and credentials."""
    path, name = _sqlite_path(uri), _experiment_name()
    place = bare_address(uri) if path is None else str(path)
    return digest(place if name == _EXPERIMENT else [place, name])


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


def track(study: Study, begun: str | None = None, folder: Path | None = None) -> str | None:
    """Record a study in MLflow and return the id of its parent run; `begun` is the one shown while it ran, if any.

    The files of the study are taken from `folder`; without it they are made. Warn and return None if MLflow is not
    installed or the tracker fails.
    """
    return record_runs(
        "comparison", lambda client, experiment, files: log_tree(client, experiment, study, files, begun, folder)
    )


def record_runs(what: str, log: "Callable[[MlflowClient, str, RunFiles], str]") -> str | None:
    """Call `log` with a client, the experiment and the files of runs; return the id of the run that it returns.

    Warn that `what` is not recorded, and return None, if MLflow is not installed or the tracker fails. Warn if files
    alone cannot be stored.
    """
    if find_spec("mlflow") is None:
        message = f"The {what} is not recorded: MLflow is not installed. Run: {install_line('mlflow')}"
        warnings.warn(message, TrackingWarning, stacklevel=3)
        return None
    uri, failure = tracking_uri(), ""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # mlflow's dependencies deprecate one another
        try:
            check_connection(uri)
            with silence_mlflow():
                client, experiment = open_tracker(uri)
                files = RunFiles(client, Path(folder))
                with environment_defaults(UPLOAD_LIMITS):
                    run = log(client, experiment, files)
        except tracker_errors() as error:
            failure = _describe(error)
    if not failure:
        warn_of_files(what, files)
        return run
    warnings.warn(
        f"The {what} was not recorded in MLflow at {bare_address(uri)}: {failure}. "
        "The results above are complete. Set MLFLOW_TRACKING_URI to record elsewhere.",
        TrackingWarning,
        stacklevel=3,
    )
    return None


def warn_of_files(what: str, files: RunFiles) -> None:
    """Warn if files of `what` could not be stored in MLflow."""
    if files.error is not None:
        warnings.warn(
            f"The {what} was recorded in MLflow at {bare_address(tracking_uri())} without its files: "
            f"{_describe(files.error)}. The artifact root of an experiment is chosen by its server "
            "(mlflow server --artifacts-destination) and must be writable from here.",
            TrackingWarning,
            stacklevel=4,
        )


def _describe(error: Exception) -> str:
    """Return the first line of an error that gives a cause, without secrets and full stop."""
    # SQLAlchemy's begins with the place: "(raised as a result of Query-invoked autoflush; …)".
    lines = [line for line in str(error).strip().splitlines() if not line.startswith("(raised as a result of")]
    message = hide_secrets(next(iter(lines), "")) or type(error).__name__
    return (message if len(message) <= _LONGEST_REASON else f"{message[:_LONGEST_REASON]}…").rstrip(".")


def describe_tracker() -> str:
    """Return the address of the MLflow store without secrets, and the command that shows a local one."""
    uri = tracking_uri()
    shown = bare_address(uri)
    named = shown if shown == uri else '"$MLFLOW_TRACKING_URI"'
    return shown if uri.startswith("http") else f"{shown}; to look at them: mlflow ui --backend-store-uri {named}"


def trace_to_tracker() -> None:
    """Record each retrieval from now on as an MLflow span, in the store and experiment of the comparisons.

    Raises MissingExtraError if MLflow is not installed.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    with warnings.catch_warnings(), silence_mlflow():
        warnings.simplefilter("ignore")
        mlflow = require_module("mlflow", "mlflow", "--trace")
        try:
            check_connection(tracking_uri())
            mlflow.set_tracking_uri(tracking_uri())
            _, experiment = open_tracker(tracking_uri())
            mlflow.set_experiment(experiment_id=experiment)
        except tracker_errors():
            pass  # recording the spans and the comparison will warn about it
    autolog()


def tracker_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a tracker may raise.

    These imports take seconds, so they run only after a failure.
    """
    known = (OSError, ValueError, RuntimeError, ImportError, sqlite3.Error, UsageError)
    try:
        from alembic.util import CommandError
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:
        return known
    return (*known, CommandError, MlflowException, SQLAlchemyError)


def open_tracker(uri: str) -> tuple["MlflowClient", str]:
    """Return a client of the store at a URI, and the id of the experiment of comparisons, which is made if missing.

    Raises UsageError if the experiment is deleted, and `tracker_errors`.
    """
    from mlflow import MlflowClient

    name = _experiment_name()
    with environment_defaults(_CONNECT_LIMITS):
        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            return client, client.create_experiment(name, tags=_KIND)
        id = str(experiment.experiment_id)
        if experiment.lifecycle_stage == "deleted":
            raise UsageError(_describe_deleted(name, id))
        if name == _EXPERIMENT and not experiment.tags.keys() & _KIND:
            for tag, value in _KIND.items():
                client.set_experiment_tag(id, tag, value)
        return client, id


def _describe_deleted(name: str, id: str) -> str:
    where = "" if os.environ.get("MLFLOW_TRACKING_URI") else f"MLFLOW_TRACKING_URI={DEFAULT_URI} "
    return (
        f"the experiment {name} is deleted: restore it ({where}mlflow experiments restore --experiment-id {id}), or "
        "name another one in MLFLOW_EXPERIMENT_NAME"
    )


@contextmanager
def environment_defaults(defaults: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that the user has not set, and remove them at the end of the block."""
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def silence_mlflow() -> Iterator[None]:
    """Silence the log messages of MLflow and alembic, which would otherwise mix with JSON on standard output."""
    if find_spec("mlflow") is not None:
        import mlflow  # noqa: F401  # its import sets the levels of its loggers, so it comes first
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
