"""Triples and lists of names merged over passages, as arrays: one row an entity, one a pair that triples join.

Sorting is all that grows faster than the triples; an entity of every passage costs its own length once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.canonical import digest
from ragindex.interfaces import Collection
from ragindex.llm.answer_question import build_context
from ragindex.llm.rules import is_number
from ragindex.parts.support.arrays import Integers
from ragindex.parts.support.columns import large_text
from ragindex.parts.support.records import TEXTS
from ragindex.parts.triples.triple_json import to_json
from ragindex.parts.triples.triples import triple_text
from ragindex.types import Triple

_NONE = -1
_BATCH = 2_000  # entities or relations made at once
_NEIGHBOURS = 50  # of an entity are kept with it, the strongest first
_STATED = 10  # different triples are kept with a relation, the most frequent first


def relation_id(one: str, other: str) -> str:
    """The id of the relation between two entities, by their keys, whichever comes first."""
    return digest(sorted((one, other)))


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class MergedTriples:
    """Triples by id, and all else by places: of `keys` and of `passages` (both sorted), and of the triples.

    `sides` (n, 2) are the entities of each triple, _NONE where a side is none; `owners` (n,) its passage. Rows of
    `mentions` (3, m) are entity, passage and triple (_NONE: only listed), sorted.
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
    """Everything that entities and relations are made of; `key` gives what the names of one entity share."""
    table = _triples(triples)
    table = table.take(pc.sort_indices(table.column("id")))
    listed = _listed(extractions, key)
    subjects, objects = (large_text(table.column(name).chunks) for name in ("subject_key", "object_key"))
    named = pa.concat_arrays([subjects, objects, large_text(listed.column("key").chunks)])
    keys = _sorted(named.unique())
    if not numbers:
        keys = keys.filter(pa.array([not is_number(each) for each in keys.to_pylist()], pa.bool_()))
    codes = _places(named, keys)
    surfaces = pa.concat_arrays(
        [large_text(table.column(name).chunks) for name in ("subject", "object")]
        + [large_text(listed.column("name").chunks)]
    )
    owners = pa.concat_arrays(
        [large_text(table.column("passage_id").chunks), large_text(listed.column("passage_id").chunks)]
    )
    passages = _sorted(owners.unique())
    places, n = _places(owners, passages), len(table)
    sides = np.ascontiguousarray(codes[: 2 * n].reshape(2, n).T)
    return MergedTriples(
        table,
        keys,
        _names(codes, surfaces, len(keys)),
        passages,
        sides,
        places[:n],
        _mentions(sides, places[:n], codes[2 * n :], places[n:]),
    )


def _triples(triples: Collection) -> pa.Table:
    batches = []
    for batch in triples.scan(("subject", "predicate", "object", "subject_key", "object_key", "passage_ids")):
        flat = [batch.column(name).flatten() for name in ("subject_key", "object_key", "passage_ids")]
        texts = [batch.column(name) for name in ("id", "subject", "predicate", "object")]
        batches.append(pa.RecordBatch.from_arrays([*texts, *flat], names=_COLUMNS.names))
    return pa.Table.from_batches(batches, _COLUMNS)


def _listed(extractions: Collection, key: Callable[[str], str]) -> pa.Table:
    """The names that each passage lists: columns passage_id, name, key."""
    batches = []
    for batch in extractions.scan(("entities",)):
        lists = batch.column("entities")
        names = lists.flatten()
        keys = pa.array([key(name) for name in names.to_pylist()], pa.string())
        owners = batch.column("id").take(pc.list_parent_indices(lists))
        batches.append(pa.RecordBatch.from_arrays([owners, names, keys], names=_LISTED.names))
    return pa.Table.from_batches(batches, _LISTED)


_COLUMNS = pa.schema(
    [
        (name, pa.string())
        for name in ("id", "subject", "predicate", "object", "subject_key", "object_key", "passage_id")
    ]
)
_LISTED = pa.schema([(name, pa.string()) for name in ("passage_id", "name", "key")])


