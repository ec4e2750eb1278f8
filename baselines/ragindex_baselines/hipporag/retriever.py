"""The two retrievers of HippoRAG: from the entities that a question names, and from the facts nearest to it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ragindex.filters import Filter, Ids, combine_filters
from ragindex.interfaces import Collection, Encoder, FilterQuery, Floats, QueryEncoder, SearchResult, VectorQuery
from ragindex.llm.tasks import LLM
from ragindex.parts.support.arrays import Doubles
from ragindex.parts.triples.sparse_graph import AnyIntegers
from ragindex.retrieval.fusion import normalize_scores, scores_differ
from ragindex.retrieval.hits import HIT_FIELDS, check_queries, fetch_records, read_hits
from ragindex.retrieval.trace import Trace
from ragindex.types import Hit, Query, Retrieval, Step, Triple
from ragindex_baselines.hipporag import steps
from ragindex_baselines.hipporag.parameters import HippoRAGParameters
from ragindex_baselines.hipporag.parts.spread_vectors import PassageSpread
from ragindex_baselines.hipporag.tasks import QUESTION_ENTITIES
from ragindex_baselines.hipporag.weighted_graph import WeightedGraph, run_power_iteration

_NEAREST_PASSAGES, _REACHED_PASSAGES = 100, 1000
"""Minimum number of passages that are scored: those nearest to the question, and those the walk reaches most."""
_EQUAL_PHRASES = 20
"""Phrases among which equally near ones are looked for, so that neither engine nor processor decides between them."""
_BLOCK = 500
_TRIPLE_FIELDS = ("subject", "predicate", "object")


@dataclass(frozen=True)
class Walked:
    """State that both retrievers share: the graph, the passages with their vectors, and the walk over the graph."""

    graph: WeightedGraph
    passages: Collection
    settings: HippoRAGParameters
    source: str

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Return the place of each passage among the sorted ids."""
        return {id: place for place, id in enumerate(self.graph.passages.to_pylist())}

    @cached_property
    def matrix(self) -> Any:
        """Return the whole graph as a matrix, for power iteration."""
        return self.graph.matrix()

    def among_phrases(self, nodes: AnyIntegers, mass: Doubles) -> Doubles:
        """Return the values (phrases,) of a walk that never leaves the phrases."""
        settings, links, count = self.settings, self.graph.among_phrases, len(self.graph.phrases)
        if settings.walk == "push":
            return steps.push(links, nodes, mass, settings.damping, settings.tolerance)
        reset = np.zeros(count)
        reset[nodes] = mass
        matrix = self.matrix[:count, :count]
        return run_power_iteration(matrix, links.degrees, reset, settings.damping, settings.tolerance)

    def found(self, query: Query, places: AnyIntegers, values: Doubles, k: int) -> tuple[Hit, ...]:
        """Return the `k` best passages that pass the query's filter, as hits."""
        places, values = steps.sort_best_first(places, values, k if query.filter is None else None)
        scores: dict[str, float] = {}
        size = k if query.filter is None else _BLOCK
        for start in range(0, len(places), size):
            ids = self.graph.passages.take(pa.array(places[start : start + size])).to_pylist()
            passing = self._passing(ids, query.filter)
            block = zip(ids, values[start : start + size].tolist(), strict=True)
            scores |= {id: value for id, value in block if id in passing}
            if len(scores) >= k:
                break
        records = fetch_records(self.passages, list(scores)[:k], HIT_FIELDS)
        ids = records.column("id").to_pylist()
        return read_hits(SearchResult(ids, np.array([scores[id] for id in ids]), records), self.source)

    def _passing(self, ids: Sequence[str], where: Filter | None) -> set[str]:
        if where is None:
            return set(ids)
        (found,) = self.passages.search([FilterQuery(combine_filters(Ids(tuple(ids)), where), len(ids))])
        return set(found.ids)


