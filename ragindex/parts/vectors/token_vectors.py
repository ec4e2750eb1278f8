"""Token vectors of the records of another part, for late interaction: compressed and memory-mapped."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ragindex._util import durable_files
from ragindex._util.canonical import digest
from ragindex._util.progress import progress_bar
from ragindex.encoders import local_models
from ragindex.encoders.vectors import PROBE
from ragindex.errors import DamagedError, UsageError
from ragindex.index import versioned_files
from ragindex.interfaces import (
    BuildContext,
    Collection,
    Encoder,
    Floats,
    Part,
    PartContext,
    ReadContext,
    Schema,
    SearchKind,
    TokenEncoder,
    Uses,
)
from ragindex.parts.records import (
    TOKENS,
    Doubles,
    Integers,
    count_record_tokens,
    encoded_fields,
    encoded_text,
    note_unread,
)
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors import quantized_tokens
from ragindex.parts.vectors.quantized_tokens import QuantizedRows, RecordRows
from ragindex.plugins.registry import PartField

SEGMENT_SCHEMA = Schema(stored=("segment", "digest"), numbers=("average", "start", "count", "tokens"))
"""Per record of `of`: the folder of its vectors, the row of their average, their first row, their number, a
hash of its text, and the number of its tokens, 0 if they were not counted.

`segment` is "" if the record has no vectors. So is the hash if its text could not be encoded, which the next `finish`
tries again.
"""
_BATCH = 256
"""Records encoded at once; a crash loses at most one such batch."""
_SMALL = 1 << 20
"""A segment with fewer rows is small; more than _MOST_SMALL of these are joined, so that few files are open."""
_MOST_SMALL = 8


class TokenVectors(Part["TokenIndex"]):
    """A vector for each token of the records of `of` (what `vectors` encodes, too), by the index's encoder.

    A vector takes one byte per dimension and four more. So does the average of a record's vectors, which
    finds candidates. Every text is encoded alone, so its vectors do not
    depend on other texts. `finish` finds changed records by comparing hashes of their texts, so `of` may be
    updated passage by passage or rebuilt as a whole.
    """

    version: ClassVar[int] = 4
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
    uses: ClassVar[Uses] = frozenset({"encoder"})
    finishes_changes: ClassVar[bool] = True
    of: PartField = Field(default=Passages(), description="Part whose records are encoded, token by token.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the part whose records are encoded."""
        return (self.of,)

    def finish(self, context: BuildContext) -> None:
        """Encode new and damaged records, delete the vectors of removed ones, and join small segments.

        Each batch is stored as soon as it is encoded, so after a crash only the remaining batches are
        encoded.
        """
        records, failed = context.collection("records", SEGMENT_SCHEMA), 0
        _delete_damaged(records, context)
        for rows in _find_changed(context.inputs[0], records):
            texts = rows.column("text").to_pylist()
            limited = "encoder" in self.uses and context.encoder.max_tokens is not None
            rows = rows.append_column(
                TOKENS,
                pa.array(count_record_tokens(texts, context.encoder) if limited else [0.0] * len(texts), pa.float64()),
            )
            vectors, failures = _encode_each(texts, self.coding(context))
            for row in failures:
                context.failed(rows.column("id")[row].as_py(), "the encoder gives NaN or infinity.")
            records.upsert(_write_segment(_forget_digests(rows, failures), vectors, context))
            failed += len(failures)
        stored_records = _read_stored_records(records)
        segments = _choose_segments(stored_records, context)
        if segments:
            records.upsert(_join_segments(stored_records, segments, context))
            stored_records = _read_stored_records(records)
        versioned_files.record_versions([name for name in stored_records.segments if name], context, "segments")
        if "encoder" in self.uses:
            note_unread(records, context)
        silent = int((stored_records.places.counts == 0).sum()) - failed
        if silent:
            context.note(
                f"{silent:,} of {len(stored_records.ids):,} records have no token that the encoder knows: "
                "nothing finds them."
            )

    def open(self, context: ReadContext) -> "TokenIndex":
        """Open the vectors of the sync that the reader is pinned to."""
        stored_records = _read_stored_records(context.collection("records"))
        files = tuple(
            quantized_tokens.load_rows(context.folder / name) if name else _EMPTY_ROWS
            for name in stored_records.segments
        )
        _require_inside(stored_records, files, context.folder)
        rows = {id: row for row, id in enumerate(stored_records.ids)}
        averages = quantized_tokens.gather_averages(files, stored_records.places, stored_records.averages)
        return TokenIndex(stored_records.ids, rows, files, stored_records.places, averages, self.coding(context))

    def coding(self, context: PartContext) -> local_models.TokenCoding:
        """Return the encoder that turns texts into token vectors.

        Raises UsageError if the index's encoder has no token vectors.
        """
        return _OfEncoder(context.encoder)


