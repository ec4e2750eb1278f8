"""Strings whose offsets are 64 bits wide: Arrow's plain strings hold at most 2 GiB in one array.

Whatever may hold a whole collection, or a part of one that nothing bounds, is made wide before it becomes one array.
"""

from typing import TypeVar

import pyarrow as pa

TEXT = pa.large_string()
KEYWORDS = pa.list_(TEXT)
"""A list counts its elements, of which 2 billion are enough."""

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def wide(rows: Rows) -> Rows:
    """The rows with wide strings, also in lists. Nothing but offsets is copied, chunk by chunk."""
    schema = pa.schema([item.with_type(_wide(item.type)) for item in rows.schema], metadata=rows.schema.metadata)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _wide(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return TEXT
    return KEYWORDS if pa.types.is_list(kind) and pa.types.is_string(kind.value_type) else kind
