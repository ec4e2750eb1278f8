"""Records of parts: their columns, those that belong to one passage each, and replacement of whole collections.

Single records of a batch may have no vector; the others are encoded, with the number of tokens that an encoder reads.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ragindex._util.canonical import digest
from ragindex._util.text import many
from ragindex.corpus import passage_text
from ragindex.errors import UsageError
from ragindex.filters import Overlaps
from ragindex.interfaces import BuildContext, Collection, Encoder, Floats
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


# ---------------------------------------------------------------- vectors of records


def encode_records(texts: Sequence[str], ids: Sequence[str], context: BuildContext) -> tuple[list[int], Floats]:
    """Return the positions of the records `ids` whose texts have vectors, and the vectors.

    The others are reported to the context, so the next sync encodes them again.
    """
    vectors, failures = context.encoder.encode_each(texts)
    for row, failure in failures.items():
        context.failed(ids[row], failure.reason)
    rows = np.array([row for row in range(len(texts)) if row not in failures], np.int64)
    return rows.tolist(), vectors[rows]


TOKENS = "tokens"
"""The number of tokens of a record's whole text; 0 if they cannot be counted."""


def token_fields(encoder: Encoder) -> tuple[str, ...]:
    """Return the number fields that records of encoded texts need: `tokens` if the encoder reads only so many."""
    return () if encoder.max_tokens is None else (TOKENS,)


def count_record_tokens(texts: Sequence[str], encoder: Encoder) -> list[float]:
    """Return the number of tokens of each text, 0 where the encoder cannot count (as without its vocabulary)."""
    try:
        return [float(len(encoder.token_spans(text))) for text in texts]
    except UsageError:
        return [0.0] * len(texts)


def note_unread(records: Collection, context: BuildContext) -> None:
    """Note the records with more tokens than the encoder reads, from what is stored with them."""
    limit = context.encoder.max_tokens
    if limit is None:
        return
    batches = (batch.column(TOKENS).to_numpy(zero_copy_only=False) for batch in records.scan((TOKENS,)))
    tokens = np.concatenate([np.zeros(0), *batches])
    longer, unread = int((tokens > limit).sum()), float(np.maximum(tokens - limit, 0).sum())
    if longer:
        of = f"{longer:,} of {many(len(tokens), 'text')} {'is' if longer == 1 else 'are'} longer"
        share = unread / float(tokens.sum())
        context.note(
            f"{of} than the {limit:,} tokens that the encoder {context.encoder.id} reads: {share:.1%} of all tokens "
            f"are not encoded. Chunk smaller: over=passages(by=tokens, size={max(1, limit * 3 // 4)})"
        )
