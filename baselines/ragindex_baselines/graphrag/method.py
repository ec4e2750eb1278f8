"""GraphRAG: a graph of entities, reports on its communities, and local search: from the entities near the question."""

import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ragindex.filters import Overlaps
from ragindex.interfaces import (
    Collection,
    Encoder,
    Floats,
    OpenIndex,
    Part,
    Retriever,
    Scheme,
    SearchResult,
    VectorQuery,
)
from ragindex.llm.answer_question import build_context
from ragindex.parts.text.passages import OVER_PASSAGES, Passages, PassagesField
from ragindex.parts.triples.triple_json import from_json
from ragindex.parts.triples.triples import triple_text
from ragindex.plugins.registry import PartField, label, of_class
from ragindex.retrieval.hits import HIT_FIELDS, PassingRecords, check_queries, fetch_records, read_hits
from ragindex.retrieval.stages import DEEPEST, is_recording, record_ranking, record_search
from ragindex.types import Hit, Query, Retrieval, Step, Triple
from ragindex_baselines.graphrag.communities import Communities, Reports
from ragindex_baselines.graphrag.entity_graph import EntityVectors, OpenEntityGraph, relation_id


class GraphRAG(Scheme):
    """Passages of the entities nearest to the question, with notes on these entities' communities and relations.

    The nearest `entities` are taken. Passages are ranked entity by entity, nearest first, and for each entity by the
    number of its triples that they state. Notes are the reports on the entities' communities, up to `note_tokens`
    tokens, and the entities' relations, `relations` per entity, up to `relation_tokens` tokens (estimated; 0: none).
    """

    version: ClassVar[int] = 1
    communities: Annotated[PartField, of_class(Communities)] = Field(
        default=Communities(), description="Communities of entities, with reports."
    )
    over: PassagesField = OVER_PASSAGES
    entities: int = Field(default=10, ge=1, description="Entities nearest the question.")
    relations: int = Field(default=10, ge=0, le=50, description="Relations per entity.")
    note_tokens: int = Field(default=300, ge=0, description="Tokens of reports in the notes (estimated).")
    relation_tokens: int = Field(
        default=700, ge=0, description="Tokens of relations in the notes (estimated). 0: none."
    )

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the passages, the entities with vectors, and the communities with reports."""
        return (Passages(), EntityVectors(of=self.communities.of), self.communities)

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever: one encoding, one search and four look-ups per question, and no LLM."""
        passages, vectors, communities = (index.open_part(part) for part in self.parts())
        graph = index.open_part(self.communities.of)
        passing = PassingRecords(passages)
        return GraphRAGRetriever(passages, passing, vectors, graph, communities, index.encoder, self, label(self))


# ---------------------------------------------------------------- the steps, as pure functions of records


GraphRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Nearby:
    """An entity near the question: its key, its passages (an Arrow list), and its strongest neighbours."""

    key: str
    passage_ids: pa.Array
    neighbours: tuple[str, ...]


def read_nearby(result: SearchResult) -> list[Nearby]:
    """Return the entities of a search for the fields `passage_ids` and `neighbours`, nearest first."""
    passages, neighbours = (result.records.column(name) for name in ("passage_ids", "neighbours"))
    return [Nearby(key, passages[row].values, tuple(neighbours[row].as_py())) for row, key in enumerate(result.ids)]


_SLICE = 100
"""Ids that are read at once: an entity of every passage has as many, so no more are read than are wanted."""


def rank_passages(entities: Sequence[Nearby], k: int) -> list[str]:
    """Return the first `k` distinct passages, entity by entity."""
    ranked: dict[str, None] = {}
    for entity in entities:
        slices = (entity.passage_ids.slice(start, _SLICE) for start in range(0, len(entity.passage_ids), _SLICE))
        ids = (id for part in slices for id in part.to_pylist())
        ranked.update(dict.fromkeys(islice((id for id in ids if id not in ranked), k - len(ranked))))
    return list(ranked)


def candidate_relations(entities: Sequence[Nearby], each: int) -> list[str]:
    """Return the ids of relations to look up: all pairs of these entities, and `each` relations of every entity.

    A pair need not have a relation.
    """
    keys = [entity.key for entity in entities]
    between = [relation_id(*pair) for pair in combinations(keys, 2)]
    others = [relation_id(entity.key, other) for entity in entities for other in entity.neighbours[:each]]
    return list(dict.fromkeys([*between, *others])) if each else []