class MultiVectors(local_models.LocalModelPlugin, TokenVectors):
    """Token vectors by a late-interaction model of their own: a folder, or a name on the Hugging Face hub.

    Any model that sentence-transformers opens as a MultiVectorEncoder can be used, such as the ColBERT
    models. The model decides on prompts, maximum lengths and [MASK] tokens. `revision` is the hash of the
    files in a folder, computed if it is not given.
    """

    uses: ClassVar[Uses] = frozenset()
    model: str = Field(description="Late-interaction model: a folder, or a name on the Hugging Face hub.")

    def coding(self, context: PartContext) -> local_models.TokenCoding:
        """Return the model, loaded once per process."""
        return local_models.load_multi_vector_model(self.model, self.revision, self.device)


@dataclass(frozen=True, slots=True)
class _OfEncoder:
    """The token vectors of the index's encoder."""

    encoder: Encoder

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, TokenEncoder):
            raise UsageError(
                f"Token vectors need an encoder that gives them; {self.encoder.id} does not. Name another with "
                "--encoder (lsa, sentence-transformers:NAME), or write colbert(vectors=multi_vectors(model=NAME))."
            )

    def documents(self, texts: Sequence[str]) -> list[Floats]:
        """Return the vectors of each text, (tokens, dimensions), without special tokens."""
        assert isinstance(self.encoder, TokenEncoder)  # noqa: S101  # checked in __post_init__
        return [token.vectors for token in self.encoder.encode_tokens(texts)]

    def question(self, text: str) -> Floats:
        """Return the vectors of one text, (tokens, dimensions), without special tokens."""
        return self.documents([text])[0]


@dataclass(frozen=True, slots=True)
class TokenIndex:
    """An open part of token vectors: its records, sorted by id, and the location of their vectors. Thread-safe."""

    ids: tuple[str, ...]
    rows: Mapping[str, int]
    files: tuple[QuantizedRows, ...]
    places: RecordRows
    averages: QuantizedRows
    """The average vector of each record, in the order of `ids`; zero if the record has no tokens."""
    coding: local_models.TokenCoding

    def question(self, text: str) -> Floats:
        """Return the token vectors of a question, (tokens, dimensions)."""
        return self.coding.question(text)

    def scores(self, ids: Sequence[str], questions: Sequence[Floats]) -> Doubles:
        """Return the MaxSim scores of records and questions, (ids, questions).

        A score is minus infinity if the record or the question has no tokens. Raises UsageError for an
        unknown id.
        """
        chosen = self.places.take(self._rows(ids))
        return quantized_tokens.maxsim(
            self.files, chosen, [quantized_tokens.quantize_question(question) for question in questions]
        )

    def _rows(self, ids: Sequence[str]) -> Integers:
        unknown = next((id for id in ids if id not in self.rows), None)
        if unknown is not None:
            raise UsageError(f"There are no token vectors of {unknown!r}: name the part it is of, as `over`.")
        return np.array([self.rows[id] for id in ids], np.int64)

    def shortlist(self, question: Floats, count: int, among: Sequence[str] | None = None) -> list[str]:
        """Return the `count` records, of all or of those named, whose average vector is most similar to the question's.

        Records without tokens are left out; equal scores go by id. Raises UsageError for an unknown id.
        """
        if not len(question):
            return []
        rows = np.arange(len(self.ids)) if among is None else np.sort(self._rows(among))  # both in the order of ids
        rows = rows[self.places.counts[rows] > 0]
        zeros, ones = np.zeros(len(rows), np.int64), np.ones(len(rows), np.int64)
        quantized = quantized_tokens.quantize_question(question.sum(axis=0, keepdims=True))
        scores = quantized_tokens.maxsim([self.averages], RecordRows(zeros, rows, ones), [quantized])[:, 0]
        best = rows[np.argsort(-scores, kind="stable")[:count]]
        return [self.ids[row] for row in best.tolist()]

    def describe(self) -> Mapping[str, str | int | float]:
        """Return how searches are answered, for display."""
        return {"search": "exact, vectors of 8 bits, memory-mapped", "tokens": int(self.places.counts.sum())}


