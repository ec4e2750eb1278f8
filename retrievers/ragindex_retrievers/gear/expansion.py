"""Graph expansion around a base retriever: NaiveGE, and the search that SyncGE shares (GeAR, section 4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from ragindex.encoders.vector_cache import share_question_vectors
from ragindex.interfaces import Collection, Floats, QueryEncoder, Retriever, SearchResult
from ragindex.parts.records import Integers
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.retrieval.hits import HIT_FIELDS, check_queries, fetch_records, read_hits
from ragindex.retrieval.trace import Trace
from ragindex.types import Hit, Query, Retrieval
from ragindex_retrievers.gear.beams import Beams, Search, flatten, search_beams
from ragindex_retrievers.gear.parts.triple_graph import NeighbourGraph
from ragindex_retrievers.gear.space import Space, StoreSpace, TriplesInMemory, triples_in_memory, unit

_TRACE_LENGTH = 20
"""Maximum number of chains in a trace."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """Fused hits, and the ids of the passages that the chains alone led to, best first."""

    hits: tuple[Hit, ...]
    found: tuple[str, ...]


@dataclass(frozen=True)
class Expansion:
    """Beam search through the triples of an index, fused with the hits of a base. Thread-safe."""

    graph: NeighbourGraph
    triples: Collection
    passages: Collection
    encoder: QueryEncoder
    search: Search
    order: Literal["nearest", "index"]
    flat: Literal["level", "beam"]
    rrf_k: float
    source: str

    def space(self, query: Query, vector: Floats) -> Space:
        """Return the search space of the triples for one question.

        The store is queried if graph or vectors are not in memory, or if the query has a filter.
        """
        in_memory = self._held if query.filter is None else None
        if in_memory is not None:
            return in_memory.space(vector)
        return StoreSpace(self.graph, self.triples, unit(vector), self.order, query.filter)

    def expand(
        self, space: Space, initial: Integers, base: Sequence[Hit], trace: Trace, query: Query, n: int = 1
    ) -> "Expanded":
        """Search from the triples `initial`, and fuse the passages of the chains with those of the base (Eq. 3)."""
        with trace.step(n, "triple beams", query.text) as step:
            beams = search_beams(space, initial, self.search, self.encoder.encode_passing)
            order = flatten(beams, self.flat)
            records = dict(zip(order, space.records(order), strict=True))
            found = tuple(dict.fromkeys(records[place].passage_id for place in order))
            step["ids"] = found
            step["paths"] = tuple(
                tuple(records[place].triple for place in path) for path in beams.paths()[:_TRACE_LENGTH]
            )
            step["scores"] = tuple(beams.scores[:_TRACE_LENGTH].tolist())
            step["note"] = _describe_search(beams, len(initial))
        return Expanded(self.fused([found, [hit.id for hit in base]], base), found)

    def fused(self, rankings: Sequence[Sequence[str]], known: Iterable[Hit]) -> tuple[Hit, ...]:
        """Fuse rankings of ids by reciprocal rank fusion, and return the hits.

        Ids that are not among the hits `known` are looked up as passages.
        """
        by_id = {hit.id: hit for hit in known}
        fused = reciprocal_rank_fusion(rankings, self.rrf_k)
        missing = [id for id, _ in fused if id not in by_id]
        by_id |= {hit.id: hit for hit in self._passages(missing)}
        return tuple(replace(by_id[id], score=score, source=self.source) for id, score in fused if id in by_id)

    def _passages(self, ids: Sequence[str]) -> tuple[Hit, ...]:
        if not ids:
            return ()
        records = fetch_records(self.passages, ids, HIT_FIELDS)
        return read_hits(SearchResult(records.column("id").to_pylist(), np.zeros(len(records)), records), self.source)

    @cached_property
    def _held(self) -> TriplesInMemory | None:
        return triples_in_memory(self.graph, self.triples, self.order)


def _describe_search(beams: Beams, initial: int) -> str:
    return f"{initial:,} triples to start from, {beams.considered:,} chains considered, {beams.encoded:,} encoded"


@dataclass(frozen=True, slots=True)
class NaiveRetriever:
    """Retriever of NaiveGE: expands each question from all triples of the base's passages (section 6.2)."""

    base: Retriever
    base_k: int | None
    expansion: Expansion

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the best k hits per query. The base answers all queries in one call; each is then expanded alone."""
        check_queries(queries, k)
        with share_question_vectors():
            found = self.base.retrieve(queries, self.base_k or k)
            vectors = self.expansion.encoder.encode_queries([query.text for query in queries])
        return [self._expanded(*one, k) for one in zip(queries, vectors, found, strict=True)]

    def _expanded(self, query: Query, vector: Floats, base: Retrieval, k: int) -> Retrieval:
        trace = Trace()
        trace.of_base(base.trace, 1)
        space = self.expansion.space(query, vector)
        passages = dict.fromkeys(id for hit in base.hits for id in hit.passage_ids)
        initial = space.of_passages(list(passages))
        expanded = self.expansion.expand(space, initial, base.hits, trace, query)
        return Retrieval(expanded.hits[:k], tuple(trace.steps), base.notes)
