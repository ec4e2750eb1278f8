"""Work on several processes: reading files, rules, clustering. Results are those of one process, in the same order.

Processes are joblib's (loky): they start without importing the caller's main module, stay for the next work of the same
kind, and end with this process, also if it is killed.
"""

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from ragindex._util.cores import available_cores
from ragindex._util.library_logs import show_own_logs
from ragindex.errors import RagindexError, UsageError

SERIAL_SECONDS = 4.0
"""Work of a kind is done in this process until it has taken so long: starting processes takes as long."""
WORKERS = "RAGINDEX_WORKERS"
"""The environment variable with the default number of workers."""
_IDLE_SECONDS = 60
"""Seconds after which a process without work ends."""
_WATCH_SECONDS = 0.5
_POLL_SECONDS = 0.001
_NO_LEAKS = "ignore:resource_tracker:UserWarning"
"""For the process that removes semaphores of processes that ended at once, as at a second Ctrl-C: it says so."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_given: ContextVar[int | None] = ContextVar("ragindex_workers", default=None)
_spent: dict[str, float] = {}
"""Seconds of work in this process, by function."""
_running: list[Any] = []
"""The results of work on several processes that have not all been taken."""


@contextmanager
def use_workers(count: int | None) -> Iterator[None]:
    """Let `map_in_processes` use `count` processes inside the block; None changes nothing.

    Raises UsageError if `count` is less than 1.
    """
    if count is None:
        yield
        return
    token = _given.set(_check_count(count, "workers"))
    try:
        yield
    finally:
        _given.reset(token)


def available_workers() -> int:
    """Return the number of processes to use: that of `use_workers`, RAGINDEX_WORKERS, or the available cores."""
    chosen = _given.get()
    if chosen is not None:
        return chosen
    variable = os.environ.get(WORKERS, "")
    return _check_count(variable, WORKERS) if variable else available_cores()


def _check_count(count: int | str, name: str) -> int:
    if not str(count).isdecimal() or int(count) < 1:
        raise UsageError(f"{name} must be a whole number of at least 1. Got {count!r}.")
    return int(count)


def map_in_processes(function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
    """Yield `function(item)` for each item, in order, from several processes if there is enough work.

    Items are taken as processes need them. Warnings are repeated here. An error is raised here, perhaps before results
    of earlier items. `function`, items and results must be picklable. Raises RagindexError if a process dies.
    """
    left, name, workers = iter(items), f"{function.__module__}.{function.__qualname__}", available_workers()
    while workers == 1 or _spent.get(name, 0.0) < SERIAL_SECONDS:
        for item in left:
            start = time.perf_counter()
            result = function(item)
            _spent[name] = _spent.get(name, 0.0) + time.perf_counter() - start
            yield result
            break
        else:
            return
    yield from _map(function, left, workers)


def _map(function: Callable[[_In], _Out], items: Iterable[_In], workers: int) -> Iterator[_Out]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    if _NO_LEAKS not in sys.warnoptions:  # which loky gives to its processes
        sys.warnoptions.append(_NO_LEAKS)
    run = Parallel(
        workers,
        backend=_backend_class()(),
        return_as="generator",
        idle_worker_timeout=_IDLE_SECONDS,
        initializer=_end_with_parent,
        initargs=(os.getpid(),),
    )
    results = run(delayed(_call)(function, item) for item in items)
    _running.append(results)
    try:
        for result, warned in results:
            for category, message in warned:
                warnings.warn(message, category, stacklevel=2)
            yield result
    except TerminatedWorkerError as error:
        raise RagindexError(
            f"One of {workers} worker processes died, perhaps for lack of memory. Use fewer: --workers 1, or "
            f"{WORKERS}=1. Progress saved."
        ) from error
    finally:
        _close(results)
        _running.remove(results)


@cache
def _backend_class() -> Callable[[], Any]:
    """Return joblib's backend of processes, with an end that waits until loky's thread knows all work.

    Told to end, that thread forgets the work that it has not passed on to processes. It then looks for it, and dies of
    a KeyError, which is written to standard error.
    """
    from concurrent.futures import Future

    from joblib.parallel import LokyBackend

    class Backend(LokyBackend):  # type: ignore[misc]  # joblib has no types
        def __init__(self) -> None:
            super().__init__()
            self.lock, self.ended = threading.Lock(), False
            self.submitted: list[Future[Any]] = []

        def submit(self, func: Callable[[], Any], callback: Callable[[Any], None] | None = None) -> Future[Any]:
            """Submit work, unless the end has begun: nobody takes the results of what comes later."""
            with self.lock:
                if self.ended:
                    return Future()
                self.submitted = [job for job in self.submitted if not job.done()]
                future: Future[Any] = self._workers.submit(func)
                self.submitted.append(future)
            if callback is not None:
                future.add_done_callback(callback)
            return future

        def abort_everything(self, ensure_ready: bool = True) -> None:
            """End the processes, whatever they do."""
            with self.lock:
                self.ended = True
            while any(not (job.running() or job.done()) for job in self.submitted):
                time.sleep(_POLL_SECONDS)
            super().abort_everything(ensure_ready)

    return Backend


def end_work() -> None:
    """End the work whose results nobody takes any more, as after an error or Ctrl-C.

    At the exit of the process it would be too late: work that goes on there is reported as failed, and semaphores of
    its processes as leaked.
    """
    for results in list(_running):
        _close(results)


def _close(results: Any) -> None:
    """Close the results of joblib, which would warn that some were not taken."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        results.close()


def _call(function: Callable[[_In], _Out], item: _In) -> tuple[_Out, list[tuple[Any, str]]]:
    """Return the result, and the categories and messages of warnings."""
    with warnings.catch_warnings(record=True) as caught, show_own_logs(_print_log):
        warnings.simplefilter("default")
        result = function(item)
    return result, [(warning.category, str(warning.message)) for warning in caught]


def _print_log(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _end_with_parent(parent: int) -> None:
    """Let Ctrl-C, which the terminal sends to all processes, reach the parent alone, and end this worker soon after it.

    The parent may have been killed. Elsewhere than on POSIX the worker ends when idle.

    It watches before the first item comes: a parent that is killed while it writes an item leaves half of it, and a
    worker waits for the rest for ever, since it holds the other end of that pipe itself.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        threading.Thread(target=watch, name="ragindex-parent", daemon=True).start()
