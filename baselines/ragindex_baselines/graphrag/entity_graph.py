"""Entities of the whole corpus with merged descriptions, weighted relations between them, and entity vectors.

Triples and listed names are merged as arrays: one row per entity, and one per pair that triples join. Everything is
linear in the triples, except sorting. An entity of every passage is stored once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ragindex._util.canonical import digest
from ragindex.corpus import passage_text
from ragindex.english import is_number
from ragindex.interfaces import BuildContext, Collection, Part, ReadContext, Schema, SearchKind, Uses
from ragindex.llm.answer_question import build_context
from ragindex.parts.records import DIGEST, TEXTS, Integers, encode_records, large_text, replace_records
from ragindex.parts.triples.triple_json import to_json
from ragindex.parts.triples.triples import Triples, triple_text
from ragindex.plugins.registry import PartField, of_class
from ragindex.types import Triple

_NONE = -1
_BATCH = 2_000  # entities or relations per batch
_NEIGHBOURS = 50  # neighbours stored with an entity, the strongest first
_STATED_TRIPLES = 10  # distinct triples stored with a relation, the most frequent first


def relation_id(first: str, second: str) -> str:
    """Return the id of the relation between two entities, given by their keys in any order."""
    return digest(sorted((first, second)))


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class MergedTriples:
    """Triples sorted by id. All arrays are places: among `keys` and `passages` (both sorted), and among the triples.

    `sides` (n, 2) are the entities of each triple, _NONE if a side is not an entity; `owners` (n,) are the
    passages. The rows of `mentions` (3, m) are entity, passage and triple (_NONE if the passage only lists
    the name); the columns are sorted.
    """

    triples: pa.Table
    keys: pa.Array
    names: pa.Array
    passages: pa.Array
    sides: Integers
    owners: Integers
    mentions: Integers


def merge_triples(
    triples: Collection, extractions: Collection, key: Callable[[str], str], numbers: bool
) -> MergedTriples:
    """Merge triples and listed names into the arrays that entities and relations are built from.

    `key` returns the key that all names of an entity share. With `numbers=False`, numbers are not entities.
    """
    table = _read_triples(triples)
    table = table.take(pc.sort_indices(table.column("id")))
    listed = _read_listed_names(extractions, key)
    subjects, objects = (large_text(table.column(name).chunks) for name in ("subject_key", "object_key"))
    mentioned_keys = pa.concat_arrays([subjects, objects, large_text(listed.column("key").chunks)])
    keys = _sort_texts(mentioned_keys.unique())
    if not numbers:
        keys = keys.filter(pa.array([not is_number(each) for each in keys.to_pylist()], pa.bool_()))
    codes = _find_places(mentioned_keys, keys)
    surfaces = pa.concat_arrays(
        [large_text(table.column(name).chunks) for name in ("subject", "object")]
        + [large_text(listed.column("name").chunks)]
    )
    owners = pa.concat_arrays(
        [large_text(table.column("passage_id").chunks), large_text(listed.column("passage_id").chunks)]
    )
    passages = _sort_texts(owners.unique())
    places, n = _find_places(owners, passages), len(table)
    sides = np.ascontiguousarray(codes[: 2 * n].reshape(2, n).T)
    return MergedTriples(
        table,
        keys,
        _choose_names(codes, surfaces, len(keys)),
        passages,
        sides,
        places[:n],
        _collect_mentions(sides, places[:n], codes[2 * n :], places[n:]),
    )


def _read_triples(triples: Collection) -> pa.Table:
    batches = []
    for batch in triples.scan(("subject", "predicate", "object", "subject_key", "object_key", "passage_ids")):
        flat = [batch.column(name).flatten() for name in ("subject_key", "object_key", "passage_ids")]
        texts = [batch.column(name) for name in ("id", "subject", "predicate", "object")]
        batches.append(pa.RecordBatch.from_arrays([*texts, *flat], names=_TRIPLE_COLUMNS.names))
    return pa.Table.from_batches(batches, _TRIPLE_COLUMNS)


def _read_listed_names(extractions: Collection, key: Callable[[str], str]) -> pa.Table:
    """Return the names that each passage lists, in the columns passage_id, name, key."""
    batches = []
    for batch in extractions.scan(("entities",)):
        lists = batch.column("entities")
        names = lists.flatten()
        keys = pa.array([key(name) for name in names.to_pylist()], pa.string())
        owners = batch.column("id").take(pc.list_parent_indices(lists))
        batches.append(pa.RecordBatch.from_arrays([owners, names, keys], names=_LISTED_COLUMNS.names))
    return pa.Table.from_batches(batches, _LISTED_COLUMNS)


_TRIPLE_COLUMNS = pa.schema(
    [
        (name, pa.string())
        for name in ("id", "subject", "predicate", "object", "subject_key", "object_key", "passage_id")
    ]
)
_LISTED_COLUMNS = pa.schema([(name, pa.string()) for name in ("passage_id", "name", "key")])


def _sort_texts(texts: pa.Array) -> pa.Array:
    return texts.take(pc.sort_indices(texts))


def _find_places(texts: pa.Array, among: pa.Array) -> Integers:
    return np.asarray(pc.fill_null(pc.index_in(texts, among), _NONE).to_numpy(zero_copy_only=False), np.int64)


def _choose_names(codes: Integers, surfaces: pa.Array, count: int) -> pa.Array:
    """Return the most frequent spelling of each entity; of equally frequent ones, the first."""
    spellings = pa.table({"code": pa.array(codes), "name": surfaces}).filter(pa.array(codes != _NONE))
    counts = spellings.group_by(["code", "name"]).aggregate([([], "count_all")])
    ordered = counts.sort_by([("code", "ascending"), ("count_all", "descending"), ("name", "ascending")])
    _, first = np.unique(ordered.column("code").to_numpy(), return_index=True)
    return large_text(ordered.column("name").chunks).take(pa.array(first[:count]))


def _collect_mentions(sides: Integers, owners: Integers, listed: Integers, listed_owners: Integers) -> Integers:
    triple = np.arange(len(sides), dtype=np.int64)
    other = np.where(sides[:, 0] == sides[:, 1], _NONE, sides[:, 1])  # a triple of an entity with itself is one mention
    entity = np.concatenate([sides[:, 0], other, listed])
    passage = np.concatenate([owners, owners, listed_owners])
    number = np.concatenate([triple, triple, np.full(len(listed), _NONE, np.int64)])
    order = np.lexsort((number, passage, entity))
    rows = np.stack([entity, passage, number])[:, order]
    return np.ascontiguousarray(rows[:, rows[0] != _NONE])


# ---------------------------------------------------------------- relations


@dataclass(frozen=True, slots=True)
class Relations:
    """Pairs of entities `low` and `high`, joined by `triples[starts[i] : starts[i + 1]]`; `degrees` are by entity."""

    low: Integers
    high: Integers
    starts: Integers
    triples: Integers
    degrees: Integers


def find_relations(merged: MergedTriples) -> Relations:
    """Return the pairs of different entities that triples join, sorted; the direction does not matter."""
    low, high = merged.sides.min(axis=1), merged.sides.max(axis=1)
    triple = np.flatnonzero((low != _NONE) & (low != high))
    order = np.lexsort((triple, high[triple], low[triple]))
    triple = triple[order]
    pairs = np.stack([low[triple], high[triple]])
    fresh = np.flatnonzero(np.concatenate([[True], (np.diff(pairs) != 0).any(axis=0)])[: len(triple)])
    low, high = pairs[:, fresh]
    degrees = np.bincount(np.concatenate([low, high]), minlength=len(merged.keys))
    return Relations(low, high, np.append(fresh, len(triple)), triple, degrees)


def relation_records(merged: MergedTriples, relations: Relations) -> Iterator[pa.RecordBatch]:
    """Yield the records of `OpenEntityGraph.relations`, in bounded batches."""
    for start in range(0, len(relations.low), _BATCH):
        places = range(start, min(start + _BATCH, len(relations.low)))
        of = relations.triples[relations.starts[places.start] : relations.starts[places.stop]]
        sizes = np.diff(relations.starts[places.start : places.stop + 1])
        triples = _split_runs(_read_statements(merged, of), sizes)
        owners = _split_runs(merged.passages.take(pa.array(merged.owners[of])).to_pylist(), sizes)
        sources, targets = (
            merged.keys.take(pa.array(side[places.start : places.stop])).to_pylist()
            for side in (relations.low, relations.high)
        )
        stated = [to_json([triple for triple, _ in Counter(each).most_common(_STATED_TRIPLES)]) for each in triples]
        columns = {
            "id": pa.array([relation_id(*pair) for pair in zip(sources, targets, strict=True)], pa.string()),
            "source": pa.array(sources, pa.string()),
            "target": pa.array(targets, pa.string()),
            "triples": pa.array(stated, pa.string()),
            "passage_ids": pa.array([sorted(set(each)) for each in owners], TEXTS),
            "weight": pa.array(sizes, pa.float64()),
        }
        yield pa.record_batch(columns)


def _read_statements(merged: MergedTriples, places: Integers) -> list[Triple]:
    rows = merged.triples.select(["subject", "predicate", "object"]).take(pa.array(places)).to_pydict().values()
    return [Triple(*row) for row in zip(*rows, strict=True)]


def _split_runs(values: Sequence[Any], sizes: Integers) -> list[Sequence[Any]]:
    ends = np.cumsum(sizes).tolist()
    return [values[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]


# ---------------------------------------------------------------- entities


def entity_records(merged: MergedTriples, relations: Relations, tokens: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of `OpenEntityGraph.entities`, in bounded batches.

    Descriptions have at most `tokens` tokens (estimated).
    """
    neighbours, passages = _rank_neighbours(relations, len(merged.keys)), _rank_passages(merged)
    starts = np.searchsorted(merged.mentions[0], np.arange(len(merged.keys) + 1))
    for first in range(0, len(merged.keys), _BATCH):
        last = min(first + _BATCH, len(merged.keys))
        rows = merged.mentions[:, starts[first] : starts[last]]
        texts = _write_descriptions(merged, rows[:, rows[2] != _NONE], range(first, last), tokens)
        columns = {
            "id": merged.keys[first:last].cast(pa.string()),
            "name": merged.names[first:last].cast(pa.string()),
            "text": pa.array(texts, pa.string()),
            "passage_ids": _build_lists(merged.passages, passages, range(first, last), None),
            "neighbours": _build_lists(merged.keys, neighbours, range(first, last), _NEIGHBOURS),
            "degree": pa.array(relations.degrees[first:last], pa.float64()),
        }
        yield pa.record_batch(columns)