@dataclass(frozen=True, slots=True)
class EntityRetriever:
    """The open retriever of HippoRAG with `mode=entities`: HippoRAG as first published."""

    walked: Walked
    phrases: Collection
    encoder: QueryEncoder
    llm: LLM

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer the questions one after the other."""
        check_queries(queries, k)
        return [self._one(query, k) for query in queries]

    def _one(self, query: Query, k: int) -> Retrieval:
        trace = Trace()
        named = self._named(query, trace)
        start = time.perf_counter()
        found = self._linked(named)
        nodes, mass = steps.entity_seeds(self.walked.graph.places(found), self.walked.graph.held)
        linked = _trace_seeds(query, self.walked.graph, nodes, mass, _ms(start))
        start = time.perf_counter()
        sums = steps.phrase_sums(self.walked.graph, self.walked.among_phrases(nodes, mass))
        best = self.walked.found(query, np.arange(len(sums)), sums, k)
        reached = Step(1, "passages", query.text, tuple(hit.id for hit in best), ms=_ms(start))
        trace.steps.extend((linked, reached))
        if len(best) == k:
            return Retrieval(best, tuple(trace.steps))
        others, near = self._by_cosine(query, {hit.id for hit in best}, k)
        return Retrieval((*best, *others)[:k], (*trace.steps, near))

    def _named(self, query: Query, trace: Trace) -> list[str]:
        """Return the entities that the question names, without duplicates in another case."""
        with trace.step(1, "question entities", query.text) as step:
            answer = self.llm.run(QUESTION_ENTITIES, {"question": query.text})
            named = list({name.casefold(): name for one in answer.entities if (name := " ".join(one.split()))}.values())
            step["note"] = ", ".join(named)
        return named

    def _linked(self, named: Sequence[str]) -> list[str]:
        """Return the phrase nearest to each name; of equally near ones the name itself, else the smallest id."""
        vectors = self.encoder.encode_passing(named)
        near = self.phrases.search([VectorQuery(vector, _EQUAL_PHRASES) for vector in vectors])
        return [_choose_phrase(name, found) for name, found in zip(named, near, strict=True) if found.ids]

    def _by_cosine(self, query: Query, reached: set[str], k: int) -> tuple[tuple[Hit, ...], Step]:
        """Return the passages that the walk did not reach, nearest first.

        Their scores are the cosine minus 1, so at most 0: they rank behind all passages that were reached.
        """
        (vector,) = self.encoder.encode_queries([query.text])
        start = time.perf_counter()
        (found,) = self.walked.passages.search([VectorQuery(vector, k, HIT_FIELDS, query.filter)])
        near = tuple(hit for hit in read_hits(found, self.walked.source) if hit.id not in reached)
        note = f"The walk reached {len(reached)} passages; others follow by cosine."
        step = Step(1, "vectors", query.text, tuple(hit.id for hit in near), ms=_ms(start), note=note)
        return tuple(replace(hit, score=min(hit.score, 1.0) - 1) for hit in near), step


@dataclass(frozen=True, slots=True)
class FactRetriever:
    """The open retriever of HippoRAG with `mode=facts`: HippoRAG 2 without its LLM filter.

    Without `spread`, the walk is computed by power iteration.
    """

    walked: Walked
    triples: Collection
    encoder: Encoder
    key: Callable[[str], str]
    spread: PassageSpread | None

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer all questions, with one batch of the encoder.

        Facts that do not pass a question's filter seed no walk.
        """
        check_queries(queries, k)
        vectors = self.encoder.encode_queries([query.text for query in queries])
        start = time.perf_counter()
        found = self.facts(queries, vectors)
        ms = _ms(start) / max(1, len(queries))
        return [self._one(*each, k, ms) for each in zip(queries, vectors, found, strict=True)]

    def facts(self, queries: Sequence[Query], vectors: Floats) -> list[SearchResult]:
        """Return the triples nearest to each question that pass its filter; `vectors` is (queries, dimensions)."""
        count = self.walked.settings.facts
        asked = zip(queries, vectors, strict=True)
        return self.triples.search(
            [VectorQuery(vector, count, _TRIPLE_FIELDS, query.filter) for query, vector in asked]
        )

    def seeds(self, facts: SearchResult) -> tuple[AnyIntegers, Doubles]:
        """Return the phrases where the walk from these triples starts, as places, and their reset weights."""
        spelt = [row[side] for row in facts.records.to_pylist() for side in ("subject", "object")]
        sides = self.walked.graph.places([self.key(phrase) for phrase in spelt]).reshape(-1, 2)
        return steps.fact_seeds(sides, facts.scores, self.walked.graph.held)

    def _one(self, query: Query, vector: Floats, found: SearchResult, k: int, searching: float) -> Retrieval:
        triples = tuple(Triple(*(row[side] for side in _TRIPLE_FIELDS)) for row in found.records.to_pylist())
        note = ", ".join(f"{score:.3f}" for score in found.scores)
        facts = Step(1, "triples", query.text, tuple(found.ids), triples, ms=searching, note=note)
        start = time.perf_counter()
        graph = self.walked.graph
        nodes, mass = self.seeds(found)
        seeds = _trace_seeds(query, graph, nodes, mass, _ms(start))
        start = time.perf_counter()
        places, values = (
            self._over_all(vector, nodes, mass)
            if self.spread is None
            else self._around(query, vector, nodes, mass, k, self.spread)
        )
        best = self.walked.found(query, places, values, k)
        ranked = Step(1, "passages", query.text, tuple(hit.id for hit in best), ms=_ms(start))
        return Retrieval(best, (facts, seeds, ranked))

    def _around(
        self, query: Query, vector: Floats, nodes: AnyIntegers, mass: Doubles, k: int, spread: PassageSpread
    ) -> tuple[AnyIntegers, Doubles]:
        """Score the passages that a walk from the seeds reaches, and those nearest to the question."""
        graph, settings = self.walked.graph, self.walked.settings
        values = steps.push(graph.whole, nodes, mass, settings.damping, settings.tolerance)[len(graph.phrases) :]
        wanted = [
            VectorQuery(vector, max(k, _NEAREST_PASSAGES), (), query.filter),
            VectorQuery(vector, 1),
            VectorQuery(-vector, 1),
        ]
        near, nearest, farthest = self.walked.passages.search(wanted)
        around = np.array([self.walked.places[id] for id in near.ids if id in self.walked.places], np.int64)
        places = np.union1d(steps.most(values, max(k, _REACHED_PASSAGES)), around)
        if not len(nearest.ids):
            return places, values[places]
        low, high = -float(farthest.scores[0]), float(nearest.scores[0])
        return places, values[places] + settings.passage_weight * spread.values(places, vector, low, high)

    def _over_all(self, vector: Floats, nodes: AnyIntegers, mass: Doubles) -> tuple[AnyIntegers, Doubles]:
        """Score all passages, by a walk over the whole graph."""
        graph, settings = self.walked.graph, self.walked.settings
        (near,) = self.walked.passages.search([VectorQuery(vector, max(1, self.walked.passages.count()))])
        known = [(self.walked.places[id], row) for row, id in enumerate(near.ids) if id in self.walked.places]
        places, rows = np.array(known, np.int64).reshape(-1, 2).T
        reset = np.zeros(len(graph.degrees))
        reset[len(graph.phrases) + places] = settings.passage_weight * normalize_scores(near.scores)[rows]
        reset[nodes] = mass
        values = run_power_iteration(self.walked.matrix, graph.degrees, reset, settings.damping, settings.tolerance)
        return np.arange(len(graph.passages)), values[len(graph.phrases) :]


def _choose_phrase(name: str, found: SearchResult) -> str:
    own, best = name.casefold(), found.scores[0]
    equal = [id for id, score in zip(found.ids, found.scores, strict=True) if not scores_differ(score, best)]
    return own if own in equal else min(equal)


def _trace_seeds(query: Query, graph: WeightedGraph, nodes: AnyIntegers, mass: Doubles, ms: float) -> Step:
    """Return a trace step with the seeds, heaviest first, and their reset weights as a note."""
    order = np.lexsort((nodes, -mass))
    phrases = tuple(graph.phrases.take(pa.array(nodes[order], pa.int64())).to_pylist())
    return Step(1, "phrases", query.text, phrases, ms=ms, note=", ".join(f"{weight:.3g}" for weight in mass[order]))


def _ms(start: float) -> float:
    return (time.perf_counter() - start) * 1e3
