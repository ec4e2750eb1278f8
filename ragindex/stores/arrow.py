"""Arrow data of any size, and Arrow files of any origin.

Strings have 64-bit offsets, because one array of Arrow's default strings holds at most 2 GiB: data of a whole
collection, or of an unbounded part of one, are converted before they are combined into one array.

Files are mapped into memory: what is read takes no more memory than the file has bytes. A file of a few hundred bytes
can declare 2^31 rows in types that need no data for a row (nulls, runs, dictionaries, views), or compressed data that
grow a thousandfold. Only plain types are accepted, and only uncompressed.
"""

import struct
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

# ---------------------------------------------------------------- strings


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


# ---------------------------------------------------------------- files


_MAGIC = b"ARROW1\0\0"
_HEADER, _COMPRESSION = 2, 3
"""The fields of the tables Message and RecordBatch in Arrow's Message.fbs."""


def map_arrow_file(path: Path) -> pa.Table:
    """Return the table in a file, valid and mapped. Raises OSError, ArrowException or ValueError."""
    with pa.memory_map(str(path)) as source:
        if source.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it is no Arrow file")
        # as a stream: the footer of a file could name other messages than those that are checked here
        messages = pa.ipc.MessageReader.open_stream(source)
        schema = pa.ipc.read_schema(messages.read_next_message())
        for field in schema:
            if not _is_plain(field.type):
                raise ValueError(f"its column {field.name!r} has the type {field.type}")
        table = pa.Table.from_batches(_read_batches(messages, schema), schema)
    table.validate(full=True)
    return table


def _read_batches(messages: pa.ipc.MessageReader, schema: pa.Schema) -> list[pa.RecordBatch]:
    batches = list[pa.RecordBatch]()
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return batches
        if _is_compressed(memoryview(message.metadata)):
            raise ValueError("it is compressed")
        batches.append(pa.ipc.read_record_batch(message, schema))


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether each row of a type has bytes of its own: texts, numbers, and lists of these."""
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _is_plain(kind.value_type)
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_integer(kind)
    )


def _is_compressed(message: memoryview) -> bool:
    """Return whether the record batch of a message (a flatbuffer) is compressed. Raises ValueError."""
    try:
        (root,) = struct.unpack_from("<I", message, 0)
        header = root + _find_field(message, root, _HEADER)
        (offset,) = struct.unpack_from("<I", message, header)
        return _find_field(message, header + offset, _COMPRESSION) > 0
    except struct.error as error:
        raise ValueError("its header is cut off") from error


def _find_field(message: memoryview, table: int, number: int) -> int:
    """Return where a field of a flatbuffer's table begins, from the table's own place; 0 if it is not there."""
    (back,) = struct.unpack_from("<i", message, table)
    (size,) = struct.unpack_from("<H", message, table - back)
    place = 4 + 2 * number
    return int(struct.unpack_from("<H", message, table - back + place)[0]) if place < size else 0