def _write_descriptions(merged: MergedTriples, stated: Integers, entities: range, tokens: int) -> list[str]:
    """Return for each entity the distinct statements about it, most frequent first, up to the limit of tokens."""
    texts = [" ".join(triple_text(statement).split()) for statement in _read_statements(merged, stated[2])]
    sizes = np.bincount(stated[0] - entities.start, minlength=len(entities))
    ranked = [[text for text, _ in Counter(run).most_common(tokens)] for run in _split_runs(texts, sizes)]
    return ["\n".join(build_context((), run, tokens).notes) for run in ranked]


def _rank_neighbours(relations: Relations, count: int) -> tuple[Integers, Integers]:
    """Return the neighbours of each entity as starts and places.

    The strongest relation comes first; ties are broken by the number of the neighbour's relations.
    """
    entity = np.concatenate([relations.low, relations.high])
    other = np.concatenate([relations.high, relations.low])
    weight = np.tile(np.diff(relations.starts), 2)
    order = np.lexsort((other, -relations.degrees[other], -weight, entity))
    return np.searchsorted(entity[order], np.arange(count + 1)), other[order]


def _rank_passages(merged: MergedTriples) -> tuple[Integers, Integers]:
    """Return the passages of each entity as starts and places, the one with most triples about it first."""
    entity, passage, triple = merged.mentions
    fresh = np.flatnonzero(np.concatenate([[True], (np.diff(merged.mentions[:2]) != 0).any(axis=0)])[: len(entity)])
    says = np.add.reduceat(triple != _NONE, fresh, dtype=np.int64) if len(fresh) else fresh
    entity, passage = entity[fresh], passage[fresh]
    order = np.lexsort((passage, -says, entity))
    return np.searchsorted(entity[order], np.arange(len(merged.keys) + 1)), passage[order]


