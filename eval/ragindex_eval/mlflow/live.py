"""Runs of a comparison in MLflow while it runs: the parent from its start, each method's as soon as it has answered.

The parent has the status RUNNING and the tag `ragindex.unfinished` until `mlflow.tracking.track` completes the tree. A
comparison that was interrupted has a parent that is KILLED, and one that failed FAILED. Of one whose process died the
parent stays RUNNING until the same command runs again in the same folder: it takes over what is unfinished. A tracker
that fails is not used again while the comparison runs, and `track` warns of it at the end.
"""

import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from ragindex._util.canonical import digest
from ragindex.mlflow_tracing import check_connection
from ragindex_eval.mlflow.runs import begin_tree, end_tree, log_answered
from ragindex_eval.mlflow.tracking import (
    UPLOAD_LIMITS,
    environment_defaults,
    open_tracker,
    silence_mlflow,
    tracker_errors,
    tracking_uri,
)
from ragindex_eval.results.files import RESULTS
from ragindex_eval.run.conclude import make_result
from ragindex_eval.run.rerun import settings_digest
from ragindex_eval.run.scores import ScoredMethod
from ragindex_eval.run.settings import CompareSettings

if TYPE_CHECKING:
    from mlflow import MlflowClient


class LiveRuns:
    """The tree of runs of a study that is running; `parent` is the id of its run, None if it is not recorded live."""

    def __init__(self, key: str, name: str | None, folder: Path) -> None:
        """Record under the key of the command; `name` is the study's, None for that of its first data set.

        `folder` holds a lock while the study runs.
        """
        self.parent: str | None = None
        self._name = name
        self._key = key
        self._started = time.time()
        self._client: MlflowClient | None = None
        self._usable = find_spec("mlflow") is not None
        self._lock = FileLock(folder / f".{key}.lock")

    def watch(self, number: int, dataset: str, method: ScoredMethod | None) -> None:
        """Record that the comparison at place `number` begins, or that a method of it has answered."""
        self._attempt(lambda: self._record(number, dataset, method))

    def end(self, status: str) -> None:
        """End the runs that are still running with the status KILLED or FAILED, and let other processes record."""
        client, parent = self._client, self.parent
        if client is not None and parent is not None:
            with environment_defaults(UPLOAD_LIMITS):
                self._attempt(lambda: end_tree(client, parent, status))
        if self._lock.is_locked:
            with suppress(OSError):  # Windows removes no open file
                Path(self._lock.lock_file).unlink()
            self._lock.release()

    def _record(self, number: int, dataset: str, method: ScoredMethod | None) -> None:
        client, parent = self._client, self.parent
        if client is None or parent is None:
            Path(self._lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)  # the unfinished runs of this key are those of processes that ended
            check_connection(tracking_uri())
            client, experiment = open_tracker(tracking_uri())
            name = self._name or dataset
            with environment_defaults(UPLOAD_LIMITS):
                parent = begin_tree(client, experiment, self._key, name, self._started)
            self._client, self.parent = client, parent
        if method is not None:
            with environment_defaults(UPLOAD_LIMITS):
                log_answered(client, parent, number, make_result(method))

    def _attempt(self, record: Callable[[], None]) -> None:
        """Call the tracker, unless it has failed before."""
        if not self._usable:
            return
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # mlflow's dependencies deprecate one another
            try:
                with silence_mlflow():
                    record()
            except Timeout:  # another process runs this command
                self._usable = False
            except tracker_errors():
                self._usable = False


@contextmanager
def record_live(settings: CompareSettings) -> Iterator[LiveRuns]:
    """Record a study while the block runs and records it; runs that it leaves unfinished become KILLED or FAILED.

    A second process that runs the same command in the same folder at the same time is recorded at its end only.
    """
    key = digest([socket.gethostname(), os.getcwd(), settings_digest(settings)])
    live, status = LiveRuns(key, settings.name, settings.out or RESULTS), "FAILED"
    try:
        yield live
    except BaseException as error:
        if not isinstance(error, Exception | SystemExit):  # the command line has an exception of its own for Ctrl-C
            status = "KILLED"
        raise
    finally:
        live.end(status)