def rank_relations(entities: Sequence[Nearby], relations: Iterable[GraphRow], limit: int) -> list[GraphRow]:
    """Return at most `limit` relations: those between two of the entities first, then those with outsiders.

    Relations with outsiders are sorted by the number of entities that the outsider is related to, then by
    weight.
    """
    keys = {entity.key for entity in entities}
    rows = list(relations)
    inside = [row for row in rows if {row["source"], row["target"]} <= keys]
    outside = [row for row in rows if not {row["source"], row["target"]} <= keys]
    shared = Counter(_find_outsider(row, keys) for row in outside)
    inside.sort(key=lambda row: (-row["weight"], row["id"]))
    outside.sort(key=lambda row: (-shared[_find_outsider(row, keys)], -row["weight"], row["id"]))
    return [*inside, *outside][:limit]


def _find_outsider(row: GraphRow, keys: Container[str]) -> str:
    return str(row["target"] if row["source"] in keys else row["source"])


def rank_communities(memberships: Iterable[GraphRow]) -> list[str]:
    """Return communities by the number of entities they contain; ties in the order of the nearest entity."""
    return [community for community, _ in Counter(str(row["community"]) for row in memberships).most_common()]


def filter_rows(rows: Iterable[GraphRow], passing: Container[str] | None) -> list[GraphRow]:
    """Return the rows with all passages in `passing`, so that no text that the filter excludes is passed on."""
    return [row for row in rows if passing is None or all(id in passing for id in row["passage_ids"])]


def write_notes(
    reports: Sequence[str], triples: Sequence[Triple], report_tokens: int, triple_tokens: int
) -> tuple[str, ...]:
    """Return the reports, then one text with a triple per line, each group cut to its limit of tokens."""
    notes = _pack_texts(reports, report_tokens)
    lines = _pack_texts([" ".join(triple_text(triple).split()) for triple in triples], triple_tokens)
    return (*notes, "\n".join(lines)) if lines else notes


def _pack_texts(texts: Sequence[str], tokens: int) -> tuple[str, ...]:
    return build_context((), texts, tokens).notes if tokens else ()


# ---------------------------------------------------------------- the open retriever


