"""Records that can only be made whole: a part gives all of them, and only those that changed are written."""

import json
from collections.abc import Iterable

import pyarrow as pa

from ragindex.canonical import digest
from ragindex.interfaces import Collection

DIGEST = "digest"
"""The stored field that tells whether a record has changed; the schema of such a collection names it."""


def replace_records(records: Collection, batches: Iterable[pa.RecordBatch]) -> None:
    """Make a collection hold exactly the records of `batches`, which come without DIGEST.

    A vector is not looked at: it must follow from the other fields. Twice does no harm.
    """
    held = {row["id"]: row[DIGEST] for batch in records.scan((DIGEST,)) for row in batch.to_pylist()}
    for batch in batches:
        digests = _digests(batch)
        ids = batch.column("id").to_pylist()
        changed = [held.pop(id, None) != found for id, found in zip(ids, digests, strict=True)]
        if any(changed):
            marked = batch.append_column(DIGEST, pa.array(digests, pa.string()))
            records.upsert(marked.filter(pa.array(changed)))
    records.delete(sorted(held))


def _digests(batch: pa.RecordBatch) -> list[str]:
    plain = batch.select([name for name in batch.schema.names if name != "vector"])
    return [digest(json.dumps(row, ensure_ascii=False)) for row in plain.to_pylist()]
