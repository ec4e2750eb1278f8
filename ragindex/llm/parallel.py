"""One task for many inputs at once."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from threading import Event
from typing import Any

from ragindex.accounting import ledger
from ragindex.errors import LLMError, ServiceError
from ragindex.llm.rate_limits import StoppedError, stopping
from ragindex.llm.tasks import Failure, Output

_MOST_IN_A_ROW = 20
_ENDPOINT = ("unreachable", "rejected")  # kinds of failure that say something about the endpoint


def map_in_threads(
    one: Callable[[Mapping[str, Any]], Output],
    name: str,
    many: Iterable[Mapping[str, Any]],
    workers: int,
    progress: Callable[[int], None],
) -> list[Output | Failure]:
    """`one` of each input, `workers` at once, in order; an LLMError becomes a Failure of the task `name`.

    There are some threads more than that: while answers are read and kept, their connections are used for others.

    Any other error ends the whole, after the requests in flight, and so do 20 inputs in a row for which the endpoint
    has no answer at all (ServiceError). Each thread has a copy of this context.
    """
    inputs = list(many)
    stop, lanes = Event(), ledger.Lanes(workers)
    token = stopping.set(stop)
    pool = ThreadPoolExecutor(min(workers + workers // 4 + 1, len(inputs)) or 1, thread_name_prefix=name)

    def work(number: int) -> Output | Failure:
        if stop.is_set():
            raise StoppedError
        try:
            with lanes.item(number):
                return attempt(one, name, inputs[number])
        except BaseException:
            stop.set()  # at once: whoever watches may be late
            raise

    try:
        futures = [pool.submit(copy_context().run, work, number) for number in range(len(inputs))]
        _watch(futures, progress)
        return [future.result() for future in futures]
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        stopping.reset(token)
        lanes.close()


def attempt(one: Callable[[Mapping[str, Any]], Output], name: str, each: Mapping[str, Any]) -> Output | Failure:
    """`one` of an input, its LLMError as a Failure."""
    try:
        return one(each)
    except LLMError as error:
        return Failure(name, str(error), error.kind)


def _watch(futures: "list[Future[Output | Failure]]", progress: Callable[[int], None]) -> None:
    in_a_row = 0
    for future in as_completed(futures):
        if isinstance(future.exception(), StoppedError):
            continue  # another one says why
        result = future.result()
        progress(1)
        failed = isinstance(result, Failure) and result.kind in _ENDPOINT
        in_a_row = in_a_row + 1 if failed else 0
        if isinstance(result, Failure) and in_a_row == _MOST_IN_A_ROW:
            raise ServiceError(
                f"{_MOST_IN_A_ROW} inputs in a row failed; the last: {result.reason} Progress saved. "
                "Run the same command to resume."
            )