# ---------------------------------------------------------------- records


_ROWS = pa.schema([("id", pa.string()), ("text", pa.string()), ("digest", pa.string())])
_EMPTY_ROWS: QuantizedRows = np.empty((0, quantized_tokens.SCALE_BYTES), np.uint8)


@dataclass(frozen=True, slots=True)
class _StoredRecords:
    """All stored records, sorted by id; `places.files` are positions in `segments`, which are sorted names."""

    ids: tuple[str, ...]
    segments: tuple[str, ...]
    places: RecordRows
    averages: Integers
    """The row of each record's average in its segment."""


def _read_stored_records(records: Collection) -> _StoredRecords:
    numbers = ("average", "start", "count")
    types = [("id", pa.string()), ("segment", pa.string()), *((name, pa.float64()) for name in numbers)]
    table = pa.Table.from_batches(records.scan(("segment", *numbers)), pa.schema(types)).sort_by("id")
    segments = tuple(sorted(table.column("segment").unique().to_pylist()))
    number = pc.index_in(table.column("segment"), value_set=pa.array(segments, pa.string()))
    columns = (number, *(table.column(name) for name in numbers))
    files, averages, starts, counts = (column.to_numpy().astype(np.int64) for column in columns)
    return _StoredRecords(tuple(table.column("id").to_pylist()), segments, RecordRows(files, starts, counts), averages)


def _require_inside(records: _StoredRecords, files: Sequence[QuantizedRows], folder: Path) -> None:
    """Raise DamagedError unless the rows of each record are in its file."""
    places, lengths = records.places, np.array([len(file) for file in files], np.int64)
    row_counts = lengths[places.files] if len(lengths) else lengths
    inside = (places.counts > 0) & (places.starts >= 0) & (places.starts <= row_counts)
    inside &= (places.counts <= row_counts - places.starts) & (records.averages >= 0) & (records.averages < row_counts)
    inside |= places.counts == 0  # its numbers are not used
    if not inside.all():
        id = records.ids[int(np.argmin(inside))]
        hint = durable_files.repair_hint(folder.parents[1])
        raise DamagedError(f"The token vectors of {id!r} lie outside their file in {folder}. {hint}")


def _delete_damaged(records: Collection, context: BuildContext) -> None:
    """Delete the records whose segment is damaged, so that their texts are encoded again."""
    stored_records = _read_stored_records(records)
    find_damage = durable_files.find_named_folder_damage
    damaged = [bool(name) and find_damage(context.folder / name) is not None for name in stored_records.segments]
    records.delete(
        [
            stored_records.ids[row]
            for row in np.flatnonzero(np.array(damaged, bool)[stored_records.places.files]).tolist()
        ]
    )


def _find_changed(source: Collection, records: Collection) -> Iterator[pa.Table]:
    """Yield batches of the records of `source` whose text is new or has changed.

    Records that are no longer in `source` are deleted from `records` at the end.
    """
    known = {row["id"]: row["digest"] for batch in records.scan(("digest",)) for row in batch.to_pylist()}
    with progress_bar("token_vectors: encoding", source.count()) as advance:
        for batch in source.scan(encoded_fields(source)):
            rows = [(row["id"], encoded_text(row)) for row in batch.to_pylist()]
            described = [{"id": id, "text": text, "digest": digest(text)} for id, text in sorted(rows)]
            fresh = [row for row in described if known.pop(row["id"], None) != row["digest"]]
            advance(len(described) - len(fresh))
            for start in range(0, len(fresh), _BATCH):
                some = fresh[start : start + _BATCH]
                yield pa.Table.from_pylist(some, _ROWS)
                advance(len(some))
    records.delete(sorted(known))


