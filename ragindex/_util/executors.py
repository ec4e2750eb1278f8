"""Work on executors: this machine's threads and processes, or workers on other machines (Dask).

Items go in batches, of which a bounded number is under way, and results come in order. A worker that has other versions
of the packages that results depend on refuses a batch. Nothing that a worker does is paid for or written.
"""

import logging
import os
import platform
import socket
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import Any, Generic, TypeVar

from ragindex._util.cores import available_cores
from ragindex._util.distribution import find_distribution, require_module
from ragindex._util.library_logs import show_own_logs
from ragindex.errors import MissingExtraError, RagindexError, ServiceError, UsageError

MOST_ITEMS = 256
_BATCH_SECONDS = 1.0
"""Seconds that a batch of small items is made to take. To send one takes some milliseconds."""
_CHECK_SECONDS = 10.0
_CONNECT_SECONDS = 20.0
_NO_WORKER_SECONDS = 300.0
"""Seconds without any worker after which a Dask cluster is given up: one that is busy starts them late."""
_RETRIES = 2
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pystemmer", "regex", "umap-learn")
"""Packages that the results of rules, clustering and encoding depend on. A model is checked by its encoder's id."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class Origin:
    """The process that sends work, and its versions of the packages that results depend on."""

    host: str
    process: int
    versions: Mapping[str, str]


@cache
def find_origin() -> Origin:
    """Return this process as the origin of work."""
    versions = {"python": ".".join(platform.python_version_tuple()[:2]), "ragindex": find_distribution().version}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return Origin(socket.gethostname(), os.getpid(), versions)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=find_origin.cache_clear)


@dataclass(frozen=True, slots=True)
class ExecutorWorkers:
    """The workers of an executor, and how many batches may be under way. `check` raises if nobody works any more."""

    executor: Executor
    batches: int
    check: Callable[[], None] = field(default=lambda: None)

    def submit(self, function: Callable[[_In], _Out], items: Sequence[_In], what: str) -> "Batch[_Out]":
        """Send a batch; `what` describes it in errors. Raises RagindexError if nothing can be sent."""
        try:
            future = self.executor.submit(run_batch, function, items, find_origin())
        except Exception as error:  # of whatever kind: the executor is not ours
            raise _describe_failure(what, error) from error
        return Batch(future, what, self.check)

    def map(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
        """Yield `function(item)` for each item, in order. The first batches say how many items make a good one."""
        left, size, number, waiting = iter(items), 1, 0, deque[Batch[_Out]]()
        name = f"{function.__module__}.{function.__qualname__}"
        try:
            while True:
                while len(waiting) < self.batches and (batch := list(islice(left, size))):
                    number += 1
                    waiting.append(self.submit(function, batch, f"Batch {number} ({len(batch)} of {name})"))
                if not waiting:
                    return
                results, seconds = waiting.popleft().take()
                size = max(1, min(MOST_ITEMS, int(_BATCH_SECONDS * len(results) / max(seconds, 1e-9))))
                yield from results
        finally:
            for unfinished in waiting:
                unfinished.cancel()


class Batch(Generic[_Out]):
    """A batch under way.

    The executor's future is let go as soon as it is done: a cluster computes what a lost worker still held again, as
    long as anybody has the future.
    """

    def __init__(self, future: "Future[Outcome[_Out]]", what: str, check: Callable[[], None]) -> None:
        self._what, self._check, self._received = what, check, Future[Outcome[_Out]]()
        self._sent: Future[Outcome[_Out]] | None = future
        future.add_done_callback(self._keep)

    def _keep(self, future: "Future[Outcome[_Out]]") -> None:
        self._sent = None
        if future.cancelled():
            self._received.cancel()
            self._received.set_running_or_notify_cancel()
        elif (error := future.exception()) is not None:
            self._received.set_exception(error)
        else:
            self._received.set_result(future.result())

    @property
    def succeeded(self) -> bool:
        """Whether there are results."""
        return self._received.done() and not self._received.cancelled() and self._received.exception() is None

    def cancel(self) -> None:
        """Take the batch back if no worker has begun it."""
        if (future := self._sent) is not None:
            future.cancel()

    def take(self) -> tuple[list[_Out], float]:
        """Wait for the results; return them, and the seconds that the worker took. Warnings are repeated here.

        Raises what ragindex raised on the worker, and RagindexError with batch and worker if anything else failed.
        """
        try:
            while not wait([self._received], timeout=_CHECK_SECONDS).done:
                self._check()
            outcome = self._received.result()
        except RagindexError:
            raise
        except Exception as error:  # of whatever kind: the executor is not ours
            raise _describe_failure(self._what, error) from error
        outcome.repeat_warnings()
        return outcome.results, outcome.seconds


def _describe_failure(what: str, error: Exception) -> RagindexError:
    where = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    hint = "Repair or replace the worker (its memory, its packages)"
    if isinstance(error, CancelledError):
        reason, hint = "the scheduler of the cluster has ended, or the executor", "Start it again"
    return RagindexError(f"{what} failed{where} ({reason}). Progress saved. {hint}, and run the same command again.")


# ---------------------------------------------------------------- on a worker


@dataclass(frozen=True, slots=True)
class Outcome(Generic[_Out]):
    """The results of a batch, categories and messages of its warnings, and the seconds that a worker took."""

    results: list[_Out]
    warned: list[tuple[type[Warning], str]]
    seconds: float

    def repeat_warnings(self) -> None:
        """Warn of what the worker was warned of."""
        for category, message in self.warned:
            warnings.warn(message, category, stacklevel=4)


def run_batch(function: Callable[[_In], _Out], items: Sequence[_In], origin: Origin) -> Outcome[_Out]:
    """Return what a batch gives. Raises UsageError if versions differ from those of its origin."""
    start = time.perf_counter()
    if (origin.host, origin.process) == (socket.gethostname(), os.getpid()):  # a thread of it, whose warnings show
        return Outcome([function(item) for item in items], [], time.perf_counter() - start)
    _settle()
    _require_versions(origin)
    _recording.warned = warned = list[tuple[type[Warning], str]]()
    try:
        with show_own_logs(_print_log):
            results = [function(item) for item in items]
    except MissingExtraError as error:
        raise MissingExtraError(f"On {name_worker()}: {error}") from error
    except Exception as error:
        error.add_note(f"on {name_worker()}")
        raise
    finally:
        _recording.warned = None
    return Outcome(results, list(dict.fromkeys(warned)), time.perf_counter() - start)


class _Recording(threading.local):
    warned: list[tuple[type[Warning], str]] | None = None


_recording = _Recording()
"""The warnings of the batch that a thread of a worker works on. `warnings.catch_warnings` is of all threads."""


@cache
def _settle() -> None:
    """Record warnings by thread. Let batches use as many cores as there are at once: other workers have the others."""
    worker, show = _find_dask_worker(), warnings.showwarning
    os.environ.setdefault("LOKY_MAX_CPU_COUNT", str(1 if worker is None else worker.state.nthreads))
    available_cores.cache_clear()

    def record(message: Warning | str, category: type[Warning], *place: Any, **named: Any) -> None:
        if _recording.warned is None:
            show(message, category, *place, **named)
        else:
            _recording.warned.append((category, str(message)))

    warnings.showwarning = record
    warnings.simplefilter("always", UserWarning)


def _print_log(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _require_versions(origin: Origin) -> None:
    own = find_origin().versions
    differing = [name for name in origin.versions if own.get(name, origin.versions[name]) != origin.versions[name]]
    if differing:
        here = ", ".join(f"{name} {own[name]}" for name in differing)
        there = ", ".join(f"{name} {origin.versions[name]}" for name in differing)
        raise UsageError(
            f"The {name_worker()} has {here}, where the process that sends it work has {there}: results could differ. "
            "Install the same versions on all workers, and run the same command again."
        )


def name_worker() -> str:
    """Return the name of the worker that runs this code: its Dask address, or host and process."""
    worker = _find_dask_worker()
    return f"worker {socket.gethostname()}:{os.getpid()}" if worker is None else f"worker {worker.address}"


def _find_dask_worker() -> Any:
    """Return Dask's worker that runs this code, None elsewhere. Imports nothing."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_worker()
    except ValueError:
        return None


# ---------------------------------------------------------------- Dask


@contextmanager
def connect_to_dask(address: str, batches: int) -> Iterator[ExecutorWorkers]:
    """Connect to a scheduler at an address as `tcp://HOST:8786`, with so many batches under way.

    Raises MissingExtraError without the package, and ServiceError if no scheduler answers.
    """
    option = f"--workers dask:{address}"
    distributed = require_module("distributed", "distributed", option)
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ServiceError(
            f"{option}: no scheduler answers ({str(error).partition(chr(10))[0]}). Start one with: dask scheduler"
        ) from error
    last_seen = time.monotonic()

    def check() -> None:
        nonlocal last_seen
        if client.nthreads():
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > _NO_WORKER_SECONDS:
            raise ServiceError(
                f"{option}: there has been no worker for {_NO_WORKER_SECONDS:.0f} seconds. Progress saved: start "
                f"some with: dask worker {address}, and run the same command again."
            )

    with client, _quiet_log():
        yield ExecutorWorkers(client.get_executor(pure=False, retries=_RETRIES), batches, check)


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Print nothing of Dask's log inside the block: our errors say what it says."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
