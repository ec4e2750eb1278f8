"""Replacement of all records of a collection, for parts rebuilt as a whole; only changed records are written."""

import json
from collections.abc import Iterable

import pyarrow as pa

from ragindex.canonical import digest
from ragindex.interfaces import Collection

DIGEST = "digest"
"""The stored field with a hash of the record, to detect changes; the schema of the collection must contain it."""


def replace_records(records: Collection, batches: Iterable[pa.RecordBatch]) -> None:
    """Update a collection to hold exactly the records of `batches`, which lack the field DIGEST. Idempotent.

    Vectors are not compared, so a vector must be determined by the other fields.
    """
    held = {row["id"]: row[DIGEST] for batch in records.scan((DIGEST,)) for row in batch.to_pylist()}
    for batch in batches:
        digests = _hash_records(batch)
        ids = batch.column("id").to_pylist()
        changed = [held.pop(id, None) != found for id, found in zip(ids, digests, strict=True)]
        if any(changed):
            marked = batch.append_column(DIGEST, pa.array(digests, pa.string()))
            records.upsert(marked.filter(pa.array(changed)))
    records.delete(sorted(held))


def _hash_records(batch: pa.RecordBatch) -> list[str]:
    plain = batch.select([name for name in batch.schema.names if name != "vector"])
    return [digest(json.dumps(row, ensure_ascii=False)) for row in plain.to_pylist()]
