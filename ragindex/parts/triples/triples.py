"""Triples of the corpus, searched by text and looked up by entity."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import pyarrow as pa
import regex
from pydantic import Field, field_validator

from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, SearchKind
from ragindex.parts.records import TEXTS, find_record_ids, split_by_size, unit_columns
from ragindex.parts.triples.extractions import Extractions
from ragindex.parts.triples.triple_json import from_json
from ragindex.plugins.registry import PartField
from ragindex.retrieval.hits import KEYWORD_FIELDS, STORED_FIELDS, text_search_schema
from ragindex.types import Triple

_SIDES = ("{subject}", "{predicate}", "{object}")
_PLACEHOLDER = regex.compile("|".join(map(regex.escape, _SIDES)))
KEYS = ("subject_key", "object_key", "entity_keys")


class Triples(Part[Collection]):
    """One record per triple and passage: the same triple in two passages is two records (reading G1).

    The text is made by `template`, which names subject, predicate and object (reading G4). The fields
    `subject_key`, `object_key` and `entity_keys` (both) are for exact look-up. `entity_key` decides when two
    names are the same entity: if the texts are equal (exact), or equal in folded case with single spaces
    (casefold; reading G3).
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset({"text", "vectors"})
    of: PartField = Field(default=Extractions(), description="Extractions that the triples are read from.")
    entity_key: Literal["exact", "casefold"] = Field(
        default="exact",
        description="When two names are one entity: equal, or equal in folded case with single spaces (G3).",
    )
    template: str = Field(
        default="{subject} {predicate} {object}",
        description="Text of a triple, with {subject}, {predicate} and {object} (G4).",
    )

    @field_validator("template")
    @classmethod
    def _names_all(cls, template: str) -> str:
        if not all(side in template for side in _SIDES):
            raise ValueError(f"a text with {', '.join(_SIDES)}")
        return template

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the extractions."""
        return (self.of,)

    def key(self, name: str) -> str:
        """Return the key that all names of an entity share."""
        return name if self.entity_key == "exact" else " ".join(name.casefold().split())

    def text(self, triple: Triple) -> str:
        """Return the text of a triple, as it is indexed, linked and encoded everywhere."""
        values = {"{subject}": triple.subject, "{predicate}": triple.predicate, "{object}": triple.object}
        return _PLACEHOLDER.sub(
            lambda match: values[match[0]], self.template
        )  # one pass, because names may contain braces

    def apply(self, change: Change, context: BuildContext) -> None:
        """Replace the triples of the batch's passages. Idempotent: ids are made of passage and position."""
        schema = replace(
            text_search_schema(context.language),
            stored=(*STORED_FIELDS, "subject", "predicate", "object"),
            keywords=(*KEYWORD_FIELDS, *KEYS),
        )
        records = context.collection("records", schema)
        records.delete(find_record_ids(records, [*change.remove, *change.upsert]))
        extractions: Collection = context.inputs[0]
        rows_read = extractions.get(list(change.upsert), ("triples",)).to_pylist()
        triples = [(row["id"], some) for row in rows_read if (some := tuple(dict.fromkeys(from_json(row["triples"]))))]
        if triples:
            passages = {passage["id"]: passage for passage in context.passages(list(change.upsert)).to_pylist()}
            for start, stop in split_by_size([len(some) * len(passages[id]["metadata"]) for id, some in triples]):
                block = [(id, triple) for id, some in triples[start:stop] for triple in some]
                records.upsert(self._records(block, passages))

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of triples."""
        return context.collection("records")

    def _records(
        self, triples: Sequence[tuple[str, Triple]], passages: Mapping[str, Mapping[str, Any]]
    ) -> pa.RecordBatch:
        subjects = [self.key(triple.subject) for _, triple in triples]
        objects = [self.key(triple.object) for _, triple in triples]
        sides = zip(subjects, objects, strict=True)
        texts = [self.text(triple) for _, triple in triples]
        columns = {
            **unit_columns("triple", _build_ids(triples), texts, [passages[id] for id, _ in triples]),
            "subject": pa.array([triple.subject for _, triple in triples], pa.string()),
            "predicate": pa.array([triple.predicate for _, triple in triples], pa.string()),
            "object": pa.array([triple.object for _, triple in triples], pa.string()),
            "subject_key": pa.array([[key] for key in subjects], TEXTS),
            "object_key": pa.array([[key] for key in objects], TEXTS),
            "entity_keys": pa.array([list(dict.fromkeys(pair)) for pair in sides], TEXTS),
        }
        return pa.record_batch(columns)


def triple_text(triple: Triple) -> str:
    """Return subject, predicate and object, joined by spaces."""
    return f"{triple.subject} {triple.predicate} {triple.object}"


def triple_id(passage_id: str, number: int) -> str:
    """Return the id of the triple with this number in its passage, counted from 0."""
    return f"{passage_id}#t{number:04d}"


def _build_ids(triples: Sequence[tuple[str, Triple]]) -> list[str]:
    """Return the ids `PASSAGE#t0000`, `PASSAGE#t0001`, … in the order of each passage."""
    ids: list[str] = []
    number, last = 0, ""
    for passage, _ in triples:
        number = number + 1 if passage == last and ids else 0
        ids.append(triple_id(passage, number))
        last = passage
    return ids
