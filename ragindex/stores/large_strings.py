"""Strings whose offsets are 64 bits wide: Arrow's plain strings hold at most 2 GiB in one array.

Whatever may hold a whole collection, or a part of one that nothing bounds, is made wide before it becomes one array.
"""

from typing import TypeVar

import pyarrow as pa

LARGE_STRING = pa.large_string()
LARGE_STRING_LIST = pa.list_(LARGE_STRING)
"""A list counts its elements, of which 2 billion are enough."""

ArrowRows = TypeVar("ArrowRows", pa.Table, pa.RecordBatch)


def widen(rows: ArrowRows) -> ArrowRows:
    """The rows with wide strings, also in lists. Nothing but offsets is copied, chunk by chunk."""
    schema = pa.schema([item.with_type(_wide(item.type)) for item in rows.schema], metadata=rows.schema.metadata)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _wide(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return LARGE_STRING
    return LARGE_STRING_LIST if pa.types.is_list(kind) and pa.types.is_string(kind.value_type) else kind