def _build_lists(texts: pa.Array, ranked: tuple[Integers, Integers], entities: range, limit: int | None) -> pa.Array:
    starts, places = ranked
    runs = [places[starts[entity] : starts[entity + 1]][:limit] for entity in entities]
    offsets = np.cumsum([0, *map(len, runs)])
    values = texts.take(pa.array(np.concatenate([*runs, np.empty(0, np.int64)]).astype(np.int64))).cast(pa.string())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


# ---------------------------------------------------------------- the parts


_ENTITY_SCHEMA = Schema(stored=("name", "text", DIGEST), keywords=("passage_ids", "neighbours"), numbers=("degree",))
_RELATION_SCHEMA = Schema(
    stored=("source", "target", "triples", DIGEST), keywords=("passage_ids",), numbers=("weight",)
)


@dataclass(frozen=True, slots=True)
class OpenEntityGraph:
    """The collections that EntityGraph opens.

    `entities`, by key: `name`, `text` (one statement per line), `passage_ids` (passages that state most about
    it first), `neighbours` (at most 50 keys, strongest relation first), `degree`. `relations`, by
    `relation_id`: `source` and `target` (keys, sorted), `triples` (JSON, at most 10 distinct
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
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
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
        merged = merge_triples(triples, extractions, self.of.key, self.numbers)
        relations = find_relations(merged)
        entities = entity_records(merged, relations, self.description_tokens)
        replace_records(context.collection("entities", _ENTITY_SCHEMA), entities)
        replace_records(context.collection("relations", _RELATION_SCHEMA), relation_records(merged, relations))
        silent = extractions.count() - len(np.unique(merged.mentions[1]))
        if silent:
            context.note(f"{silent:,} passages name no entity: no entity leads to them.")

    def open(self, context: ReadContext) -> OpenEntityGraph:
        """Return the two collections."""
        return OpenEntityGraph(context.collection("entities"), context.collection("relations"))


class EntityVectors(Part[Collection]):
    """The entities of `of`, with the vectors of "name, newline, description"."""

    version: ClassVar[int] = 1
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset()
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
