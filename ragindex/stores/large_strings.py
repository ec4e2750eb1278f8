"""Arrow strings with 64-bit offsets, because one array of Arrow's default strings holds at most 2 GiB.

Data of a whole collection, or of an unbounded part of one, are converted before they are combined into one array.
"""

from typing import TypeVar

import pyarrow as pa

LARGE_STRING = pa.large_string()
LARGE_STRING_LIST = pa.list_(LARGE_STRING)
"""The offsets of a list count elements, for which 32 bits are enough."""

ArrowRows = TypeVar("ArrowRows", pa.Table, pa.RecordBatch)


def widen(rows: ArrowRows) -> ArrowRows:
    """Convert all strings, also in lists, to 64-bit offsets. Only offsets are copied, chunk by chunk."""
    schema = pa.schema([item.with_type(_widen_type(item.type)) for item in rows.schema], metadata=rows.schema.metadata)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def narrow(rows: ArrowRows) -> ArrowRows:
    """Convert all strings, also in lists, to 32-bit offsets: the type of batches, which are small."""
    schema = pa.schema([item.with_type(_narrow_type(item.type)) for item in rows.schema], metadata=rows.schema.metadata)
    return rows.cast(schema)


def _narrow_type(kind: pa.DataType) -> pa.DataType:
    if kind == LARGE_STRING:
        return pa.string()
    return pa.list_(pa.string()) if kind == LARGE_STRING_LIST else kind


def _widen_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return LARGE_STRING
    return LARGE_STRING_LIST if pa.types.is_list(kind) and pa.types.is_string(kind.value_type) else kind
