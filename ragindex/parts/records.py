"""Records of parts: their columns, those that belong to one passage each, and replacement of whole collections."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ragindex._util.canonical import digest
from ragindex.corpus import passage_text
from ragindex.filters import Overlaps
from ragindex.interfaces import Collection
from ragindex.retrieval.hits import build_document_fields

Integers: TypeAlias = npt.NDArray[np.int64]
Doubles: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]


TEXTS = pa.list_(pa.string())
_COPIED_BYTES = 32 << 20
CONTEXT = "context"
"""The field of records whose `title` is shown, but not encoded and analysed: this field stands in its place."""


def encoded_fields(records: Collection) -> tuple[str, str]:
    """Return the two fields of records that are encoded and analysed: `context` or else `title`, and `text`."""
    return (CONTEXT if CONTEXT in records.fields() else "title", "text")


def encoded_text(record: Mapping[str, Any]) -> str:
    """Return the text of a record, with the fields of `encoded_fields`, that encoders read."""
    return passage_text(record[CONTEXT] if CONTEXT in record else record["title"], record["text"])


def find_record_ids(records: Collection, passage_ids: Sequence[str]) -> list[str]:
    """Return the ids of the records of these passages, sorted."""
    if not passage_ids:
        return []
    batches = records.scan((), Overlaps("passage_ids", tuple(passage_ids)))
    return sorted(id for batch in batches for id in batch.column("id").to_pylist())


def split_by_size(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges of records that have a copy of their document's metadata each, of about 32 MiB together.

    `sizes` are the bytes or characters of each copy. Building and writing them takes several times as much memory.
    """
    start = size = 0
    for stop, each in enumerate(sizes, 1):
        size += each
        if size >= _COPIED_BYTES:
            yield start, stop
            start, size = stop, 0
    if start < len(sizes):
        yield start, len(sizes)


def unit_columns(
    kind: str, ids: Sequence[str], texts: Sequence[str], passages: Sequence[Mapping[str, Any]]
) -> dict[str, pa.Array]:
    """Return the columns that `ragindex.retrieval.hits` reads, with one record for each of `ids`.

    `passages` are the rows of the passages that the records belong to. A record has the metadata of its
    passage's document, and no title.
    """
    return {
        "id": pa.array(ids, pa.string()),
        "kind": pa.array([kind] * len(ids), pa.string()),
        "title": pa.array([""] * len(ids), pa.string()),
        "text": pa.array(texts, pa.string()),
        "passage_ids": pa.array([[passage["id"]] for passage in passages], TEXTS),
        **build_document_fields(
            [passage["doc_id"] for passage in passages],
            {passage["doc_id"]: passage["metadata"] for passage in passages},
        ),
    }


def large_text(pieces: Iterable[pa.Array]) -> pa.Array:
    """Concatenate arrays of text into one array of large strings, which has no size limit."""
    return pa.concat_arrays([pa.array([], pa.large_string()), *(piece.cast(pa.large_string()) for piece in pieces)])


DIGEST = "digest"
"""The stored field with a hash of the record, to detect changes; the schema of the collection must contain it."""


def replace_records(records: Collection, batches: Iterable[pa.RecordBatch]) -> None:
    """Update a collection to hold exactly the records of `batches`, which lack the field DIGEST. Idempotent.

    Vectors are not compared, so a vector must be determined by the other fields.
    """
    stored = {row["id"]: row[DIGEST] for batch in records.scan((DIGEST,)) for row in batch.to_pylist()}
    for batch in batches:
        plain = batch.select([name for name in batch.schema.names if name != "vector"])
        digests = [digest(json.dumps(row, ensure_ascii=False)) for row in plain.to_pylist()]
        ids = batch.column("id").to_pylist()
        changed = [stored.pop(id, None) != new for id, new in zip(ids, digests, strict=True)]
        if any(changed):
            marked = batch.append_column(DIGEST, pa.array(digests, pa.string()))
            records.upsert(marked.filter(pa.array(changed)))
    records.delete(sorted(stored))