def _sorted(texts: pa.Array) -> pa.Array:
    return texts.take(pc.sort_indices(texts))


def _places(texts: pa.Array, among: pa.Array) -> Integers:
    return np.asarray(pc.fill_null(pc.index_in(texts, among), _NONE).to_numpy(zero_copy_only=False), np.int64)


def _names(codes: Integers, surfaces: pa.Array, count: int) -> pa.Array:
    """How each entity is written most often; of equally frequent ways, the first."""
    written = pa.table({"code": pa.array(codes), "name": surfaces}).filter(pa.array(codes != _NONE))
    counts = written.group_by(["code", "name"]).aggregate([([], "count_all")])
    ordered = counts.sort_by([("code", "ascending"), ("count_all", "descending"), ("name", "ascending")])
    _, first = np.unique(ordered.column("code").to_numpy(), return_index=True)
    return large_text(ordered.column("name").chunks).take(pa.array(first[:count]))


def _mentions(sides: Integers, owners: Integers, listed: Integers, listed_owners: Integers) -> Integers:
    triple = np.arange(len(sides), dtype=np.int64)
    other = np.where(sides[:, 0] == sides[:, 1], _NONE, sides[:, 1])  # a triple that joins an entity to itself is one
    entity = np.concatenate([sides[:, 0], other, listed])
    passage = np.concatenate([owners, owners, listed_owners])
    number = np.concatenate([triple, triple, np.full(len(listed), _NONE, np.int64)])
    order = np.lexsort((number, passage, entity))
    rows = np.stack([entity, passage, number])[:, order]
    return np.ascontiguousarray(rows[:, rows[0] != _NONE])


# ---------------------------------------------------------------- relations


@dataclass(frozen=True, slots=True)
class Relations:
    """`triples[starts[i] : starts[i + 1]]` are the triples that join `low[i]` and `high[i]`; degrees by entity."""

    low: Integers
    high: Integers
    starts: Integers
    triples: Integers
    degrees: Integers


def find_relations(found: MergedTriples) -> Relations:
    """The pairs of different entities that triples join, sorted; a pair is one whichever side is the subject."""
    low, high = found.sides.min(axis=1), found.sides.max(axis=1)
    triple = np.flatnonzero((low != _NONE) & (low != high))
    order = np.lexsort((triple, high[triple], low[triple]))
    triple = triple[order]
    pairs = np.stack([low[triple], high[triple]])
    fresh = np.flatnonzero(np.concatenate([[True], (np.diff(pairs) != 0).any(axis=0)])[: len(triple)])
    low, high = pairs[:, fresh]
    degrees = np.bincount(np.concatenate([low, high]), minlength=len(found.keys))
    return Relations(low, high, np.append(fresh, len(triple)), triple, degrees)


def relation_records(found: MergedTriples, relations: Relations) -> Iterator[pa.RecordBatch]:
    """The records of `Graph.relations`, in bounded batches."""
    for start in range(0, len(relations.low), _BATCH):
        places = range(start, min(start + _BATCH, len(relations.low)))
        yield _relation_batch(found, relations, places)


