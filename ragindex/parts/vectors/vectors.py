"""Vectors of the records of another part, searched by cosine."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from ragindex.filters import Filter, Ids, Overlaps
from ragindex.interfaces import BuildContext, Change, Collection, Floats, Part, ReadContext, SearchKind, Uses
from ragindex.parts.records import count_record_tokens, encoded_fields, encoded_text, note_unread, token_fields
from ragindex.parts.text.passages import Passages
from ragindex.plugins.registry import PartField
from ragindex.stores.records import LARGE_STRING, widen


def has_vectors(part: Part[Any]) -> bool:
    """Return True if the part states, by a class attribute `has_vectors = True`, that its collection has vectors."""
    return bool(getattr(type(part), "has_vectors", False))


def vectors_of(part: Part[Any]) -> Part[Any]:
    """Return the part to open for a vector search over `part`: the part itself if it has vectors, else its Vectors."""
    return part if has_vectors(part) else Vectors(of=part)


def _check_without_vectors(part: Part[Any]) -> Part[Any]:
    if has_vectors(part):
        raise ValueError("a part without vectors of its own")
    return part


class Vectors(Part[Collection]):
    """The records of `of`, each with the vector of "title, newline, text" (or of another context of passages).

    The records carry all fields of `of`, so one search answers a question. Where the encoder cuts long texts off, they
    have the number of their `tokens`, too. A part whose records belong to
    several passages must report them (`shares_records`, `passages_sharing_with`). A part that is rebuilt as a
    whole in `finish` cannot be used here, because its records change without a change of their passages; it
    has vectors of its own (`vectors_of`).
    """

    version: ClassVar[int] = 2
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset({"vectors"})
    uses: ClassVar[Uses] = frozenset({"encoder"})
    caches_costs: ClassVar[bool] = True
    has_vectors: ClassVar[bool] = True
    of: Annotated[PartField, AfterValidator(_check_without_vectors)] = Field(
        default=Passages(), description="Part whose records are encoded."
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the part whose records are encoded."""
        return (self.of,)

    def apply(self, change: Change, context: BuildContext) -> None:
        """Encode the current records of the batch's passages, and delete the records that they no longer have."""
        source: Collection = context.inputs[0]
        records = _open_records(context)
        if change.remove:  # records shared with other passages are made again: `of` reports these as changed
            fields = (*encoded_fields(records), *(("vector",) if context.encoder.takes_vectors else ()))
            shared = [*records.scan(fields, Overlaps("passage_ids", tuple(change.remove)))]
            records.delete(sorted({id for batch in shared for id in batch.column("id").to_pylist()}))
            for batch in shared:
                _forget_cached(_read_texts(batch), context, _read_vectors(batch) if "vector" in fields else None)
        if not change.upsert:
            return
        touched = Overlaps("passage_ids", tuple(change.upsert))
        now = _scan_sorted(source, source.fields(), touched)
        if change.fresh and not self.shares_records:
            if len(now):
                _encode(now, tuple(change.upsert), records, context)
            return
        stored = _scan_sorted(records, source.fields(), touched)
        changed = _find_changed(now, stored)
        _offer_vectors(changed, stored, records, context)
        records.delete(stored.filter(_match_ids(stored, now, invert=True)).column("id").to_pylist())
        if len(changed):
            _encode(changed, tuple(change.upsert), records, context)
        left = set(_read_texts(now))
        _forget_cached([text for text in _read_texts(stored) if text not in left], context)

    def list_texts(self, ids: Sequence[str], context: BuildContext) -> Sequence[str]:
        """Return the texts of the records of passages."""
        source: Collection = context.inputs[0]
        rows = source.scan(encoded_fields(source), Overlaps("passage_ids", tuple(ids)))
        return [text for batch in rows for text in _read_texts(batch)]

    def finish(self, context: BuildContext) -> None:
        """Note how much of the texts the encoder does not read."""
        note_unread(_open_records(context), context)

    @property
    def shares_records(self) -> bool:
        """Return True if records of `of` can belong to several passages."""
        return bool(self.of.shares_records)

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> Iterable[str]:
        """Return the passages that share a record with one of the passages `ids`."""
        shared = _open_records(context).scan(("passage_ids",), Overlaps("passage_ids", tuple(ids)))
        return {id for batch in shared for id in batch.column("passage_ids").flatten().to_pylist()}

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of records with vectors."""
        return context.collection("records")


def _open_records(context: BuildContext) -> Collection:
    schema = context.inputs[0].schema
    numbers = (*schema.numbers, *token_fields(context.encoder))
    return context.collection(
        "records", replace(schema, text=(), numbers=numbers, dimensions=context.encoder.dimensions)
    )


def _offer_vectors(changed: pa.Table, stored: pa.Table, records: Collection, context: BuildContext) -> None:
    """Give the encoder's cache the vectors of stored records whose texts are encoded again: other fields changed."""
    if not context.encoder.takes_vectors or not len(stored):
        return
    texts = set(_read_texts(changed))
    ids = {id for id, text in zip(stored.column("id").to_pylist(), _read_texts(stored), strict=True) if text in texts}
    if ids:  # scanned, as memory may hold them in 16 bits
        for batch in records.scan((*encoded_fields(records), "vector"), Ids(tuple(sorted(ids)))):
            _forget_cached(_read_texts(batch), context, _read_vectors(batch))


