"""Vectors of the records of another part, searched by cosine."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from ragindex.corpus import passage_text
from ragindex.filters import Filter, Terms
from ragindex.interfaces import BuildContext, Change, Collection, ForgettingEncoder, Part, ReadContext, Uses
from ragindex.parts.text.passages import Passages
from ragindex.plugins.registry import PartField
from ragindex.stores.large_strings import LARGE_STRING, widen


def has_vectors(part: Part[Any]) -> bool:
    """Whether the part says, with a class attribute `has_vectors = True`, that its collection is searched by vector."""
    return bool(getattr(type(part), "has_vectors", False))


def vectors_of(part: Part[Any]) -> Part[Any]:
    """What a search by vector over `part` opens: the part itself where it has vectors of its own, else its Vectors."""
    return part if has_vectors(part) else Vectors(of=part)


def _without_vectors(part: Part[Any]) -> Part[Any]:
    if has_vectors(part):
        raise ValueError("a part without vectors of its own")
    return part


class Vectors(Part[Collection]):
    """The records of `of` with the vector of title, newline, text. They carry all fields, so one search answers.

    A part whose records belong to several passages must be a SharingPart to stand under this one. One that is made
    whole, in `finish`, cannot: its records change where no passage does. It has vectors of its own (`vectors_of`).
    """

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"encoder"})
    has_vectors: ClassVar[bool] = True
    of: Annotated[PartField, AfterValidator(_without_vectors)] = Field(
        default=Passages(), description="Part whose records are encoded."
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """The part whose records are encoded."""
        return (self.of,)

    def apply(self, change: Change, context: BuildContext) -> None:
        """Encode the records that the batch's passages hold now, forget those they no longer hold."""
        source: Collection = context.inputs[0]
        records = _records(context)
        _forget(records, change.remove, context)
        if not change.upsert:
            return
        touched = Terms("passage_ids", tuple(change.upsert))
        now, held = (_sorted(of, source.fields(), touched) for of in (source, records))
        records.delete(held.filter(_among(held, now, invert=True)).column("id").to_pylist())
        changed = _changed(now, held)
        if len(changed):
            records.upsert(_encoded(changed, context))
        left = set(_texts(now))
        _let_go([text for text in _texts(held) if text not in left], context)

    @property
    def shares_records(self) -> bool:
        """Where the records of `of` do."""
        return bool(self.of.shares_records)

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> Iterable[str]:
        """Passages that share a record."""
        shared = _records(context).scan(("passage_ids",), Terms("passage_ids", tuple(ids)))
        return {id for batch in shared for id in batch.column("passage_ids").flatten().to_pylist()}

    def open(self, context: ReadContext) -> Collection:
        """The collection."""
        return context.collection("records")


def _records(context: BuildContext) -> Collection:
    return context.collection(
        "records", replace(context.inputs[0].schema, text=(), dimensions=context.encoder.dimensions)
    )


def _forget(records: Collection, removed: Sequence[str], context: BuildContext) -> None:
    """Remove every record that a removed passage shares; `of` touches the passages left, and they make it again."""
    if removed:
        shared = [*records.scan(("title", "text"), Terms("passage_ids", tuple(removed)))]
        records.delete(sorted({id for batch in shared for id in batch.column("id").to_pylist()}))
        _let_go([text for batch in shared for text in _texts(batch)], context)


def _let_go(texts: Sequence[str], context: BuildContext) -> None:
    """Their vectors need not be kept for this part."""
    if texts and isinstance(context.encoder, ForgettingEncoder):
        context.encoder.forget(texts)


def _texts(rows: pa.Table | pa.RecordBatch) -> list[str]:
    """What is encoded of each record."""
    pairs = zip(rows.column("title").to_pylist(), rows.column("text").to_pylist(), strict=True)
    return [passage_text(title, text) for title, text in pairs]


def _sorted(collection: Collection, fields: Sequence[str], where: Filter) -> pa.Table:
    """The records that pass, by id."""
    batches = list(collection.scan(fields, where))
    if not batches:
        return pa.table({name: pa.array([], LARGE_STRING) for name in ("id", *fields)})
    found = widen(pa.Table.from_batches(batches))
    return found.take(pc.sort_indices(found.column("id").combine_chunks()))


def _among(table: pa.Table, other: pa.Table, *, invert: bool = False) -> pa.ChunkedArray:
    found = pc.is_in(table.column("id"), other.column("id").combine_chunks())
    return pc.invert(found) if invert else found


def _changed(now: pa.Table, held: pa.Table) -> pa.Table:
    """The records of `now` that are not held as they are: a hub's many passages do not write it with every batch."""
    if not len(held):
        return now
    common, was = now.filter(_among(now, held)), held.filter(_among(held, now))
    if common.equals(was):
        return now.filter(_among(now, held, invert=True))
    before = {row["id"]: row for row in was.to_pylist()}
    return now.filter(pa.array([before.get(row["id"]) != row for row in now.to_pylist()], pa.bool_()))


def _encoded(table: pa.Table, context: BuildContext) -> pa.RecordBatch:
    vectors = context.encoder.encode_documents(_texts(table))
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return table.append_column("vector", column).combine_chunks().to_batches()[0]
