"""Waiting for LanceDB's asynchronous operations, which run in a thread of its own.

A step into that thread costs more than reading a few records. LanceDB's synchronous classes take several steps for each
query, so the store uses the asynchronous ones, and one step for a whole operation.
"""

from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pyarrow as pa

_Result = TypeVar("_Result")


def wait(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine in LanceDB's thread and return its result. Imports LanceDB, which takes a second."""
    from lancedb.background_loop import LOOP

    return LOOP.run(work)  # type: ignore[no-any-return]  # LanceDB's function has no types


def fetch_batches(query: Any, size: int) -> Iterator[pa.RecordBatch]:
    """Start an asynchronous query and return its batches of at most `size` records, which are read one by one."""
    reader = wait(query.to_batches(max_batch_length=size))
    return iter(lambda: wait(_read_next(reader)), None)


async def _read_next(reader: Any) -> pa.RecordBatch | None:
    return await anext(reader, None)
