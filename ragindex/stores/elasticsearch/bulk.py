"""Writing many records: in requests of bounded size, a few on their way at once, all confirmed in the end.

So a slow server slows the writer down. What it turns away for want of room (429) is sent again after growing waits;
a request that it finds too large (413) is sent in halves. What it refuses is named, record by record.
"""

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from random import Random

from ragindex.errors import StoreError
from ragindex.http import Trouble, TroubleError, retry_delay
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.records import server_id
from ragindex.stores.elasticsearch.responses import ItemsError

_LARGEST = 2 << 20
"""Bytes of a request: large enough to be quick, small enough that a batch of a sync makes several."""
_MOST = 1000
_MOST_NAMED, _LONGEST_NAME = 5, 80
"""Records that an error names, and the characters of an id in it."""


@dataclass(frozen=True, slots=True)
class Action:
    """One record to write, or, without a document, to remove."""

    id: str
    document: bytes | None = None

    @property
    def lines(self) -> list[bytes]:
        """As the bulk interface wants it."""
        kind = "delete" if self.document is None else "index"
        head = json.dumps({kind: {"_id": server_id(self.id)}}, ensure_ascii=False).encode()
        return [head] if self.document is None else [head, self.document]


def send(server: Server, alias: str, actions: Iterable[Action], name: str, writers: int = 1) -> None:
    """Write to the index behind `alias`, `writers` requests at once; durable when it returns.

    Each record may come once: which of two would be written last is not said. The same again does no harm: a record is
    written whole, under its own id. Raises StoreError with the records that failed, once no request is on its way.
    """
    with ThreadPoolExecutor(writers, thread_name_prefix="bulk") as pool:
        sent: deque[Future[None]] = deque()
        for block in _blocks(actions):
            if len(sent) == writers:
                sent.popleft().result()
            sent.append(pool.submit(_send, server, alias, block, name))
        for one in sent:
            one.result()


def _blocks(actions: Iterable[Action]) -> Iterator[list[Action]]:
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
    """One request, sent again with what was turned away."""
    rng = Random()  # noqa: S311  # jitter, no result
    left = list(block)
    for attempt in range(server.retries + 1):
        again = _once(server, alias, left, name)
        if not again:
            return
        left, (first, *_) = [action for action, _ in again], [trouble for _, trouble in again]
        time.sleep(retry_delay(first, attempt, rng))
    trouble = Trouble("its queue stays full", _FULL) if first.status == _FULL else first
    raise server.failure(f"write {len(left)} of {len(block)} records to the collection {name}", trouble)


def _once(server: Server, alias: str, block: list[Action], name: str) -> list[tuple[Action, Trouble]]:
    """What is to be sent again, turned away for want of room or not on all copies of its shard, and why.

    Raises StoreError for what was refused.
    """
    lines = [line for action in block for line in action.lines]
    try:
        server.try_to(
            lambda client: client.bulk(operations=lines, index=alias, require_alias=True, filter_path=_ANSWER)
        )
    except ItemsError as error:
        failed = [(action, one) for action, one in zip(block, error.troubles, strict=True) if one is not None]
    except TroubleError as error:
        if error.trouble.status != _TOO_LARGE:
            raise server.failure(f"write to the collection {name}", error.trouble) from None
        return _halves(server, alias, block, name)
    else:
        return []
    refused = [(action, one) for action, one in failed if one.status not in (_FULL, None)]
    if refused:
        raise _refused(server, refused, len(block), name)
    return failed


_ANSWER = (
    "errors,items.*.status,items.*._shards.failed,items.*.error.type,items.*.error.reason,"
    "items.*.error.caused_by.reason"
)
_TOO_LARGE, _FULL = 413, 429


def _halves(server: Server, alias: str, block: list[Action], name: str) -> list[tuple[Action, Trouble]]:
    if len(block) == 1:
        size = sum(map(len, block[0].lines))
        raise StoreError(
            f"The store at {server.where} could not write the record {_named(block[0])} of the collection {name}: with "
            f"{size:,} bytes it exceeds the server's limit. Split the document, or raise http.max_content_length."
        )
    half = len(block) // 2
    return [*_once(server, alias, block[:half], name), *_once(server, alias, block[half:], name)]


def _refused(server: Server, refused: Sequence[tuple[Action, Trouble]], size: int, name: str) -> StoreError:
    named = "; ".join(f"{_named(action)}: {one.message}" for action, one in refused[:_MOST_NAMED])
    more = f"; and {len(refused) - _MOST_NAMED} more" if len(refused) > _MOST_NAMED else ""
    first = refused[0][1]
    trouble = Trouble(f"{named}{more}", first.status, first.code)
    return server.failure(f"write {len(refused)} of {size} records to the collection {name}", trouble)


def _named(action: Action) -> str:
    return repr(action.id if len(action.id) <= _LONGEST_NAME else f"{action.id[:_LONGEST_NAME]}…")