def _forget_cached(texts: Sequence[str], context: BuildContext, vectors: Floats | None = None) -> None:
    """Let the encoder's cache drop the vectors of `texts`: this part no longer needs them."""
    if texts:
        context.encoder.forget(texts, vectors)


def _read_vectors(rows: pa.RecordBatch) -> Floats:
    numbers = rows.column("vector").flatten().to_numpy(zero_copy_only=False)
    vectors: Floats = numbers.reshape(len(rows), -1).astype(np.float32, copy=False)
    return vectors


def _read_texts(rows: pa.Table | pa.RecordBatch) -> list[str]:
    """Return the text of each record that is encoded."""
    names = [name for name in ("context", "title", "text") if name in rows.schema.names]
    return [encoded_text(record) for record in rows.select(names).to_pylist()]


def _scan_sorted(collection: Collection, fields: Sequence[str], where: Filter) -> pa.Table:
    """Return the records that pass the filter, sorted by id."""
    batches = list(collection.scan(fields, where))
    if not batches:
        return pa.table({name: pa.array([], LARGE_STRING) for name in ("id", *fields)})
    scanned = widen(pa.Table.from_batches(batches))
    return scanned.take(pc.sort_indices(scanned.column("id").combine_chunks()))


def _match_ids(table: pa.Table, other: pa.Table, *, invert: bool = False) -> pa.ChunkedArray:
    matching = pc.is_in(table.column("id"), other.column("id").combine_chunks())
    return pc.invert(matching) if invert else matching


def _find_changed(now: pa.Table, stored: pa.Table) -> pa.Table:
    """Return the records of `now` that differ from `stored`.

    A record of many passages is thus not written again with each of their batches.
    """
    if not len(stored):
        return now
    common, was = now.filter(_match_ids(now, stored)), stored.filter(_match_ids(stored, now))
    if common.equals(was):
        return now.filter(_match_ids(now, stored, invert=True))
    before = {row["id"]: row for row in was.to_pylist()}
    return now.filter(pa.array([before.get(row["id"]) != row for row in now.to_pylist()], pa.bool_()))


def _encode(table: pa.Table, passages: Sequence[str], records: Collection, context: BuildContext) -> None:
    """Write records with their vectors; those without one are deleted, and fail those of `passages` they belong to."""
    texts = _read_texts(table)
    vectors, failures = context.encoder.encode_each(texts)
    for name in token_fields(context.encoder):
        table = table.append_column(name, pa.array(count_record_tokens(texts, context.encoder), pa.float64()))
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    table = table.append_column("vector", column)
    failed = pa.array([row in failures for row in range(len(texts))], pa.bool_())
    for batch in table.filter(pc.invert(failed)).combine_chunks().to_batches():
        records.upsert(batch)
    lost = table.select(["id", "passage_ids"]).filter(failed).to_pylist()
    records.delete([row["id"] for row in lost])
    for row, failure in zip(lost, failures.values(), strict=True):
        for passage in set(row["passage_ids"]).intersection(passages):
            context.failed(passage, failure.reason)
