"""Passages with the triples extracted from them (GRIEVER), searched as passages and filtered by their entities."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field

from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, Schema, SearchKind
from ragindex.parts.records import TEXTS
from ragindex.parts.text.passages import Passages
from ragindex.parts.triples.triple_json import from_json, to_json
from ragindex.parts.triples.triples import Triples
from ragindex.plugins.registry import PartField, of_class

_BLOCK = 1024


class TriplePassages(Part[Collection]):
    """The records of `of` with the fields `triples` (JSON, without duplicates), `subjects` and `objects`.

    `subjects` and `objects` are sorted entity keys as `over` makes them. A passage whose extraction failed is
    included without triples (`extracted` 0), so text search finds it. It is not part of the changes that parts
    over this one receive, so it has no vector.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset({"text", "vectors"})
    of: Annotated[PartField, of_class(Passages)] = Field(default=Passages(), description="Passages.")
    over: Annotated[PartField, of_class(Triples)] = Field(
        default=Triples(), description="Triples that are added to the passages that state them."
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the passages, and the extractions, which are looked up by passage id."""
        return (self.of, self.over.of)

    def apply(self, change: Change, context: BuildContext) -> None:
        """Replace the records of the batch."""
        records, extractions = _open_records(context), context.inputs[1]
        records.delete(change.remove)
        extracted = extractions.get(list(change.upsert), ("triples",))
        self._write(extracted.column("id").to_pylist(), extracted.column("triples").to_pylist(), 1.0, context)

    def finish(self, context: BuildContext) -> None:
        """Write the passages whose extraction failed, since no batch contains them."""
        records, (passages, _) = _open_records(context), context.inputs
        extracted = {row["id"]: row["extracted"] for batch in records.scan(("extracted",)) for row in batch.to_pylist()}
        ids = {id for batch in passages.scan(()) for id in batch.column("id").to_pylist()}
        records.delete(sorted(extracted.keys() - ids))
        failed = sorted(id for id in ids if not extracted.get(id))
        for start in range(0, len(failed), _BLOCK):
            block = failed[start : start + _BLOCK]
            self._write(block, ["[]"] * len(block), 0.0, context)

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of passages with triples."""
        return context.collection("records")

    def _write(self, ids: Sequence[str], triples: Sequence[str], extracted: float, context: BuildContext) -> None:
        passages: Collection = context.inputs[0]
        stored = passages.get(ids, passages.fields())
        if not len(stored):
            return
        by_id = {id: dict.fromkeys(from_json(text)) for id, text in zip(ids, triples, strict=True)}
        rows = [by_id[id] for id in stored.column("id").to_pylist()]
        columns = {
            "triples": pa.array([to_json(list(row)) for row in rows], pa.string()),
            "subjects": pa.array([sorted({self.over.key(triple.subject) for triple in row}) for row in rows], TEXTS),
            "objects": pa.array([sorted({self.over.key(triple.object) for triple in row}) for row in rows], TEXTS),
            "extracted": pa.array([extracted] * len(rows), pa.float64()),
        }
        _open_records(context).upsert(
            pa.RecordBatch.from_arrays([*stored.columns, *columns.values()], names=[*stored.schema.names, *columns])
        )


def _open_records(context: BuildContext) -> Collection:
    passages: Schema = context.inputs[0].schema
    return context.collection(
        "records",
        replace(
            passages,
            stored=(*passages.stored, "triples"),
            keywords=(*passages.keywords, "subjects", "objects"),
            numbers=("extracted",),
        ),
    )
