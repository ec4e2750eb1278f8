"""Concurrent runs of one task on many inputs."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from typing import Any

from ragindex.accounting import ledger
from ragindex.errors import LLMError, ServiceError
from ragindex.llm.rate_limits import StoppedError, StopSignal, stopping
from ragindex.llm.tasks import Failure, Output

_MAX_FAILURES_IN_A_ROW = 20
_ENDPOINT_FAILURES = ("unreachable", "rejected")  # kinds of failure that may be caused by the endpoint


def map_in_threads(
    one: Callable[[Mapping[str, Any]], Output],
    name: str,
    many: Iterable[Mapping[str, Any]],
    workers: int,
    progress: Callable[[int], None],
) -> list[Output | Failure]:
    """Call `one` for each input with `workers` workers; return the results in input order.

    An LLMError becomes a Failure of the task `name`. Any other error ends the map after the requests in flight. So do
    20 consecutive inputs that fail because of the endpoint (ServiceError). Each thread runs in a copy of this context.
    """
    inputs = list(many)
    stop, lanes = StopSignal(), ledger.Lanes(workers)
    token = stopping.set(stop)
    pool = ThreadPoolExecutor(min(threads_for(workers), len(inputs)) or 1, thread_name_prefix=name)

    def work(number: int) -> Output | Failure:
        if stop.is_set():
            raise StoppedError
        try:
            with lanes.item(number):
                return attempt(one, name, inputs[number])
        except BaseException:
            stop.set()  # at once, as the watching thread may notice the error late
            raise

    try:
        futures = [pool.submit(copy_context().run, work, number) for number in range(len(inputs))]
        _watch_futures(futures, progress)
        return [future.result() for future in futures]
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        stopping.reset(token)
        lanes.close()


def threads_for(requests: int) -> int:
    """Return how many threads keep `requests` requests in flight: a few more, for what is done between two requests."""
    return requests + requests // 4 + 1


def attempt(one: Callable[[Mapping[str, Any]], Output], name: str, each: Mapping[str, Any]) -> Output | Failure:
    """Call `one` for an input; return an LLMError as a Failure."""
    try:
        return one(each)
    except LLMError as error:
        return Failure(name, str(error), error.kind)


def _watch_futures(futures: "list[Future[Output | Failure]]", progress: Callable[[int], None]) -> None:
    in_a_row = 0
    for future in as_completed(futures):
        if isinstance(future.exception(), StoppedError):
            continue  # another future has the reason
        result = future.result()
        progress(1)
        failed = isinstance(result, Failure) and result.kind in _ENDPOINT_FAILURES
        in_a_row = in_a_row + 1 if failed else 0
        if isinstance(result, Failure) and in_a_row == _MAX_FAILURES_IN_A_ROW:
            raise ServiceError(
                f"{_MAX_FAILURES_IN_A_ROW} inputs in a row failed; the last: {result.reason} Progress saved."
            )
