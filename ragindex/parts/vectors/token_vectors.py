"""Vectors of the tokens of another part's records, for late interaction: compressed, in files, mapped into memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from ragindex import durable_files
from ragindex.canonical import digest
from ragindex.corpus import passage_text
from ragindex.encoders import multi_vector
from ragindex.encoders.local_models import resolve_revision
from ragindex.errors import UsageError
from ragindex.interfaces import (
    BuildContext,
    Collection,
    Encoder,
    Floats,
    Part,
    PartContext,
    ReadContext,
    Schema,
    TokenEncoder,
    Uses,
)
from ragindex.parts.support.arrays import Doubles
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors import quantized_tokens
from ragindex.parts.vectors.quantized_tokens import QuantizedRows, RecordRows
from ragindex.plugins.registry import PartField
from ragindex.progress import progress_bar
from ragindex.workspace import versioned_files

SEGMENT_SCHEMA = Schema(stored=("segment", "digest"), numbers=("start", "count"))
"""A record of `of`: the folder its vectors lie in, the first row there and how many; the hash of its text.

Without any vector, `segment` is "".
"""
_BATCH = 256
"""Records encoded at once: what a crash can lose."""
_SMALL = 1 << 20
"""Rows below which a segment is small; more than so many small ones are joined, so that few files are open."""
_MOST_SMALL = 8


class TokenVectors(Part["TokenIndex"]):
    """A vector for each token of title, newline, text of the records of `of`, by the workspace's encoder.

    A number takes a byte, a vector four more. Every text is encoded alone, so that its vectors depend on nothing else.
    What has changed is seen by comparing texts, in `finish`: so `of` may follow passages, or be made whole.
    """

    version: ClassVar[int] = 2
    uses: ClassVar[Uses] = frozenset({"encoder"})
    finishes_changes: ClassVar[bool] = True
    of: PartField = Field(default=Passages(), description="Part whose records are encoded, token by token.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """The part whose records are encoded."""
        return (self.of,)

    def finish(self, context: BuildContext) -> None:
        """Encode what is new or damaged, forget what is gone, join small segments.

        Each batch is kept when it is encoded: after a crash only the rest is.
        """
        records = context.collection("records", SEGMENT_SCHEMA)
        _forget_damaged(records, context)
        for rows in _changed(context.inputs[0], records):
            records.upsert(_kept(rows, self.coding(context).documents(rows.column("text").to_pylist()), context))
        held = _held(records)
        doomed = _to_join(held, context)
        if doomed:
            records.upsert(_joined(held, doomed, context))
            held = _held(records)
        versioned_files.record_versions([name for name in held.segments if name], context, "segments")
        silent = int((held.places.counts == 0).sum())
        if silent:
            context.note(
                f"{silent:,} of {len(held.ids):,} records have no token that the encoder knows: nothing finds them."
            )

    def open(self, context: ReadContext) -> "TokenIndex":
        """The vectors of the sync that the reader is pinned to."""
        held = _held(context.collection("records"))
        files = tuple(quantized_tokens.load_rows(context.folder / name) if name else _NOTHING for name in held.segments)
        return TokenIndex(
            held.ids, {id: row for row, id in enumerate(held.ids)}, files, held.places, self.coding(context)
        )

    def coding(self, context: PartContext) -> multi_vector.TokenCoding:
        """How texts become token vectors. Raises UsageError where the encoder has none."""
        return _OfEncoder(context.encoder)


class MultiVectors(TokenVectors):
    """The same by a late-interaction model of its own: a folder, or a name on the Hugging Face hub.

    Any that sentence-transformers opens as a MultiVectorEncoder, as the ColBERT models. Prompts, longest inputs and
    [MASK] tokens are the model's. `revision` is the hash of a folder's files, filled in where it is not given.
    """

    argument: ClassVar[str] = "model"
    uses: ClassVar[Uses] = frozenset()
    model: str = Field(description="Late-interaction model: a folder, or a name on the Hugging Face hub.")
    revision: str = Field(default="", description="Hash of the model's files. Default: computed from the folder.")
    device: str = Field(default="cpu", description="Device that the model runs on, as cpu or cuda.")

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_files(cls, values: Any) -> Any:
        return resolve_revision(values)

    def coding(self, context: PartContext) -> multi_vector.TokenCoding:
        """The model, loaded once a process."""
        return multi_vector.load_multi_vector_model(self.model, self.revision, self.device)


@dataclass(frozen=True, slots=True)
class _OfEncoder:
    """The workspace's encoder, one text at a time: what a text is encoded with moves its vectors in the last digits."""

    encoder: Encoder

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, TokenEncoder):
            raise UsageError(
                f"Token vectors need an encoder that gives them; {self.encoder.id} does not. Name another with "
                "--encoder (lsa, sentence-transformers:NAME), or write colbert(vectors=multi_vectors(model=NAME))."
            )

    def documents(self, texts: Sequence[str]) -> list[Floats]:
        """(tokens, dimensions) each, without special tokens."""
        return [self.question(text) for text in texts]

    def question(self, text: str) -> Floats:
        """The same."""
        assert isinstance(self.encoder, TokenEncoder)  # noqa: S101  # looked at when this was made
        return self.encoder.encode_tokens([text])[0].vectors


