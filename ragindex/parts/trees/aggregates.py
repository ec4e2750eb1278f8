"""Aggregates: the propositions of a corpus about one entity, as one text (SiReRAG)."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from ragindex._util.canonical import digest
from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, SearchKind, Uses
from ragindex.llm.tokens import count_text_tokens
from ragindex.parts.records import TEXTS, encode_records, replace_records
from ragindex.parts.text.propositions import Propositions
from ragindex.parts.trees import tree_nodes
from ragindex.parts.trees.tree_nodes import Node, passage_order
from ragindex.plugins.registry import PartField, of_class
from ragindex.types import Metadata

AGGREGATE_KIND = "aggregate"
_BATCH = 2_000  # aggregates encoded and written per batch


class Aggregates(Part[Collection]):
    """One record per entity: the propositions that name it, one per line, in the order of the source.

    The part is rebuilt as a whole, because all propositions together decide which aggregates are dropped or
    merged. `passage_ids` are the passages of the propositions.
    """

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset({"text", "vectors"})
    uses: ClassVar[Uses] = frozenset({"encoder"})
    has_vectors: ClassVar[bool] = True
    of: Annotated[PartField, of_class(Propositions)] = Field(
        default=Propositions(), description="Propositions to aggregate by entity."
    )
    singles: Literal["unshared", "drop", "keep"] = Field(
        default="unshared",
        description="Entities that one proposition names: unshared keeps those whose proposition names no "
        "other entity (S2).",
    )
    dedupe: bool = Field(
        default=True, description="State each line once per aggregate, and merge aggregates that state the same."
    )
    entity_key: Literal["exact", "casefold"] = Field(
        default="exact",
        description="When two names are one entity: equal (the paper's section 4.2), or equal in folded case with "
        "single spaces (S3).",
    )
    tokens: int = Field(default=3_500, ge=20, description="Tokens of an aggregate (estimated); longer ones are split.")

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the propositions."""
        return (self.of,)

    def key(self, name: str) -> str:
        """Return the key that all names of an entity share."""
        return name if self.entity_key == "exact" else " ".join(name.casefold().split())

    def finish(self, context: BuildContext) -> None:
        """Build all aggregates, in O(n log n) in the number of entity names; only changed ones are written."""
        read = _read_propositions(context.inputs[0])
        by_entity: dict[str, list[int]] = {}  # positions of the propositions that name an entity, by its key
        for place, proposition in enumerate(read.propositions):
            for key in dict.fromkeys(map(self.key, proposition.entities)):
                by_entity.setdefault(key, []).append(place)
        frequent = self._select_entities(by_entity)
        aggregates = self._merge(frequent, read.propositions)
        schema = tree_nodes.schema(
            context.language, context.encoder.dimensions, keywords=("entities",), numbers=("propositions",)
        )
        replace_records(context.collection("records", schema), _build_records(aggregates, read, context))
        for sentence in _write_notes(read.propositions, by_entity, frequent, aggregates):
            context.note(sentence, detail=True)

    def open(self, context: ReadContext) -> Collection:
        """Return the collection: fields of hits, `entities` as first spelled, and the number of `propositions`."""
        return context.collection("records")

    def _select_entities(self, by_entity: Mapping[str, list[int]]) -> dict[str, list[int]]:
        if self.singles == "keep":
            return dict(by_entity)
        naming = Counter(place for places in by_entity.values() for place in places)
        return {
            key: places
            for key, places in by_entity.items()
            if len(places) > 1 or (self.singles == "unshared" and naming[places[0]] == 1)
        }

    def _merge(
        self, frequent: Mapping[str, list[int]], propositions: Sequence["SourceProposition"]
    ) -> list["Aggregate"]:
        """Return the aggregates, sorted by key and piece; with `dedupe`, equal texts become one under the first key."""
        names = (name for proposition in reversed(propositions) for name in reversed(proposition.entities))
        spelt = {self.key(name): name for name in names}
        merged: dict[Any, Aggregate] = {}
        for key, places in sorted(frequent.items()):
            for piece, lines in enumerate(self._pieces(places, propositions)):
                text = "\n".join(propositions[line[0]].text for line in lines)
                earlier = merged.get(text) if self.dedupe else None
                entities, members = (earlier.entities, earlier.places) if earlier else ((), frozenset())
                merged[text if self.dedupe else (key, piece)] = Aggregate(
                    earlier.id if earlier else digest([key, piece]),
                    text,
                    (*entities, spelt[key]),
                    members | {place for line in lines for place in line},
                )
        return list(merged.values())

    def _pieces(self, places: Sequence[int], propositions: Sequence["SourceProposition"]) -> Iterator[list[list[int]]]:
        """Yield pieces of an aggregate within the token limit.

        A piece is a list of lines; a line is the list of positions of the propositions that state it.
        """
        lines: dict[Any, list[int]] = {}
        for place in places:
            lines.setdefault(propositions[place].text if self.dedupe else place, []).append(place)
        piece, used = list[list[int]](), 0
        for line in lines.values():
            size = count_text_tokens(f"{propositions[line[0]].text}\n", "").tokens
            if piece and used + size > self.tokens:
                yield piece
                piece, used = [], 0
            piece.append(line)
            used += size
        yield piece


