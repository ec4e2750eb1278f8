"""Entities of the whole corpus with merged descriptions, weighted relations between them, and entity vectors."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from ragindex.corpus import passage_text
from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, Schema, Uses
from ragindex.parts.encoding import encode_records
from ragindex.parts.records import DIGEST, replace_records
from ragindex.parts.triples.triples import Triples
from ragindex.plugins.registry import PartField, of_class
from ragindex_baselines.graphrag import merge_triples

_ENTITY_SCHEMA = Schema(stored=("name", "text", DIGEST), keywords=("passage_ids", "neighbours"), numbers=("degree",))
_RELATION_SCHEMA = Schema(
    stored=("source", "target", "triples", DIGEST), keywords=("passage_ids",), numbers=("weight",)
)


@dataclass(frozen=True, slots=True)
class OpenEntityGraph:
    """The collections that EntityGraph opens.

    `entities`, by key: `name`, `text` (one statement per line), `passage_ids` (passages that state most about
    it first), `neighbours` (at most 50 keys, strongest relation first), `degree`. `relations`, by
    `merge_triples.relation_id`: `source` and `target` (keys, sorted), `triples` (JSON, at most 10 distinct
    ones, most frequent first), `passage_ids`, `weight` (number of triples that join the two).
    """

    entities: Collection
    relations: Collection


class EntityGraph(Part[OpenEntityGraph]):
    """One record per entity, and one per pair of entities that triples join, merged over all passages (GraphRAG).

    Entities are subjects, objects, and the names that a passage lists. A description consists of the entity's
    triples, most frequent first, up to `description_tokens` tokens (estimated). With `numbers=false`, dates
    and numbers are not entities; statements about them remain in the descriptions of other entities.
    """

    version: ClassVar[int] = 1
    of: Annotated[PartField, of_class(Triples)] = Field(
        default=Triples(), description="Triples that the graph is made of."
    )
    numbers: bool = Field(default=False, description="Let dates and numbers be entities.")
    description_tokens: int = Field(default=200, ge=1, description="Tokens of an entity's description (estimated).")

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the triples, and the extractions that they and the lists of names come from."""
        return (self.of, self.of.of)

    def finish(self, context: BuildContext) -> None:
        """Merge all triples, in O(n log n); only changed records are written."""
        triples, extractions = context.inputs
        found = merge_triples.merge_triples(triples, extractions, self.of.key, self.numbers)
        relations = merge_triples.find_relations(found)
        entities = merge_triples.entity_records(found, relations, self.description_tokens)
        replace_records(context.collection("entities", _ENTITY_SCHEMA), entities)
        replace_records(
            context.collection("relations", _RELATION_SCHEMA), merge_triples.relation_records(found, relations)
        )
        silent = extractions.count() - len(np.unique(found.mentions[1]))
        if silent:
            context.note(f"{silent:,} passages name no entity: no entity leads to them.")

    def open(self, context: ReadContext) -> OpenEntityGraph:
        """Return the two collections."""
        return OpenEntityGraph(context.collection("entities"), context.collection("relations"))


class EntityVectors(Part[Collection]):
    """The entities of `of`, with the vectors of "name, newline, description"."""

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"encoder"})
    of: PartField = Field(default=EntityGraph(), description="Entities that are encoded.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the graph."""
        return (self.of,)

    def finish(self, context: BuildContext) -> None:
        """Encode all entities; vectors of unchanged ones come from the vector cache."""
        graph: OpenEntityGraph = context.inputs[0]
        schema = Schema(
            stored=_ENTITY_SCHEMA.stored,
            keywords=_ENTITY_SCHEMA.keywords,
            numbers=("degree",),
            dimensions=context.encoder.dimensions,
        )
        fields = ("name", "text", "passage_ids", "neighbours", "degree")
        batches = (_encode(batch, context) for batch in graph.entities.scan(fields))
        replace_records(context.collection("records", schema), batches)

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of entities with vectors."""
        return context.collection("records")


def _encode(batch: pa.RecordBatch, context: BuildContext) -> pa.RecordBatch:
    pairs = zip(batch.column("name").to_pylist(), batch.column("text").to_pylist(), strict=True)
    texts = [passage_text(name, text) for name, text in pairs]
    rows, vectors = encode_records(texts, batch.column("name").to_pylist(), context)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), context.encoder.dimensions)
    return batch.take(pa.array(rows, pa.int64())).append_column("vector", column)
