"""Partial triples (GRIEVER): an entity with a predicate, and the entities at the other end."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ragindex._util.canonical import digest
from ragindex.filters import Filter, Ids, Overlaps, Terms
from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, Schema, SearchKind
from ragindex.parts.records import TEXTS, large_text
from ragindex.parts.triples.triple_json import from_json
from ragindex.parts.triples.triples import Triples
from ragindex.plugins.registry import PartField, of_class
from ragindex.retrieval.hits import KEYWORD_FIELDS, STORED_FIELDS, build_filter_fields, text_search_schema
from ragindex.types import Metadata

_MARK_SCHEMA = Schema(stored=("key",))
"""Schema of one record per partial triple to rebuild, with its entity key; or of one record for all."""
_ALL_MARK = "*"
_MOST_TERMS = 2_000
"""Number of values above which a scan of all records is faster than a filter."""
_BLOCK = 8192  # triples per block of records that are built together


def partial_id(entity_key: str, predicate: str, inverse: bool, passage_id: str | None = None) -> str:
    """Return the id of a partial triple, within one passage if `passage_id` is given.

    `entity_key` is the key of the object if `inverse`, else of the subject.
    """
    own = digest([entity_key, predicate, inverse])
    return own if passage_id is None else f"{passage_id}#{own}"


def _strip_passage(id: str) -> str:
    """Return the id that a partial triple has with `scope=corpus`."""
    return id.rpartition("#")[2]


class PartialTriples(Part[Collection]):
    """One record per entity, predicate and direction, over the corpus or per passage (`scope`; reading V1).

    The `text` of a direct record is subject and predicate. That of an inverse record (`in_inverse` 1) is
    predicate and object. Names are as written; of several spellings the most frequent counts, then the first.
    `subject` is the key (`Triples.key`) of the record's entity, even if that is the object of the triple.
    `objects` are the sorted keys of the other ends. `frequency` counts the triples of the corpus with the
    partial triple, for either scope. Only records that new or removed triples affect are rebuilt.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset({"text", "vectors"})
    finishes_changes: ClassVar[bool] = True
    over: Annotated[PartField, of_class(Triples)] = Field(default=Triples(), description="Triples to take apart.")
    scope: Literal["corpus", "passage"] = Field(
        default="corpus", description="One record per partial triple of the corpus, or of each passage (V1)."
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the triples, and their extractions, which are looked up by passage id."""
        return (self.over, self.over.of)

    @property
    def shares_records(self) -> bool:
        """Return True: even with `scope=passage` a record counts the triples of the whole corpus."""
        return True

    def passages_sharing_with(self, ids: Sequence[str], context: BuildContext) -> Iterable[str]:
        """Return the passages of the records that the batch will change.

        Passages of marked records were returned for an earlier batch.
        """
        records, marks = self._collections(context)
        if _is_new(records, marks):
            return ()
        partials = self._partials(ids, context)
        marked = set(marks.get(list(partials), ()).column("id").to_pylist())
        return self._holders({id: key for id, key in partials.items() if id not in marked}, context)

    def apply(self, change: Change, context: BuildContext) -> None:
        """Mark the partial triples that the batch's passages hold or held.

        Marking rebuilds a hub once per sync, not once per batch.
        """
        records, marks = self._collections(context)
        new = _is_new(records, marks)
        partials = {_ALL_MARK: ""} if new else self._partials([*change.upsert, *change.remove], context)
        if partials:
            columns = [pa.array(values, pa.string()) for values in (list(partials), list(partials.values()))]
            marks.upsert(pa.RecordBatch.from_arrays(columns, names=["id", "key"]))

    def finish(self, context: BuildContext) -> None:
        """Rebuild the marked records from the current triples. It can be repeated after an interruption."""
        records, marks = self._collections(context)
        marked = {row["id"]: row["key"] for batch in marks.scan(("key",)) for row in batch.to_pylist()}
        changed_keys = None if _ALL_MARK in marked else marked
        where = None if changed_keys is None else self._among(changed_keys)
        ids = (id for batch in records.scan((), where) for id in batch.column("id").to_pylist())
        stale = {id for id in ids if changed_keys is None or _strip_passage(id) in changed_keys}
        if marked:
            for batch in _build_partials(context.inputs[0], self, changed_keys):
                records.upsert(batch)
                stale.difference_update(batch.column("id").to_pylist())
        records.delete(sorted(stale))
        marks.delete(sorted(marked))

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of partial triples."""
        return context.collection("records")

    def _collections(self, context: BuildContext) -> tuple[Collection, Collection]:
        stored, keywords = (*STORED_FIELDS, "predicate"), (*KEYWORD_FIELDS, "subject", "objects")
        schema = replace(
            text_search_schema(context.language), stored=stored, keywords=keywords, numbers=("in_inverse", "frequency")
        )
        return context.collection("records", schema), context.collection("marks", _MARK_SCHEMA)

    def _partials(self, ids: Sequence[str], context: BuildContext) -> dict[str, str]:
        """Return the entity keys of the partial triples that the passages hold, by corpus-wide id.

        These are the partial triples at the last `finish` and those of the current extractions.
        """
        batches = self._collections(context)[0].scan(("subject",), Overlaps("passage_ids", tuple(ids)))
        partials = {_strip_passage(row["id"]): row["subject"][0] for batch in batches for row in batch.to_pylist()}
        rows = context.inputs[1].get(list(ids), ("triples",)).to_pylist()
        for triple in {triple for row in rows for triple in from_json(row["triples"])}:
            for name, inverse in ((triple.subject, False), (triple.object, True)):
                key = self.over.key(name)
                partials[partial_id(key, triple.predicate, inverse)] = key
        return partials

    def _holders(self, partials: Mapping[str, str], context: BuildContext) -> set[str]:
        """Return the passages of the records of these partial triples."""
        holders: set[str] = set()
        for batch in self._collections(context)[0].scan(("passage_ids",), self._among(partials)):
            own = pa.array([_strip_passage(id) in partials for id in batch.column("id").to_pylist()], pa.bool_())
            holders.update(batch.filter(own).column("passage_ids").flatten().unique().to_pylist())
        return holders

    def _among(self, partials: Mapping[str, str]) -> Filter | None:
        """Return a filter that passes the records of these partial triples, and possibly others."""
        if self.scope == "corpus":
            return Ids(tuple(partials)) if len(partials) <= _MOST_TERMS else None
        return _filter_by_key("subject", partials)


def _is_new(records: Collection, marks: Collection) -> bool:
    """Return whether all records have to be built.

    Then no record is marked on its own, and no sharing passages are looked for.
    """
    return not records.count() or len(marks.get([_ALL_MARK], ())) > 0


def _filter_by_key(field: str, partials: Mapping[str, str]) -> Filter | None:
    keys = tuple(dict.fromkeys(partials.values()))
    return Terms(field, keys) if len(keys) <= _MOST_TERMS else None


# ---------------------------------------------------------------- building records from triples


@dataclass(frozen=True, slots=True)
class _Partial:
    id: str
    text: str
    predicate: str
    entity: str
    inverse: bool
    objects: list[str]
    passage_ids: list[str]
    doc_ids: list[str]
    frequency: int


def _build_partials(
    triples: Collection, part: PartialTriples, owners: Mapping[str, str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the partial triples in `owners` (by corpus-wide id); of all if None."""
    table, documents = _read_triples(triples, None if owners is None else _filter_by_key("entity_keys", owners))
    keys = None if owners is None else pa.array(sorted(set(owners.values())), pa.string())
    for inverse in (False, True):
        for block in _split_blocks(table, inverse, keys):
            partials = [
                row
                for (entity, predicate), rows in groupby(block.to_pylist(), itemgetter("entity", "predicate"))
                if owners is None or partial_id(entity, predicate, inverse) in owners
                for row in _merge_rows(entity, predicate, inverse, list(rows), part.scope)
            ]
            if partials:
                known = [{id: documents[id] for id in partial.doc_ids if documents[id]} for partial in partials]
                columns = {
                    "id": pa.array([partial.id for partial in partials], pa.string()),
                    "kind": pa.array(["partial_triple"] * len(partials), pa.string()),
                    "title": pa.array([""] * len(partials), pa.string()),
                    "text": pa.array([partial.text for partial in partials], pa.string()),
                    "metadata": pa.array(
                        [json.dumps(metadata, ensure_ascii=False) if metadata else "" for metadata in known],
                        pa.string(),
                    ),
                    "predicate": pa.array([partial.predicate for partial in partials], pa.string()),
                    "passage_ids": pa.array([partial.passage_ids for partial in partials], TEXTS),
                    "doc_ids": pa.array([partial.doc_ids for partial in partials], TEXTS),
                    "subject": pa.array([[partial.entity] for partial in partials], TEXTS),
                    "objects": pa.array([partial.objects for partial in partials], TEXTS),
                    "in_inverse": pa.array([float(partial.inverse) for partial in partials], pa.float64()),
                    "frequency": pa.array([float(partial.frequency) for partial in partials], pa.float64()),
                    **build_filter_fields([documents[id] for id in partial.doc_ids] for partial in partials),
                }
                yield pa.record_batch(columns)


def _read_triples(triples: Collection, where: Filter | None) -> tuple[pa.Table, dict[str, Metadata]]:
    """Return the columns of `_COLUMNS`, and the metadata of each document by id."""
    batches: list[pa.RecordBatch] = []
    documents: dict[str, str] = {}
    for batch in triples.scan((*_TEXT_FIELDS, *_LIST_FIELDS, "metadata"), where):
        flat = [batch.column(name).flatten() for name in _LIST_FIELDS]
        texts = [batch.column(name) for name in _TEXT_FIELDS]
        batches.append(pa.RecordBatch.from_arrays([*texts, *flat], names=_COLUMNS.names))
        documents.update(zip(flat[-1].to_pylist(), batch.column("metadata").to_pylist(), strict=True))
    metadata = {id: json.loads(text)[id] if text else {} for id, text in documents.items()}
    return pa.Table.from_batches(batches, _COLUMNS), metadata


_TEXT_FIELDS = ("subject", "predicate", "object")
_LIST_FIELDS = ("subject_key", "object_key", "passage_ids", "doc_ids")
_COLUMNS = pa.schema([(name, pa.string()) for name in (*_TEXT_FIELDS, *_LIST_FIELDS)])


def _split_blocks(triples: pa.Table, inverse: bool, keys: pa.Array | None) -> Iterator[pa.Table]:
    """Yield blocks of triples seen from one side, only those with an entity in `keys` if given.

    All triples of one partial triple are in the same block.
    """
    own, other = ("object", "subject") if inverse else ("subject", "object")
    names = {"entity": f"{own}_key", "predicate": "predicate", "surface": own, "object": f"{other}_key"}
    table = triples.select([*names.values(), *_LIST_FIELDS[2:]]).rename_columns([*names, "passage_id", "doc_id"])
    if keys is not None:
        table = table.filter(pc.is_in(table.column("entity"), value_set=keys))
    codes = [large_text(table.column(name).chunks).dictionary_encode().indices for name in ("entity", "predicate")]
    entity, predicate = (column.to_numpy().astype(np.int64) for column in codes)
    pairs = entity * (predicate.max(initial=0) + 1) + predicate
    order = np.argsort(pairs, kind="stable")
    starts = np.flatnonzero(np.diff(pairs[order], prepend=-1))
    cuts = starts[np.diff(starts // _BLOCK, prepend=0) > 0]
    table = table.combine_chunks()  # `take` copies whole columns if they have several chunks
    for rows in np.split(order, cuts):
        yield table.take(pa.array(rows))


def _merge_rows(
    entity: str, predicate: str, inverse: bool, rows: Sequence[Mapping[str, str]], scope: str
) -> Iterator[_Partial]:
    """Yield the records of one partial triple from `rows`, all triples of the corpus that have it."""
    by_passage: dict[str | None, list[Mapping[str, str]]] = {}
    for row in rows:
        by_passage.setdefault(row["passage_id"] if scope == "passage" else None, []).append(row)
    for passage_id, own in by_passage.items():
        spelt = Counter(row["surface"] for row in own)
        surface = min(spelt, key=lambda name: (-spelt[name], name))
        yield _Partial(
            partial_id(entity, predicate, inverse, passage_id),
            f"{predicate} {surface}" if inverse else f"{surface} {predicate}",
            predicate,
            entity,
            inverse,
            sorted({row["object"] for row in own}),
            sorted({row["passage_id"] for row in own}),
            sorted({row["doc_id"] for row in own}),
            len(rows),
        )
