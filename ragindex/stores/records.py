"""Records of collections as Arrow data: schemas, columns, tokens and unit vectors, of any size and from files.

Strings in memory have 64-bit offsets, because one array of Arrow's default strings holds at most 2 GiB: data of a whole
collection, or of an unbounded part of one, are converted before they are combined into one array.

Files are mapped into memory: what is read takes no more memory than the file has bytes. A file of a few hundred bytes
can declare 2^31 rows in types that need no data for a row (nulls, runs, dictionaries, views), or compressed data that
grow a thousandfold. Only plain types are accepted, and only uncompressed.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa

from ragindex.errors import StoreError, UsageError
from ragindex.interfaces import Schema
from ragindex.text_analysis import analyse_many

_META_PREFIX = "meta_"


def column_name(field: str) -> str:
    """Return the column of a field. `meta.KEY` is hex-encoded, because a key may contain any character."""
    return _META_PREFIX + field.removeprefix("meta.").encode().hex() if field.startswith("meta.") else field


def field_name(column: str) -> str:
    """Return the field of a column; the inverse of `column_name`."""
    return (
        "meta." + bytes.fromhex(column.removeprefix(_META_PREFIX)).decode()
        if column.startswith(_META_PREFIX)
        else column
    )


def arrow_schema(schema: Schema) -> pa.Schema:
    """Build the Arrow schema of a new table. Its metadata contain `schema` and a new random identity.

    Raises UsageError if a field name begins with "meta." or "meta_".
    """
    fields = [pa.field("id", pa.string())]
    fields += [pa.field(name, pa.string()) for name in schema.stored]
    fields += [pa.field(name, pa.list_(pa.string())) for name in schema.keywords]
    fields += [pa.field(name, pa.float64()) for name in schema.numbers]
    if schema.text:
        fields.append(pa.field("tokens", pa.string()))
    if schema.dimensions:
        fields.append(pa.field("vector", pa.list_(pa.float32(), schema.dimensions)))
    bad = [item.name for item in fields if item.name.startswith(("meta.", "meta_"))]
    if bad:
        raise UsageError(f"The name of a field must not begin like that of a metadata field. Got {bad[0]!r}.")
    return pa.schema(fields, metadata={"ragindex": json.dumps({**asdict(schema), "identity": uuid4().hex})})


def read_schema(stored: Mapping[str, Any]) -> Schema:
    """Return the schema that was stored as JSON. Raises KeyError if a field is missing."""
    lists = {name: tuple(stored[name]) for name in ("stored", "keywords", "numbers", "text")}
    return Schema(**lists, language=stored["language"], dimensions=stored["dimensions"])


def table_rows(records: pa.RecordBatch, schema: Schema, target: pa.Schema, name: str) -> pa.Table:
    """Convert records to rows of the table of the collection `name`, with tokens and unit vectors.

    Raises UsageError if fields are missing or unknown, ids occur twice, or a vector is not finite.
    """
    names = set(records.schema.names)
    needed = {"id", *schema.stored, *schema.keywords, *schema.numbers} | ({"vector"} if schema.dimensions else set())
    extra = {field for field in names - needed if not field.startswith("meta.")}
    if needed - names or extra:
        raise UsageError(
            f"Records of {name} must have the fields {sorted(needed)}; "
            f"missing {sorted(needed - names)}, unknown {sorted(extra)}."
        )
    if len(records.column("id").unique()) < len(records):
        raise UsageError(f"Records written to {name} in one call must have different ids; some ids occur twice.")
    columns = {column_name(field): records.column(field) for field in names}
    if schema.text:
        parts = zip(*(records.column(name).to_pylist() for name in schema.text), strict=True)
        texts = ["\n".join(filter(None, part)) for part in parts]
        columns["tokens"] = pa.array(analyse_many(texts, schema.language), pa.string())
    if schema.dimensions:
        columns["vector"] = _normalize_vectors(columns["vector"], schema.dimensions)
    bare = target.remove_metadata()
    arrays = [
        columns[item.name].cast(item.type) if item.name in columns else pa.nulls(len(records), item.type)
        for item in bare
    ]
    return pa.Table.from_arrays(arrays, schema=bare)


def _normalize_vectors(vectors: pa.Array, dimensions: int) -> pa.Array:
    matrix = vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimensions).astype(np.float32)
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        raise UsageError("Vectors must be finite; got NaN or infinity. Check the encoder.")
    units = np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0)
    return pa.FixedSizeListArray.from_arrays(pa.array(units.ravel()), dimensions)


def select_columns(records: Any, fields: Sequence[str]) -> Any:
    """Select columns by field name, in the order of `fields`. A `meta.` field that no record has is null.

    Raises UsageError if a field is unknown.
    """
    columns = {field_name(name): records.column(name) for name in records.schema.names}
    absent = pa.nulls(records.num_rows, pa.list_(pa.string()))
    unknown = [name for name in fields if name not in columns and not name.startswith("meta.")]
    if unknown:
        raise UsageError(f"Unknown field {unknown[0]!r}. Available: {', '.join(sorted(columns))} and meta.KEY.")
    arrays = [columns.get(name, absent) if name.startswith("meta.") else columns[name] for name in fields]
    return type(records).from_arrays(arrays, names=list(fields))


def combine_chunks(table: pa.Table) -> pa.RecordBatch:
    """Combine a table into one record batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


# ---------------------------------------------------------------- other encoders and schemas


def describe_dimensions(encoded: int, stored: int) -> str:
    """Return what to do where the encoder of an index gives vectors of another length than those in it."""
    return (
        f"The encoder gave vectors of {encoded} dimensions, and the index has {stored}, so another model answers under "
        "the name of the one that the index was built with. Use that one again (its server, address or files), or "
        "build the index with this one in another folder: ragindex index DOCUMENTS --index NEW_FOLDER --encoder ENCODER"
    )


def require_schema(name: str, stored: Schema, schema: Schema) -> None:
    """Raise StoreError unless a collection was created with this schema."""
    if stored == schema:
        return
    if stored.dimensions and schema.dimensions and stored.dimensions != schema.dimensions:
        raise StoreError(describe_dimensions(schema.dimensions, stored.dimensions))
    raise StoreError(f"The collection {name} was created with {stored}, not with {schema}.")


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
    types = {LARGE_STRING: pa.string(), LARGE_STRING_LIST: pa.list_(pa.string())}
    fields = [item.with_type(types.get(item.type, item.type)) for item in rows.schema]
    return rows.cast(pa.schema(fields, metadata=rows.schema.metadata))


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
