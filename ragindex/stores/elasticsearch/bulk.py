"""Bulk writes of many records, in requests of limited size, a few at a time, all confirmed at the end.

A slow server therefore slows the writer down. Writes that the server rejects because its queue is full (429) are sent
again with growing delays; a request that is too large (413) is split in halves. Refused records are named in the error.
"""

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import Random

from ragindex._util.http import RequestProblem, RequestProblemError, retry_delay
from ragindex.errors import StoreError
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.records import server_id
from ragindex.stores.elasticsearch.responses import ItemsError

_LARGEST = 2 << 20
"""The most bytes of a request: large enough to be fast, small enough to split a sync batch into several requests."""
_MOST = 1000
_MAX_NAMED, _MAX_NAME_LENGTH = 5, 80
"""The most records that an error names, and the most characters of each id."""


@dataclass(frozen=True, slots=True)
class Action:
    """A record to write, or to delete if there is no document."""

    id: str
    document: bytes | None = None

    @property
    def lines(self) -> list[bytes]:
        """The lines of the action in a bulk request."""
        kind = "delete" if self.document is None else "index"
        head = json.dumps({kind: {"_id": server_id(self.id)}}, ensure_ascii=False).encode()
        return [head] if self.document is None else [head, self.document]


def send(server: Server, alias: str, actions: Iterable[Action], name: str, writers: int = 1) -> None:
    """Write to the index behind `alias`, with `writers` concurrent requests. The writes are durable on return.

    Each record may occur only once, because the order of writes is not defined. Repeating a write is harmless, because
    a record is written completely, under its own id. Raises StoreError, naming the failed records, once all requests
    have ended.
    """
    with ThreadPoolExecutor(writers, thread_name_prefix="bulk") as pool:
        pending: deque[Future[None]] = deque()
        for block in _split_blocks(actions):
            if len(pending) == writers:
                pending.popleft().result()
            pending.append(pool.submit(_send, server, alias, block, name))
        for request in pending:
            request.result()


def _split_blocks(actions: Iterable[Action]) -> Iterator[list[Action]]:
    block: list[Action] = []
    size = 0
    for action in actions:
        length = sum(map(len, action.lines))
        if block and (size + length > _LARGEST or len(block) == _MOST):
            yield block
            block, size = [], 0
        block.append(action)
        size += length
    if block:
        yield block


def _send(server: Server, alias: str, block: Sequence[Action], name: str) -> None:
    """Send one request, and send rejected actions again."""
    rng = Random()  # noqa: S311  # jitter, no result
    left = list(block)
    for attempt in range(server.retries + 1):
        again = _once(server, alias, left, name)
        if not again:
            return
        left, (first, *_) = [action for action, _ in again], [problem for _, problem in again]
        time.sleep(retry_delay(first, attempt, rng))
    problem = RequestProblem("its queue stays full", _FULL) if first.status == _FULL else first
    raise server.failure(f"write {len(left)} of {len(block)} records to the collection {name}", problem)


def _once(server: Server, alias: str, block: list[Action], name: str) -> list[tuple[Action, RequestProblem]]:
    """Send a request once, and return the actions to send again, with the reasons.

    These were rejected because the queue is full, or not written to all copies of a shard. Raises StoreError if records
    were refused for other reasons.
    """
    lines = [line for action in block for line in action.lines]
    try:
        server.try_to(
            lambda client: client.bulk(operations=lines, index=alias, require_alias=True, filter_path=_RESPONSE_FIELDS)
        )
    except ItemsError as error:
        failed = [
            (action, problem) for action, problem in zip(block, error.problems, strict=True) if problem is not None
        ]
    except RequestProblemError as error:
        if error.problem.status != _TOO_LARGE:
            raise server.failure(f"write to the collection {name}", error.problem) from None
        return _send_halves(server, alias, block, name)
    else:
        return []
    refused = [(action, failure) for action, failure in failed if failure.status not in (_FULL, None)]
    if refused:
        refusals = "; ".join(f"{_quote(action)}: {problem.message}" for action, problem in refused[:_MAX_NAMED])
        more = f"; and {len(refused) - _MAX_NAMED} more" if len(refused) > _MAX_NAMED else ""
        doing = f"write {len(refused)} of {len(block)} records to the collection {name}"
        raise server.failure(doing, replace(refused[0][1], message=f"{refusals}{more}"))
    return failed


_RESPONSE_FIELDS = (
    "errors,items.*.status,items.*._shards.failed,items.*.error.type,items.*.error.reason,"
    "items.*.error.caused_by.reason"
)
_TOO_LARGE, _FULL = 413, 429


def _send_halves(server: Server, alias: str, block: list[Action], name: str) -> list[tuple[Action, RequestProblem]]:
    if len(block) == 1:
        size = sum(map(len, block[0].lines))
        raise StoreError(
            f"The store at {server.where} could not write the record {_quote(block[0])} of the collection {name}: with "
            f"{size:,} bytes it exceeds the server's limit. Split the document, or raise http.max_content_length."
        )
    half = len(block) // 2
    return [*_once(server, alias, block[:half], name), *_once(server, alias, block[half:], name)]


def _quote(action: Action) -> str:
    return repr(action.id if len(action.id) <= _MAX_NAME_LENGTH else f"{action.id[:_MAX_NAME_LENGTH]}…")
