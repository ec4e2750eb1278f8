"""Conversion of records to and from Elasticsearch: index mappings, documents, and Arrow columns."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ragindex.errors import UsageError
from ragindex.filters import MAPPING
from ragindex.interfaces import Schema
from ragindex.stores.elasticsearch import filters
from ragindex.stores.memory.bm25 import K1, B
from ragindex.stores.records import arrow_schema, column_name, field_name, table_rows

_MAX_ID_BYTES = 512
"""The most bytes that the server accepts as a document id."""
RecordFields = Mapping[str, Any]

# ---------------------------------------------------------------- the mapping


def build_mapping(schema: Schema, analyser: str | None) -> dict[str, Any]:
    """Build the mapping of an index. `record` holds a record's fields unchanged; other fields are derived from it."""
    keyword = {"type": "keyword", "doc_values": False}
    names = ("terms", "numbers", "group_terms", "group_numbers")
    properties: dict[str, Any] = {
        "record": {"type": "object", "enabled": False},
        "id": {"type": "keyword"},
        **dict.fromkeys(names, keyword),
        "fields": {"type": "keyword"},
        "groups": {"type": "keyword"},
    }
    if schema.text:
        kind = {"type": "text", "similarity": "ragindex", "index_options": "freqs"}
        properties["tokens"] = {**kind, "analyzer": analyser or "whitespace"}
        properties["length"] = {"type": "integer"}
    if schema.dimensions:
        properties["vector"] = build_vector_mapping(schema.dimensions, "flat")
    return {"dynamic": False, "properties": properties}


def build_vector_mapping(dimensions: int, kind: str) -> dict[str, Any]:
    """Build the mapping of the vector field: `flat` for exact search, `int8_hnsw` for a graph of quantized vectors."""
    options = {"index": True, "similarity": "cosine", "index_options": {"type": kind}}
    return {"type": "dense_vector", "dims": dimensions, **options}


SIMILARITY = {"ragindex": {"type": "BM25", "k1": K1, "b": B, "discount_overlaps": False}}

# ---------------------------------------------------------------- documents


def server_id(id: str) -> str:
    """Return the server's id of the record `id`: the same id, or a hash if it is empty or too long."""
    size = len(id.encode())
    return id if 0 < size <= _MAX_ID_BYTES else f"sha256:{hashlib.sha256(id.encode()).hexdigest()}"


def build_documents(
    records: pa.RecordBatch, schema: Schema, name: str, analyser: str | None
) -> Iterator[tuple[str, bytes]]:
    """Yield each record's id and its document as JSON. Raises UsageError if a record does not fit the schema."""
    target = arrow_schema(schema)
    for key in (field for field in records.schema.names if field.startswith("meta.")):
        target = target.append(pa.field(column_name(key), pa.list_(pa.string())))
    rows = table_rows(records, schema, target, name)
    for batch in rows.to_batches(1024):
        vectors, plain = None, batch
        if schema.dimensions:
            numbers = batch.column("vector").flatten().to_numpy(zero_copy_only=False)
            vectors, plain = numbers.reshape(-1, schema.dimensions), batch.drop_columns(["vector"])
        for number, row in enumerate(plain.to_pylist()):
            line = json.dumps(_build_document(row, schema, analyser), ensure_ascii=False, separators=(",", ":"))
            if vectors is not None and vectors[number].any():  # the cosine with a zero vector is undefined
                # the fewest digits that identify each float32: half of those that Python writes
                line = f'{line[:-1]},"vector":[{",".join(vectors[number].astype("U16").tolist())}]}}'
            yield row["id"], line.encode()


def _build_document(row: dict[str, Any], schema: Schema, analyser: str | None) -> dict[str, Any]:
    tokens, given = row.get("tokens"), {name: value for name, value in row.items() if value is not None}
    record = {name: _to_json_value(value) for name, value in given.items() if name not in ("id", "tokens")}
    values = {field_name(name): value for name, value in given.items()}
    meta = {name: value for name, value in values.items() if name.startswith("meta.")}
    document = {"id": row["id"], "record": record, **filters.collect_terms(schema, values)}
    if meta:
        document["fields"] = list(meta)
    lists = {name: value for name, value in values.items() if isinstance(value, list)}
    groups = [name for name, value in lists.items() if filters.is_group(name, value, values.get("doc_ids"))]
    groups += [f"{name}{MAPPING}" for name in meta if MAPPING in meta[name]]
    if groups:
        document["groups"] = groups
    if schema.text and tokens:
        document["tokens"] = tokens if analyser is None else "\n".join(values.get(name) or "" for name in schema.text)
        document["length"] = tokens.count(" ") + 1
    return document


def _to_json_value(value: Any) -> Any:
    """Return a value that JSON can represent: NaN and infinity become strings."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# ---------------------------------------------------------------- columns


def check_fields(fields: Sequence[str], schema: Schema) -> None:
    """Raise UsageError if a field is not in the schema and not a `meta.` field."""
    known = (*schema.stored, *schema.keywords, *schema.numbers, *(("vector",) if schema.dimensions else ()))
    unknown = [name for name in fields if name not in ("id", *known) and not name.startswith("meta.")]
    if unknown:
        raise UsageError(f"Unknown field {unknown[0]!r}. Available: id, {', '.join(known)} and meta.KEY.")


def source_fields(fields: Iterable[str]) -> list[str]:
    """Return the source fields of a document to request for `fields`."""
    return ["id", *("vector" if name == "vector" else f"record.{column_name(name)}" for name in fields if name != "id")]


def build_batch(rows: Sequence[RecordFields], fields: Sequence[str], schema: Schema) -> pa.RecordBatch:
    """Build one batch with `id` and `fields` from documents' sources."""
    columns = [_build_column(rows, name, schema) for name in fields]
    ids = pa.array([row["id"] for row in rows], pa.string())
    return pa.RecordBatch.from_arrays([ids, *columns], names=["id", *fields])


def _build_column(rows: Sequence[RecordFields], name: str, schema: Schema) -> pa.Array:
    if name == "id":
        return pa.array([row["id"] for row in rows], pa.string())
    if name == "vector":
        dimensions = schema.dimensions or 0
        matrix = np.zeros((len(rows), dimensions), dtype=np.float32)
        for number, row in enumerate(rows):
            if "vector" in row:
                matrix[number] = row["vector"]
        return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), dimensions)
    values = [row.get("record", {}).get(column_name(name)) for row in rows]
    if name in schema.numbers:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    lists = name in schema.keywords or name.startswith("meta.")
    return pa.array(values, pa.list_(pa.string()) if lists else pa.string())