@dataclass(frozen=True, slots=True)
class TokenIndex:
    """What the parts open to: records, sorted by id, and where their vectors lie. Thread-safe."""

    ids: tuple[str, ...]
    rows: Mapping[str, int]
    files: tuple[QuantizedRows, ...]
    places: RecordRows
    coding: multi_vector.TokenCoding

    def question(self, text: str) -> Floats:
        """The token vectors of a question, (tokens, dimensions)."""
        return self.coding.question(text)

    def scores(self, ids: Sequence[str], questions: Sequence[Floats]) -> Doubles:
        """MaxSim of records and questions, (ids, questions); minus infinity where one of them has no tokens.

        Raises UsageError for an id that is not there.
        """
        unknown = next((id for id in ids if id not in self.rows), None)
        if unknown is not None:
            raise UsageError(f"There are no token vectors of {unknown!r}: name the part it is of, as `over`.")
        chosen = self.places.take(np.array([self.rows[id] for id in ids], np.int64))
        return quantized_tokens.maxsim(
            self.files, chosen, [quantized_tokens.quantize_question(one) for one in questions]
        )

    def describe(self) -> Mapping[str, str | int | float]:
        """How searches are answered."""
        return {"search": "exact, vectors of 8 bits, memory-mapped", "tokens": int(self.places.counts.sum())}


# ---------------------------------------------------------------- records


_ROWS = pa.schema([("id", pa.string()), ("text", pa.string()), ("digest", pa.string())])
_NOTHING: QuantizedRows = np.empty((0, quantized_tokens.SCALE_BYTES), np.uint8)


@dataclass(frozen=True, slots=True)
class _Held:
    """All records, sorted by id; `places.files` are numbers of `segments`, sorted names."""

    ids: tuple[str, ...]
    segments: tuple[str, ...]
    places: RecordRows


def _held(records: Collection) -> _Held:
    fields = ("segment", "start", "count")
    types = [("id", pa.string()), ("segment", pa.string()), ("start", pa.float64()), ("count", pa.float64())]
    table = pa.Table.from_batches(records.scan(fields), pa.schema(types)).sort_by("id")
    segments = tuple(sorted(table.column("segment").unique().to_pylist()))
    number = pc.index_in(table.column("segment"), value_set=pa.array(segments, pa.string()))
    files, starts, counts = (
        column.to_numpy().astype(np.int64) for column in (number, table.column("start"), table.column("count"))
    )
    return _Held(tuple(table.column("id").to_pylist()), segments, RecordRows(files, starts, counts))