@dataclass(frozen=True, slots=True)
class SourceProposition:
    """The fields of a proposition that an aggregate needs."""

    text: str
    passage_id: str
    doc_id: str
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A text, the entities that it is about, and the positions of its propositions."""

    id: str
    text: str
    entities: tuple[str, ...]
    places: frozenset[int]


@dataclass(frozen=True, slots=True)
class SourcePropositions:
    """All propositions, sorted by document and position in it, and the metadata of the documents."""

    propositions: list[SourceProposition]
    metadata: dict[str, Metadata]


def _read_propositions(records: Collection) -> SourcePropositions:
    fields = ("text", "metadata", "passage_ids", "doc_ids", "entities", "position")
    rows = [row for batch in records.scan(fields) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (passage_order(row["passage_ids"][0]), row["position"], row["id"]))
    metadata = {row["doc_ids"][0]: row["metadata"] for row in rows if row["metadata"]}
    return SourcePropositions(
        [
            SourceProposition(row["text"], row["passage_ids"][0], row["doc_ids"][0], tuple(row["entities"]))
            for row in rows
        ],
        {id: json.loads(text).get(id, {}) for id, text in metadata.items()},
    )


def _build_records(
    aggregates: Sequence[Aggregate], read: SourcePropositions, context: BuildContext
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(aggregates), _BATCH):
        batch = aggregates[start : start + _BATCH]
        rows, vectors = encode_records(
            [aggregate.text for aggregate in batch], [aggregate.id for aggregate in batch], context
        )
        some = [batch[row] for row in rows]
        nodes = [_build_node(aggregate, read, vector) for aggregate, vector in zip(some, vectors, strict=True)]
        columns = {
            **tree_nodes.columns(nodes, context.encoder.dimensions),
            "entities": pa.array([aggregate.entities for aggregate in some], TEXTS),
            "propositions": pa.array([len(aggregate.places) for aggregate in some], pa.float64()),
        }
        yield pa.record_batch(columns)


def _build_node(aggregate: Aggregate, read: SourcePropositions, vector: Any) -> Node:
    members = [read.propositions[place] for place in sorted(aggregate.places)]
    passages = tuple(dict.fromkeys(each.passage_id for each in members))
    documents = tuple(dict.fromkeys(each.doc_id for each in members))
    metadata = {id: read.metadata[id] for id in documents if id in read.metadata}
    return Node(aggregate.id, AGGREGATE_KIND, "", aggregate.text, passages, documents, metadata, vector)


def _write_notes(
    propositions: Sequence[SourceProposition],
    by_entity: Mapping[str, list[int]],
    frequent: Mapping[str, list[int]],
    aggregates: Sequence[Aggregate],
) -> Iterator[str]:
    nameless = sum(not proposition.entities for proposition in propositions)
    lost = len(propositions) - nameless - len(frozenset().union(*(aggregate.places for aggregate in aggregates)))
    yield (
        f"{len(aggregates):,} aggregates of {len(frequent):,} among {len(by_entity):,} entities, "
        f"of {len(propositions):,} propositions. {nameless:,} name no entity, {lost:,} more are in no aggregate."
    )
    sizes = [len(places) for places in by_entity.values()]
    if sizes:
        mean = sum(sizes) / len(sizes)
        yield f"Propositions of an entity: {mean:.2f} on average, {max(sizes):,} at most, {min(sizes):,} at least."
