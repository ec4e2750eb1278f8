"""Records of collections, as LanceDB and Elasticsearch store them: schemas, columns, tokens and unit vectors."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
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
    given = set(records.schema.names)
    needed = {"id", *schema.stored, *schema.keywords, *schema.numbers} | ({"vector"} if schema.dimensions else set())
    extra = {field for field in given - needed if not field.startswith("meta.")}
    if needed - given or extra:
        raise UsageError(
            f"Records of {name} must have the fields {sorted(needed)}; "
            f"missing {sorted(needed - given)}, unknown {sorted(extra)}."
        )
    if len(records.column("id").unique()) < len(records):
        raise UsageError(f"Records written to {name} in one call must have different ids; some ids occur twice.")
    columns = {column_name(field): records.column(field) for field in given}
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


def describe_dimensions(given: int, held: int) -> str:
    """Return what to do where the encoder of an index gives vectors of another length than those in it."""
    return (
        f"The encoder gave vectors of {given} dimensions, and the index has {held}, so another model answers under the "
        "name of the one that the index was built with. Use that one again (its server, address or files), or build "
        "the index with this one in another folder: ragindex index DOCUMENTS --index NEW_FOLDER --encoder ENCODER"
    )


def require_schema(name: str, held: Schema, schema: Schema) -> None:
    """Raise StoreError unless a collection was created with this schema."""
    if held == schema:
        return
    if held.dimensions and schema.dimensions and held.dimensions != schema.dimensions:
        raise StoreError(describe_dimensions(schema.dimensions, held.dimensions))
    raise StoreError(f"The collection {name} was created with {held}, not with {schema}.")