def _forget_damaged(records: Collection, context: BuildContext) -> None:
    """Forget the records whose vectors are not as they were written: their texts are encoded again."""
    held = _held(records)
    find_damage = durable_files.find_named_folder_damage
    damaged = [bool(name) and find_damage(context.folder / name) is not None for name in held.segments]
    records.delete([held.ids[row] for row in np.flatnonzero(np.array(damaged, bool)[held.places.files]).tolist()])


def _changed(source: Collection, records: Collection) -> Iterator[pa.Table]:
    """The records of `source` whose text is not that of `records`, a batch at a time; what is gone is removed."""
    known = {row["id"]: row["digest"] for batch in records.scan(("digest",)) for row in batch.to_pylist()}
    with progress_bar("token_vectors: encoding", source.count()) as advance:
        for batch in source.scan(("title", "text")):
            rows = [(row["id"], passage_text(row["title"], row["text"])) for row in batch.to_pylist()]
            told = [{"id": id, "text": text, "digest": digest(text)} for id, text in sorted(rows)]
            fresh = [row for row in told if known.pop(row["id"], None) != row["digest"]]
            advance(len(told) - len(fresh))
            for start in range(0, len(fresh), _BATCH):
                some = fresh[start : start + _BATCH]
                yield pa.Table.from_pylist(some, _ROWS)
                advance(len(some))
    records.delete(sorted(known))


def _kept(rows: pa.Table, vectors: Sequence[Floats], context: BuildContext) -> pa.RecordBatch:
    """Write the vectors to a segment; its records."""
    counts = np.array([len(one) for one in vectors], np.int64)
    name = ""
    if counts.any():
        pieces = (quantized_tokens.compress(one) for one in vectors if len(one))
        dimensions = next(one.shape[1] for one in vectors if len(one))
        name = quantized_tokens.save_rows(context.folder, pieces, int(counts.sum()), dimensions)
    return _records(rows, [name if count else "" for count in counts], counts)


def _records(rows: Any, names: Sequence[str], counts: Any) -> pa.RecordBatch:
    """Records whose vectors lie one after the other, from row 0 on."""
    starts = np.cumsum(counts) - counts
    numbers = (pa.array(column.astype(np.float64)) for column in (starts, counts))
    columns = [rows.column("id"), pa.array(names, pa.string()), rows.column("digest"), *numbers]
    named = ["id", "segment", "digest", "start", "count"]
    return pa.table(columns, names=named).combine_chunks().to_batches()[0]


# ---------------------------------------------------------------- segments


def _to_join(held: _Held, context: BuildContext) -> list[int]:
    """The numbers of segments that are to be written anew: those half of which nobody holds, and many small ones."""
    live = np.bincount(held.places.files, held.places.counts, minlength=len(held.segments))
    named = [number for number, name in enumerate(held.segments) if name]
    written = {number: len(quantized_tokens.load_rows(context.folder / held.segments[number])) for number in named}
    small = [number for number in named if live[number] < _SMALL]
    wasted = [number for number in named if 2 * live[number] < written[number]]
    return sorted({*wasted, *(small if len(small) > _MOST_SMALL else ())})


def _joined(held: _Held, doomed: Sequence[int], context: BuildContext) -> pa.RecordBatch:
    """Write the vectors of the segments `doomed` to one; its records."""
    rows = np.flatnonzero(np.isin(held.places.files, doomed))
    rows = rows[np.lexsort((held.places.starts[rows], held.places.files[rows]))]
    chosen = held.places.take(rows)
    files = {number: quantized_tokens.load_rows(context.folder / held.segments[number]) for number in doomed}
    pieces = (
        files[file][start : start + count]
        for file, start, count in zip(*(c.tolist() for c in (chosen.files, chosen.starts, chosen.counts)), strict=True)
    )
    width = files[doomed[0]].shape[1] - quantized_tokens.SCALE_BYTES
    name = quantized_tokens.save_rows(context.folder, pieces, int(chosen.counts.sum()), width)
    ids = [held.ids[row] for row in rows.tolist()]
    return _records(
        context.collection("records", SEGMENT_SCHEMA).get(ids, ("digest",)), [name] * len(ids), chosen.counts
    )