@dataclass(frozen=True, slots=True)
class GraphRAGRetriever:
    """The open retriever of GraphRAG.

    With a filter, an entity, a relation and a report count only if all passages that they are made from pass.
    """

    passages: Collection
    passing: PassingRecords
    entities: Collection
    graph: OpenEntityGraph
    communities: Reports
    encoder: Encoder
    settings: GraphRAG
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer all questions, with one batch of the encoder and one search for entities."""
        check_queries(queries, k)
        passing = [None if query.filter is None else self.passing.find(query.filter) for query in queries]
        vectors = self.encoder.encode_queries([query.text for query in queries])
        start = time.perf_counter()
        results = search_entities(self.entities, vectors, passing, self.settings.entities)
        ms = (time.perf_counter() - start) * 1e3 / max(1, len(queries))
        for query, vector, result in zip(queries, vectors, results, strict=True):
            if query.filter is None:
                nearest = VectorQuery(vector, self.settings.entities)
                record_search("entities", self.entities, [nearest], [query.text])
            else:
                record_ranking("entities", result.ids, query=query.text)
        return [
            self._retrieval(query, entities, ids, k, ms)
            for query, entities, ids in zip(queries, results, passing, strict=True)
        ]

    def _retrieval(
        self, query: Query, result: SearchResult, passing: frozenset[str] | None, k: int, searching: float
    ) -> Retrieval:
        entities = read_nearby(result)
        start = time.perf_counter()
        best = self._hits(entities, k)
        moments = [time.perf_counter()]
        triples = describe_relations(self.graph, entities, self.settings.relations, passing)
        moments.append(time.perf_counter())
        keys = [entity.key for entity in entities]
        ids = rank_communities(fetch_records(self.communities.memberships, keys, ("community",)).to_pylist())
        records = fetch_records(self.communities.reports, ids, ("text", *_choose_fields(passing)))
        rows = filter_rows(records.to_pylist(), passing)
        ids, reports = [row["id"] for row in rows], [row["text"] for row in rows]
        notes = write_notes(reports, triples, self.settings.note_tokens, self.settings.relation_tokens)
        moments.append(time.perf_counter())
        times = np.diff([start, *moments]) * 1e3
        trace = (
            Step(1, "entities", query.text, tuple(result.ids), ms=searching),
            Step(1, "passages", "", tuple(hit.id for hit in best), ms=times[0]),
            Step(1, "relations", "", triples=tuple(triples), ms=times[1]),
            Step(1, "communities", "", tuple(ids), ms=times[2]),
        )
        return Retrieval(best, trace, notes)

    def _hits(self, entities: Sequence[Nearby], k: int) -> tuple[Hit, ...]:
        """Return the ranked passages as hits. Scores are 1 / rank, because the method only gives an order."""
        ids = rank_passages(entities, k)
        if is_recording():
            record_ranking("passages", rank_passages(entities, max(k, DEEPEST)), k)
        records = fetch_records(self.passages, ids, HIT_FIELDS)
        known = records.column("id").to_pylist()
        return read_hits(SearchResult(known, 1.0 / np.arange(1, len(known) + 1), records), self.source)


# ---------------------------------------------------------------- look-ups


_ENTITY_FIELDS = ("passage_ids", "neighbours")
_FEW_PASSAGES = 1_000
"""The most passages by which entities are searched, which is faster if a filter passes few."""
_DEEPER = 4
"""If a filter leaves too few of the nearest entities, this many times as many are looked at."""


def search_entities(
    entities: Collection, vectors: Floats, passing: Sequence[frozenset[str] | None], count: int
) -> list[SearchResult]:
    """Return the `count` entities nearest to each vector of which all passages pass; None passes all.

    The fields are those of `read_nearby`.
    """
    results: dict[int, SearchResult] = {}
    pending, depth = list(range(len(passing))), count
    while pending:
        requests = [VectorQuery(vectors[n], depth, _ENTITY_FIELDS, _narrow_search(passing[n])) for n in pending]
        answers = list(zip(pending, entities.search(requests), strict=True))
        results |= {n: _keep_passing(answer, passing[n], count) for n, answer in answers}
        pending = [n for n, answer in answers if len(results[n].ids) < count and len(answer.ids) == depth]
        depth *= _DEEPER
    return [results[n] for n in range(len(passing))]


def describe_relations(
    graph: OpenEntityGraph, entities: Sequence[Nearby], each: int, passing: frozenset[str] | None
) -> list[Triple]:
    """Return the triples of the relations of the entities, `each` for every entity, those between two of them first."""
    ids = candidate_relations(entities, each)
    fields = ("source", "target", "triples", "weight", *_choose_fields(passing))
    rows = filter_rows(fetch_records(graph.relations, ids, fields).to_pylist(), passing)
    relations = rank_relations(entities, rows, each * len(entities))
    return [triple for row in relations for triple in from_json(row["triples"])]


def _narrow_search(passing: frozenset[str] | None) -> Overlaps | None:
    """Return a filter that passes all entities of which a passage passes, if these passages are few."""
    few = passing is not None and len(passing) <= _FEW_PASSAGES
    return Overlaps("passage_ids", tuple(sorted(passing))) if few and passing is not None else None


def _keep_passing(result: SearchResult, passing: frozenset[str] | None, most: int) -> SearchResult:
    """Return the first `most` entities of which all passages pass."""
    if passing is None:
        return result
    lists = result.records.column("passage_ids")
    outside = pc.invert(pc.is_in(lists.flatten(), value_set=pa.array(list(passing), pa.string())))
    failing = pc.list_parent_indices(lists).filter(outside).unique().to_pylist()
    rows = sorted(set(range(len(result.ids))).difference(failing))[:most]
    records = result.records.take(pa.array(rows, pa.int64()))
    return SearchResult([result.ids[row] for row in rows], result.scores[np.array(rows, np.int64)], records)


def _choose_fields(passing: frozenset[str] | None) -> tuple[str, ...]:
    """Return the field of passage ids if there is a filter.

    It is not read otherwise, because an entity of every passage has a very long list.
    """
    return () if passing is None else ("passage_ids",)
