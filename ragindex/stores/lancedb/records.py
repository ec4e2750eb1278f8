"""Conversion of records to and from the rows of LanceDB tables: Arrow columns with the tables' column names."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from ragindex.errors import UsageError
from ragindex.interfaces import Schema
from ragindex.stores.lancedb import sql
from ragindex.text_analysis import analyse_many


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
    columns = {sql.column_name(field): records.column(field) for field in given}
    if schema.text:
        columns["tokens"] = pa.array(analyse_many(_join_texts(records, schema.text), schema.language), pa.string())
    if schema.dimensions:
        columns["vector"] = _normalize_vectors(columns["vector"], schema.dimensions)
    bare = target.remove_metadata()
    return pa.Table.from_arrays([_cast(columns.get(item.name), item.type, len(records)) for item in bare], schema=bare)


def _join_texts(records: pa.RecordBatch, fields: Sequence[str]) -> list[str]:
    columns = [records.column(name).to_pylist() for name in fields]
    return ["\n".join(filter(None, parts)) for parts in zip(*columns, strict=True)]


def _normalize_vectors(vectors: pa.Array, dimensions: int) -> pa.Array:
    matrix = vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimensions).astype(np.float32)
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        raise UsageError("Vectors must be finite; got NaN or infinity. Check the encoder.")
    units = np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0)
    return pa.FixedSizeListArray.from_arrays(pa.array(units.ravel()), dimensions)


def _cast(column: pa.Array | None, kind: pa.DataType, length: int) -> pa.Array:
    return pa.nulls(length, kind) if column is None else column.cast(kind)


def select_columns(found: Any, fields: Sequence[str]) -> Any:
    """Select columns by field name, in the order of `fields`. A `meta.` field that no record has is null.

    Raises UsageError if a field is unknown.
    """
    columns = {sql.field_name(name): found.column(name) for name in found.schema.names}
    absent = pa.nulls(found.num_rows, pa.list_(pa.string()))
    unknown = [name for name in fields if name not in columns and not name.startswith("meta.")]
    if unknown:
        raise UsageError(f"Unknown field {unknown[0]!r}. Available: {', '.join(sorted(columns))} and meta.KEY.")
    arrays = [columns.get(name, absent) if name.startswith("meta.") else columns[name] for name in fields]
    return type(found).from_arrays(arrays, names=list(fields))


def combine_chunks(table: pa.Table) -> pa.RecordBatch:
    """Combine a table into one record batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
