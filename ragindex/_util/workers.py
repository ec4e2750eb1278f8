"""Work on several processes: reading files, rules, clustering, encoding. Results are those of one, in the same order.

Processes are joblib's (loky): they start without importing the caller's main module, stay for the next work of the same
kind, and end with this process, also if it is killed. Inside `use_executor` an executor works in their place.
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
from typing import TYPE_CHECKING, Any, TypeVar

from ragindex._util.cores import available_cores
from ragindex.errors import RagindexError, UsageError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ragindex._util.executors import ExecutorWorkers

SERIAL_SECONDS = 4.0
"""Work of a kind is done in this process until it has taken so long: starting processes takes as long."""
BATCHES = 128
"""Batches of an executor that are under way at once: two for each of 64 workers."""
WORKERS = "RAGINDEX_WORKERS"
"""The environment variable with the default number of workers."""
_IDLE_SECONDS = 60
"""Seconds after which a process without work ends."""
_DASK = "dask:"
_WATCH_SECONDS = 0.5
_POLL_SECONDS = 0.001
_NO_LEAKS = "ignore:resource_tracker:UserWarning"
"""For the process that removes semaphores of processes that ended at once, as at a second Ctrl-C: it says so."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_given: ContextVar["int | ExecutorWorkers | None"] = ContextVar("ragindex_workers", default=None)
_spent: dict[str, float] = {}
"""Seconds of work in this process, by function."""
_running: list[Any] = []
"""The results of work on several processes that have not all been taken."""


@contextmanager
def use_workers(workers: int | str | None) -> Iterator[None]:
    """Let so many processes do the work inside the block, or a Dask cluster: `dask:tcp://HOST:8786`.

    None changes nothing. Raises UsageError for other values, MissingExtraError without Dask, and ServiceError if no
    scheduler answers.
    """
    check_workers(workers)
    if workers is None:
        yield
    elif str(workers).startswith(_DASK):
        from ragindex._util.executors import connect_to_dask

        with connect_to_dask(str(workers).removeprefix(_DASK), BATCHES) as cluster, _use(cluster):
            yield
    else:
        with _use(int(workers)):
            yield


def check_workers(workers: int | str | None) -> int | str | None:
    """Return a number of processes, or the address of a Dask cluster. Raises UsageError for anything else."""
    if workers is not None and not (str(workers).startswith(_DASK) and "://" in str(workers)):
        _check_count(workers, "workers", f", or {_DASK}tcp://HOST:8786")
    return workers


@contextmanager
def use_executor(executor: "Executor", *, batches: int = BATCHES) -> Iterator[None]:
    """Let the workers of an executor do the heavy work inside the block: encoding, rules, clustering, reading files.

    Example:
        from concurrent.futures import ProcessPoolExecutor

        with ProcessPoolExecutor(4) as pool, ragindex.use_executor(pool):
            index.build("hybrid")

    Any `concurrent.futures.Executor` will do, as `client.get_executor(pure=False, retries=2)` of a Dask client, whose
    workers have the same versions of ragindex and of its packages, and the encoder's model. At most so many `batches`
    of at most 256 texts are under way: two for each worker keep all busy. Encoders that ask a service or are fitted,
    vectors of tokens, paid calls, caches, and everything that is written stay in this process. A batch that fails
    raises RagindexError; what was done is kept, and the next build goes on.
    """
    from ragindex._util.executors import ExecutorWorkers

    with _use(ExecutorWorkers(executor, _check_count(batches, "batches"))):
        yield


@contextmanager
def _use(workers: "int | ExecutorWorkers") -> Iterator[None]:
    token = _given.set(workers)
    try:
        yield
    finally:
        _given.reset(token)


def current_executor() -> "ExecutorWorkers | None":
    """Return the workers of the block of `use_executor` that this code runs in; None: processes of this machine."""
    given = _given.get()
    return None if isinstance(given, int) else given


def available_workers() -> int:
    """Return the number of processes to use: that of `use_workers`, RAGINDEX_WORKERS, or the available cores."""
    given = _given.get()
    if isinstance(given, int):
        return given
    variable = os.environ.get(WORKERS, "")
    return _check_count(variable, WORKERS) if variable else available_cores()


def _check_count(count: int | str, name: str, or_else: str = "") -> int:
    if not str(count).isdecimal() or int(count) < 1:
        raise UsageError(f"{name} must be a whole number of at least 1{or_else}. Got {count!r}.")
    return int(count)


def map_in_processes(function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
    """Yield `function(item)` for each item, in order, from several processes if there is enough work.

    Items are taken as processes need them. Warnings are repeated here. An error is raised here, perhaps before results
    of earlier items. `function`, items and results must be picklable. Raises RagindexError if a process dies.
    """
    left, name = iter(items), f"{function.__module__}.{function.__qualname__}"
    executor, workers = current_executor(), available_workers()
    while (workers == 1 and executor is None) or _spent.get(name, 0.0) < SERIAL_SECONDS:
        for item in left:
            start = time.perf_counter()
            result = function(item)
            _spent[name] = _spent.get(name, 0.0) + time.perf_counter() - start
            yield result
            break
        else:
            return
    yield from _map(function, left, workers) if executor is None else executor.map(function, left)


def _map(function: Callable[[_In], _Out], items: Iterable[_In], workers: int) -> Iterator[_Out]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    from ragindex._util.executors import find_origin, run_batch

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
    results = run(delayed(run_batch)(function, [item], find_origin()) for item in items)
    _running.append(results)
    try:
        for outcome in results:
            outcome.repeat_warnings()
            yield from outcome.results
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
