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


def fetch_batches(table: Any, query: Any, size: int) -> Iterator[pa.RecordBatch]:
    """Start a query of an asynchronous table and return its batches of at most `size` records.

    Each step reads batches until they have `size` records, so that a query with fewer takes one step.
    """
    reader, batches = wait(_start(table, query, size))
    return _iterate(reader, batches, size)


async def _start(table: Any, query: Any, size: int) -> tuple[Any, list[pa.RecordBatch]]:
    if not await table.count_rows():  # even a query that reads nothing takes milliseconds
        return None, []
    reader = await query.to_batches(max_batch_length=size)
    return reader, await _read_batches(reader, size)


def _iterate(reader: Any, batches: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    while batches:
        yield from batches
        batches = wait(_read_batches(reader, size)) if sum(map(len, batches)) >= size else []


async def _read_batches(reader: Any, size: int) -> list[pa.RecordBatch]:
    """Return the next batches, which have at least `size` records unless the query ends."""
    batches, rows = list[pa.RecordBatch](), 0
    while rows < size and (batch := await anext(reader, None)) is not None:
        batches.append(batch)
        rows += len(batch)
    return batches