def _encode_each(texts: Sequence[str], coding: local_models.TokenCoding) -> tuple[list[Floats], list[int]]:
    """Return the vectors of each text, and the positions of texts that alone have NaN or infinity, and so no vectors.

    Raises UsageError if the encoder is at fault, and not the texts.
    """
    vectors = coding.documents(texts)
    failures = [row for row, vector in enumerate(vectors) if not np.isfinite(vector).all()]
    if failures and len(failures) == len(texts):
        quantized_tokens.compress(coding.documents([PROBE])[0])
    nothing: Floats = np.empty((0, 0), np.float32)
    return [nothing if row in failures else vector for row, vector in enumerate(vectors)], failures


def _forget_digests(rows: pa.Table, failures: Sequence[int]) -> pa.Table:
    digests = rows.column("digest").to_pylist()
    remaining = ["" if row in failures else known for row, known in enumerate(digests)]
    return rows.set_column(rows.column_names.index("digest"), "digest", pa.array(remaining, pa.string()))


def _write_segment(rows: pa.Table, vectors: Sequence[Floats], context: BuildContext) -> pa.RecordBatch:
    """Write the vectors to a new segment, and return the records that point to it."""
    counts = np.array([len(vector) for vector in vectors], np.int64)
    name = ""
    if counts.any():
        pieces = (quantized_tokens.compress(vector) for vector in vectors if len(vector))
        dimensions = next(vector.shape[1] for vector in vectors if len(vector))
        name = quantized_tokens.save_rows(context.folder, pieces, counts[counts > 0], dimensions)
    return _build_records(rows, [name if count else "" for count in counts], counts)


def _build_records(rows: Any, names: Sequence[str], counts: Integers) -> pa.RecordBatch:
    """Return records whose vectors lie in their segment as `save_rows` writes them."""
    stored = counts > 0
    averages: Integers = np.cumsum(stored) - stored
    starts = stored.sum() + np.cumsum(counts) - counts
    numbers = (pa.array(column.astype(np.float64)) for column in (averages, starts, counts))
    columns = [rows.column("id"), pa.array(names, pa.string()), rows.column("digest"), *numbers, rows.column("tokens")]
    named = ["id", "segment", "digest", "average", "start", "count", "tokens"]
    return pa.table(columns, names=named).combine_chunks().to_batches()[0]


# ---------------------------------------------------------------- segments


def _choose_segments(records: _StoredRecords, context: BuildContext) -> list[int]:
    """Return the numbers of the segments to rewrite.

    These are the segments with less than half of their rows in use, and the small ones if there are many.
    """
    rows = records.places.counts + (records.places.counts > 0)  # vectors and their average
    live = np.bincount(records.places.files, rows, minlength=len(records.segments))
    stored = [number for number, name in enumerate(records.segments) if name]
    sizes = {number: len(quantized_tokens.load_rows(context.folder / records.segments[number])) for number in stored}
    small = [number for number in stored if live[number] < _SMALL]
    wasted = [number for number in stored if 2 * live[number] < sizes[number]]
    return sorted({*wasted, *(small if len(small) > _MOST_SMALL else ())})


def _join_segments(records: _StoredRecords, segments: Sequence[int], context: BuildContext) -> pa.RecordBatch:
    """Write the vectors of the given segments to one new segment, and return the records that point to it."""
    rows = np.flatnonzero(np.isin(records.places.files, segments))
    rows = rows[np.lexsort((records.places.starts[rows], records.places.files[rows]))]
    chosen = records.places.take(rows)
    files = {number: quantized_tokens.load_rows(context.folder / records.segments[number]) for number in segments}
    pieces = (
        files[file][start : start + count]
        for file, start, count in zip(*(c.tolist() for c in (chosen.files, chosen.starts, chosen.counts)), strict=True)
    )
    width = files[segments[0]].shape[1] - quantized_tokens.SCALE_BYTES
    name = quantized_tokens.save_rows(context.folder, pieces, chosen.counts, width)
    ids = [records.ids[row] for row in rows.tolist()]
    return _build_records(
        context.collection("records", SEGMENT_SCHEMA).get(ids, ("digest", "tokens")), [name] * len(ids), chosen.counts
    )
