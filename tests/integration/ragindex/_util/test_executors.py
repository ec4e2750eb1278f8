"""Work on executors: order, a bounded window, warnings, errors that name worker and batch, versions."""

import gc
import os
import warnings
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import ragindex
from ragindex._util import executors, workers
from ragindex._util.executors import ExecutorWorkers, Origin, find_origin, run_batch
from ragindex._util.workers import current_executor, map_in_processes, use_workers
from ragindex.errors import DataError, MissingExtraError, RagindexError, ServiceError, UsageError


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SERIAL_SECONDS", 0.0)


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        yield pool


class Counted(Executor):
    """Does the work when it is submitted, and keeps what was submitted."""

    def __init__(self) -> None:
        self.sizes = list[int]()
        self.futures = list[Future[Any]]()

    def submit(self, function: Any, *given: Any, **named: Any) -> Any:  # type: ignore[override]
        future: Future[Any] = Future()
        future.set_result(function(*given, **named))
        self.sizes.append(len(given[1]))
        self.futures.append(future)
        return future


class Failing(Executor):
    """Every batch ends with the same error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def submit(self, function: Any, *given: Any, **named: Any) -> Any:  # type: ignore[override]
        future: Future[Any] = Future()
        future.set_exception(self.error)
        return future


def _square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def _warn(number: int) -> int:
    warnings.warn(f"number {number % 2}", UserWarning, stacklevel=2)
    return number


def _fail(number: int) -> int:
    if number == 3:
        raise DataError("a number", "three", path="file", line=3)
    if number == 7:
        raise ZeroDivisionError("seven")
    if number == 9:
        raise MissingExtraError("umap needs the package umap-learn.")
    if number == 11:
        os._exit(9)
    return number


def test_results_come_in_order_from_processes(processes: ProcessPoolExecutor) -> None:
    with ragindex.use_executor(processes):
        results = list(map_in_processes(_square, range(600)))
        assert list(map_in_processes(_cores, range(2))) == [1, 1]
    assert [square for square, _ in results] == [number * number for number in range(600)]
    assert os.getpid() not in {process for _, process in results}
    assert current_executor() is None


def test_items_are_taken_as_batches_need_them() -> None:
    """One by one at first, then 256 of quick ones, and never more than the window."""
    executor, taken = Counted(), list[int]()
    items = (taken.append(number) or number for number in range(1000))  # type: ignore[func-returns-value]
    results = ExecutorWorkers(executor, batches=4).map(_square, items)
    next(results)
    assert executor.sizes == [1, 1, 1, 1]
    assert len(taken) == 4
    assert len(list(results)) == 999
    assert executor.sizes[4:8] == [256, 256, 256, 228]


def test_inner_workers_hold() -> None:
    executor = Counted()
    with ragindex.use_executor(executor), use_workers(1):
        assert list(map_in_processes(abs, [-1])) == [1]
    assert executor.sizes == []


def test_warnings_of_processes_are_repeated(processes: ProcessPoolExecutor) -> None:
    with ragindex.use_executor(processes), pytest.warns(UserWarning, match="^number") as caught:
        assert list(map_in_processes(_warn, range(4))) == [0, 1, 2, 3]
    assert [str(warning.message) for warning in caught] == ["number 0", "number 1"] * 2


def test_errors_of_workers(processes: ProcessPoolExecutor) -> None:
    """Ours stay what they are, others name batch and worker."""
    with ragindex.use_executor(processes), pytest.raises(DataError, match="file, line 3: expected a number; found"):
        list(map_in_processes(_fail, [3]))
    with ragindex.use_executor(processes), pytest.raises(MissingExtraError, match=r"^On worker .+:\d+: umap needs"):
        list(map_in_processes(_fail, [9]))
    expected = (
        r"^Batch 2 \(1 of .*test_executors\._fail\) failed, on worker .+:\d+ \(ZeroDivisionError: seven\)\. Progress "
        r"saved\. Repair or replace the worker .*, and run the same command again.$"
    )
    with ragindex.use_executor(processes), pytest.raises(RagindexError, match=expected):
        list(map_in_processes(_fail, [1, 7]))


def test_dead_process_names_the_batch() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, ragindex.use_executor(pool):
        with pytest.raises(RagindexError, match=r"^Batch 1 \(1 of .*\) failed \(BrokenProcessPool: .*Progress saved"):
            list(map_in_processes(_fail, [11]))
        with pytest.raises(RagindexError, match="Batch 1 .*BrokenProcessPool"):  # from the beginning
            list(map_in_processes(_square, [11]))


def test_cancelled_batch_says_why() -> None:
    executor, message = Failing(CancelledError()), r"failed \(the scheduler of the cluster has ended.*Start it again"
    with ragindex.use_executor(executor), pytest.raises(RagindexError, match=message):
        list(map_in_processes(abs, [1]))


def test_futures_of_the_executor_are_let_go_when_they_are_done() -> None:
    """Dask would compute a result again that a worker held which has died, though it is here."""
    executor = Counted()
    batch = ExecutorWorkers(executor, 1).submit(abs, [-1], "")
    future = weakref.ref(executor.futures.pop())
    gc.collect()
    assert future() is None
    assert batch.succeeded
    assert batch.take()[0] == [1]


def test_check_ends_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a cluster has no worker any more."""

    class Idle(Executor):
        def submit(self, function: Any, *given: Any, **named: Any) -> Any:  # type: ignore[override]
            return Future()

    def check() -> None:
        raise ServiceError("no worker")

    monkeypatch.setattr(executors, "_CHECK_SECONDS", 0.01)
    with pytest.raises(ServiceError, match="^no worker$"):
        list(ExecutorWorkers(Idle(), 1, check).map(abs, [1]))


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    here = find_origin()
    other = Origin("elsewhere", here.process, {**here.versions, "ragindex": "0.0.1", "numpy": "0.9"})
    monkeypatch.setattr(executors, "_settle", lambda: None)
    expected = (
        f"^The worker .+ has ragindex {here.versions['ragindex']}, numpy {here.versions['numpy']}, where the "
        "process that sends it work has ragindex 0.0.1, numpy 0.9: results could differ. Install the same versions"
    )
    with pytest.raises(UsageError, match=expected):
        run_batch(abs, [1], other)
    assert run_batch(abs, [-1], Origin("elsewhere", 1, {**here.versions, "missing here": "9"})).results == [1]


def _cores(number: int) -> int:
    from ragindex._util.cores import available_cores

    return available_cores()


@pytest.mark.parametrize("given", ["four", "dask:", "dask:host", "0", "tcp://host:8786"])
def test_bad_workers(given: str) -> None:
    expected = f"workers must be a whole number of at least 1, or dask:tcp://HOST:8786. Got {given!r}"
    with pytest.raises(UsageError, match=expected), use_workers(given):
        pass
    with pytest.raises(UsageError, match="batches must be"), ragindex.use_executor(Counted(), batches=0):
        pass