def _relation_batch(found: MergedTriples, relations: Relations, places: range) -> pa.RecordBatch:
    of = relations.triples[relations.starts[places.start] : relations.starts[places.stop]]
    sizes = np.diff(relations.starts[places.start : places.stop + 1])
    triples = _runs(_as_triples(found, of), sizes)
    owners = _runs(found.passages.take(pa.array(found.owners[of])).to_pylist(), sizes)
    sources, targets = (
        found.keys.take(pa.array(side[places.start : places.stop])).to_pylist()
        for side in (relations.low, relations.high)
    )
    stated = [to_json([one for one, _ in Counter(each).most_common(_STATED)]) for each in triples]
    columns = {
        "id": pa.array([relation_id(*pair) for pair in zip(sources, targets, strict=True)], pa.string()),
        "source": pa.array(sources, pa.string()),
        "target": pa.array(targets, pa.string()),
        "triples": pa.array(stated, pa.string()),
        "passage_ids": pa.array([sorted(set(each)) for each in owners], TEXTS),
        "weight": pa.array(sizes, pa.float64()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _as_triples(found: MergedTriples, places: Integers) -> list[Triple]:
    rows = found.triples.select(["subject", "predicate", "object"]).take(pa.array(places)).to_pydict().values()
    return [Triple(*row) for row in zip(*rows, strict=True)]


def _runs(values: Sequence[Any], sizes: Integers) -> list[Sequence[Any]]:
    ends = np.cumsum(sizes).tolist()
    return [values[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]


# ---------------------------------------------------------------- entities


def entity_records(found: MergedTriples, relations: Relations, tokens: int) -> Iterator[pa.RecordBatch]:
    """The records of `Graph.entities`, in bounded batches; descriptions of at most `tokens` tokens (estimated)."""
    neighbours, passages = _ranked_neighbours(relations, len(found.keys)), _ranked_passages(found)
    starts = np.searchsorted(found.mentions[0], np.arange(len(found.keys) + 1))
    for first in range(0, len(found.keys), _BATCH):
        last = min(first + _BATCH, len(found.keys))
        rows = found.mentions[:, starts[first] : starts[last]]
        texts = _descriptions(found, rows[:, rows[2] != _NONE], range(first, last), tokens)
        columns = {
            "id": found.keys[first:last].cast(pa.string()),
            "name": found.names[first:last].cast(pa.string()),
            "text": pa.array(texts, pa.string()),
            "passage_ids": _lists(found.passages, passages, range(first, last), None),
            "neighbours": _lists(found.keys, neighbours, range(first, last), _NEIGHBOURS),
            "degree": pa.array(relations.degrees[first:last], pa.float64()),
        }
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _descriptions(found: MergedTriples, stated: Integers, entities: range, tokens: int) -> list[str]:
    """The distinct statements about each entity, the most frequent first, as far as there is room."""
    texts = [" ".join(triple_text(one).split()) for one in _as_triples(found, stated[2])]
    sizes = np.bincount(stated[0] - entities.start, minlength=len(entities))
    ranked = [[text for text, _ in Counter(run).most_common(tokens)] for run in _runs(texts, sizes)]
    return ["\n".join(build_context((), run, tokens).notes) for run in ranked]


def _ranked_neighbours(relations: Relations, count: int) -> tuple[Integers, Integers]:
    """By entity: the strongest relation first, of equal ones that with the entity of more relations."""
    entity = np.concatenate([relations.low, relations.high])
    other = np.concatenate([relations.high, relations.low])
    weight = np.tile(np.diff(relations.starts), 2)
    order = np.lexsort((other, -relations.degrees[other], -weight, entity))
    return np.searchsorted(entity[order], np.arange(count + 1)), other[order]


def _ranked_passages(found: MergedTriples) -> tuple[Integers, Integers]:
    """By entity: the passage with most triples about it first."""
    entity, passage, triple = found.mentions
    fresh = np.flatnonzero(np.concatenate([[True], (np.diff(found.mentions[:2]) != 0).any(axis=0)])[: len(entity)])
    says = np.add.reduceat(triple != _NONE, fresh, dtype=np.int64) if len(fresh) else fresh
    entity, passage = entity[fresh], passage[fresh]
    order = np.lexsort((passage, -says, entity))
    return np.searchsorted(entity[order], np.arange(len(found.keys) + 1)), passage[order]


def _lists(texts: pa.Array, ranked: tuple[Integers, Integers], entities: range, limit: int | None) -> pa.Array:
    starts, places = ranked
    runs = [places[starts[one] : starts[one + 1]][:limit] for one in entities]
    offsets = np.cumsum([0, *map(len, runs)])
    values = texts.take(pa.array(np.concatenate([*runs, np.empty(0, np.int64)]).astype(np.int64))).cast(pa.string())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
