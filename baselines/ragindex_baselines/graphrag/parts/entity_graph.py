"""Entities of the whole corpus with merged descriptions, the weighted relations between them, and entity vectors."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from ragindex.corpus import passage_text
from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, Schema, Uses
from ragindex.parts.support import replace_all
from ragindex.parts.triples.triples import Triples
from ragindex.plugins.registry import PartField, of_class
from ragindex_baselines.graphrag.parts import merge_triples

_ENTITIES = Schema(
    stored=("name", "text", replace_all.DIGEST), keywords=("passage_ids", "neighbours"), numbers=("degree",)
)
_RELATIONS = Schema(
    stored=("source", "target", "triples", replace_all.DIGEST), keywords=("passage_ids",), numbers=("weight",)
)


@dataclass(frozen=True, slots=True)
class OpenEntityGraph:
    """What EntityGraph opens to.

    `entities` by key: `name`, `text` (what is said of it, a statement a line), `passage_ids` (those that say most of it
    first), `neighbours` (at most 50 keys, the strongest relation first), `degree`. `relations` by `merged.relation_id`:
    `source` and `target` (keys, in order), `triples` (JSON, at most 10 different ones, the most frequent first),
    `passage_ids`, `weight` (how many triples join the two).
    """

    entities: Collection
    relations: Collection


class EntityGraph(Part[OpenEntityGraph]):
    """One record an entity and one a pair of entities that triples join, merged over all passages (GraphRAG).

    Entities are subjects and objects, and the names that a passage lists. A description is made of the entity's
    triples, the most frequent first, up to `description_tokens` (estimated). Without `numbers`, dates and numbers are
    no entities; what is said of them stays in the descriptions of others.
    """

    version: ClassVar[int] = 1
    of: Annotated[PartField, of_class(Triples)] = Field(
        default=Triples(), description="Triples that the graph is made of."
    )
    numbers: bool = Field(default=False, description="Let dates and numbers be entities.")
    description_tokens: int = Field(default=200, ge=1, description="Tokens of an entity's description (estimated).")

    def inputs(self) -> tuple[Part[Any], ...]:
        """The triples, and the extractions that they and the lists of names come from."""
        return (self.of, self.of.of)

    def finish(self, context: BuildContext) -> None:
        """Merge all triples, n log n in their number; only records that changed are written."""
        triples, extractions = context.inputs
        found = merge_triples.merge_triples(triples, extractions, self.of.key, self.numbers)
        relations = merge_triples.find_relations(found)
        entities = merge_triples.entity_records(found, relations, self.description_tokens)
        replace_all.replace_records(context.collection("entities", _ENTITIES), entities)
        replace_all.replace_records(
            context.collection("relations", _RELATIONS), merge_triples.relation_records(found, relations)
        )
        silent = extractions.count() - len(np.unique(found.mentions[1]))
        if silent:
            context.note(f"{silent:,} passages name no entity: no entity leads to them.")

    def open(self, context: ReadContext) -> OpenEntityGraph:
        """The two collections."""
        return OpenEntityGraph(context.collection("entities"), context.collection("relations"))


class EntityVectors(Part[Collection]):
    """The entities of `of` with the vectors of name, newline, description."""

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset({"encoder"})
    of: PartField = Field(default=EntityGraph(), description="Entities that are encoded.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """The graph."""
        return (self.of,)

    def finish(self, context: BuildContext) -> None:
        """Encode all entities; those of an earlier sync come from the vector cache."""
        graph: OpenEntityGraph = context.inputs[0]
        schema = Schema(
            stored=_ENTITIES.stored,
            keywords=_ENTITIES.keywords,
            numbers=("degree",),
            dimensions=context.encoder.dimensions,
        )
        fields = ("name", "text", "passage_ids", "neighbours", "degree")
        batches = (_encoded(batch, context) for batch in graph.entities.scan(fields))
        replace_all.replace_records(context.collection("records", schema), batches)

    def open(self, context: ReadContext) -> Collection:
        """The collection."""
        return context.collection("records")


def _encoded(batch: pa.RecordBatch, context: BuildContext) -> pa.RecordBatch:
    pairs = zip(batch.column("name").to_pylist(), batch.column("text").to_pylist(), strict=True)
    vectors = context.encoder.encode_documents([passage_text(name, text) for name, text in pairs])
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), context.encoder.dimensions)
    return batch.append_column("vector", column)
