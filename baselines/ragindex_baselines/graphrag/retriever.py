"""Local search: from the entities nearest to the question to passages, relations and reports."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragindex.filters import Filter, Terms
from ragindex.interfaces import Collection, Encoder, SearchResult, VectorQuery
from ragindex.retrieval.hits import HIT_FIELDS, check_queries, fetch_records, read_hits
from ragindex.types import Hit, Query, Retrieval, Step, Triple
from ragindex_baselines.graphrag import steps
from ragindex_baselines.graphrag.parameters import GraphRAGParameters
from ragindex_baselines.graphrag.parts.communities import Reports
from ragindex_baselines.graphrag.parts.entity_graph import OpenEntityGraph
from ragindex_baselines.graphrag.steps import Nearby


@dataclass(frozen=True, slots=True)
class GraphRAGRetriever:
    """The open retriever of GraphRAG."""

    passages: Collection
    entities: Collection
    graph: OpenEntityGraph
    communities: Reports
    encoder: Encoder
    settings: GraphRAGParameters
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer all questions, with one batch of the encoder and one search for entities."""
        check_queries(queries, k)
        passing = [self._passing(query.filter) for query in queries]
        vectors = self.encoder.encode_queries([query.text for query in queries])
        start = time.perf_counter()
        requests = [
            VectorQuery(vector, self.settings.entities, ("passage_ids", "neighbours"), _build_filter(ids))
            for vector, ids in zip(vectors, passing, strict=True)
        ]
        found = self.entities.search(requests)
        ms = (time.perf_counter() - start) * 1e3 / max(1, len(queries))
        return [
            self._retrieval(query, entities, ids, k, ms)
            for query, entities, ids in zip(queries, found, passing, strict=True)
        ]

    def _passing(self, where: Filter | None) -> frozenset[str] | None:
        """Return the passages that pass a query's filter, None without a filter."""
        if where is None:
            return None
        return frozenset(id for batch in self.passages.scan((), where) for id in batch.column("id").to_pylist())

    def _retrieval(
        self, query: Query, found: SearchResult, passing: frozenset[str] | None, k: int, searching: float
    ) -> Retrieval:
        entities = steps.read_nearby(found)
        start = time.perf_counter()
        best = self._hits(entities, k, passing)
        moments = [time.perf_counter()]
        triples = self._triples(entities, passing)
        moments.append(time.perf_counter())
        ids, reports = self._reports(entities, passing)
        notes = steps.write_notes(reports, triples, self.settings.note_tokens, self.settings.relation_tokens)
        moments.append(time.perf_counter())
        times = np.diff([start, *moments]) * 1e3
        trace = (
            Step(1, "entities", query.text, tuple(found.ids), ms=searching),
            Step(1, "passages", "", tuple(hit.id for hit in best), ms=times[0]),
            Step(1, "relations", "", triples=tuple(triples), ms=times[1]),
            Step(1, "communities", "", tuple(ids), ms=times[2]),
        )
        return Retrieval(best, trace, notes)

    def _hits(self, entities: Sequence[Nearby], k: int, passing: frozenset[str] | None) -> tuple[Hit, ...]:
        """Return the ranked passages as hits. Scores are 1 / rank, because the method only gives an order."""
        ids = steps.rank_passages(entities, k, passing)
        records = fetch_records(self.passages, ids, HIT_FIELDS)
        kept = records.column("id").to_pylist()
        return read_hits(SearchResult(kept, 1.0 / np.arange(1, len(kept) + 1), records), self.source)

    def _triples(self, entities: Sequence[Nearby], passing: frozenset[str] | None) -> list[Triple]:
        ids = steps.candidate_relations(entities, self.settings.relations)
        fields = ("source", "target", "triples", "weight", *_choose_fields(passing))
        rows = steps.filter_rows(fetch_records(self.graph.relations, ids, fields).to_pylist(), passing)
        return steps.collect_triples(steps.rank_relations(entities, rows, self.settings.relations * len(entities)))

    def _reports(self, entities: Sequence[Nearby], passing: frozenset[str] | None) -> tuple[list[str], list[str]]:
        """Return the ids of the entities' communities that have a report, and the reports."""
        keys = [entity.key for entity in entities]
        ids = steps.rank_communities(fetch_records(self.communities.memberships, keys, ("community",)).to_pylist())
        found = fetch_records(self.communities.reports, ids, ("text", *_choose_fields(passing)))
        rows = steps.filter_rows(found.to_pylist(), passing)
        return [row["id"] for row in rows], [row["text"] for row in rows]


def _build_filter(passing: frozenset[str] | None) -> Terms | None:
    return None if passing is None else Terms("passage_ids", tuple(sorted(passing)))


def _choose_fields(passing: frozenset[str] | None) -> tuple[str, ...]:
    """Return the field of passage ids if there is a filter.

    It is not read otherwise, because an entity of every passage has a very long list.
    """
    return () if passing is None else ("passage_ids",)
