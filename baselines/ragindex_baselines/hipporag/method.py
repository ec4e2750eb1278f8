"""HippoRAG: personalised PageRank over a graph of phrases, from the question's entities or from facts near it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer

from ragindex._util.kept_results import KeptResults
from ragindex.english import find_mentions
from ragindex.errors import MissingPartError
from ragindex.filters import Filter
from ragindex.interfaces import (
    Collection,
    Encoder,
    Floats,
    OpenIndex,
    Part,
    QueryEncoder,
    Retriever,
    Scheme,
    SearchResult,
    VectorQuery,
)
from ragindex.interfaces.llm import LLM
from ragindex.llm.tasks import Task
from ragindex.parts.records import Doubles
from ragindex.parts.text.passages import OVER_PASSAGES, Passages, PassagesField
from ragindex.parts.triples.sparse_graph import AnyIntegers
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.retrieval.fusion import normalize_scores, scores_differ
from ragindex.retrieval.hits import HIT_FIELDS, PassingRecords, check_queries, fetch_hits, read_hits
from ragindex.retrieval.stages import DEEPEST, is_recording, record_ranking, record_search
from ragindex.retrieval.trace import Trace
from ragindex.types import Hit, Query, Retrieval, Step, Triple
from ragindex_baselines.hipporag import weighted_graph
from ragindex_baselines.hipporag.fact_filter import FACT_FILTER, FactFilter
from ragindex_baselines.hipporag.phrase_graph import PhraseGraph, Phrases
from ragindex_baselines.hipporag.spread_vectors import PassageSpread, SpreadVectors
from ragindex_baselines.hipporag.weighted_graph import WeightedGraph, run_power_iteration

GraphField = Annotated[
    PhraseGraph, BeforeValidator(registry.part), PlainSerializer(registry.describe, return_type=dict[str, Any])
]


class HippoRAG(Scheme):
    """Passages ranked by personalised PageRank over a graph of phrases.

    `mode=entities` is HippoRAG (Gutiérrez et al., NeurIPS 2024). It starts at the phrase nearest to each
    entity that an LLM or the rules find in the question, walks among phrases only, and scores a passage by
    the sum over its phrases. `mode=facts` is HippoRAG 2 (Gutiérrez et al., ICML 2025). Passages are nodes of
    its graph. It starts at the phrases of the `facts` triples nearest to the question, and at all passages,
    weighted by `passage_weight` times their similarity to the question. With `filter=model` an LLM keeps those
    triples that help, as published; if it keeps none, passages are ranked by cosine. `walk` computes
    PageRank by `push`, which visits only what the walk reaches, to `tolerance`, or by `power` iteration over
    the whole graph.
    """

    version: ClassVar[int] = 2
    mode: Literal["entities", "facts"] = Field(
        default="entities",
        description="Start at entities of the question (HippoRAG), or at triples near it (HippoRAG 2).",
    )
    graph: GraphField = Field(default=PhraseGraph(), description="Graph of phrases and passages.")
    over: PassagesField = OVER_PASSAGES
    facts: int = Field(default=5, ge=1, description="With mode=facts: triples nearest the question.")
    filter: Literal["none", "model"] = Field(
        default="none", description="With mode=facts: use all these triples, or those that an LLM keeps."
    )
    passage_weight: float = Field(
        default=0.05, ge=0, description="With mode=facts: weight of passages in the reset distribution."
    )
    damping: float = Field(
        default=0.5, ge=0, lt=1, description="Probability of following an edge instead of resetting."
    )
    walk: Literal["push", "power"] = Field(
        default="push",
        description="How PageRank is computed: by local push, or by power iteration over the whole graph.",
    )
    tolerance: float = Field(default=3e-7, gt=0, lt=1, description="Residual at which the walk stops.")

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the graph and the passages' vectors.

        `mode=facts` adds the vectors of the triples, and with `walk=push` the spread vectors.
        """
        common: tuple[Part[Any], ...] = (self.graph, Vectors(of=Passages()))
        if self.mode == "entities":
            return common
        facts = (*common, Vectors(of=self.graph.over))
        return (*facts, self._spread()) if self.walk == "push" else facts

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the task of the question's entities, or that of the filter of facts."""
        if self.mode == "entities":
            return (QUESTION_ENTITIES,)
        return (FACT_FILTER,) if self.filter == "model" else ()

    def _open(self, index: OpenIndex) -> Retriever:
        """Open the retriever of the mode. Raises MissingPartError if a part is missing or of another corpus."""
        phrases, passages = index.open_part(self.graph), index.open_part(Vectors(of=Passages()))
        unfiltered = GraphWalk(phrases.graph, passages, self, registry.label(self))
        walks = FilteredWalks(unfiltered, phrases, PassingRecords(passages))
        if self.mode == "entities":
            return EntityRetriever(walks, index.encoder, index.llm)
        triples = index.open_part(Vectors(of=self.graph.over))
        spread = index.open_part(self._spread()) if self.walk == "push" else None
        if spread is not None and not spread.passages.equals(phrases.graph.passages):
            raise MissingPartError(
                f"The parts of {registry.label(self)} are of different corpora. "
                f"Run: ragindex index --index {index.folder} --methods '{registry.label(self)}'"
            )
        helpful = FactFilter(index.llm, index.language) if self.filter == "model" else None
        return FactRetriever(walks, triples, index.encoder, self.graph.key, spread, helpful)

    def _spread(self) -> SpreadVectors:
        return SpreadVectors(graph=self.graph, damping=self.damping)


# ---------------------------------------------------------------- the open retrievers


_NEAREST_PASSAGES, _REACHED_PASSAGES = 100, 1000
"""Minimum number of passages that are scored: those nearest to the question, and those the walk reaches most."""
_EQUAL_PHRASES = 20
"""Phrases among which equally near ones are looked for, so that neither engine nor processor decides between them."""
_DEEPER = 10
"""If a filter passes none of the nearest phrases, this many times as many are looked at."""
_KEPT_GRAPHS = 4
"""The number of filters whose sub-graph is kept: applications ask many questions with the filter of one user."""
_TRIPLE_FIELDS = ("subject", "predicate", "object")


@dataclass(frozen=True)
class GraphWalk:
    """State that both retrievers share: the graph, the passages with their vectors, and the walk over the graph."""

    graph: WeightedGraph
    passages: Collection
    settings: HippoRAG
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
            return weighted_graph.push(links, nodes, mass, settings.damping, settings.tolerance)
        reset = np.zeros(count)
        reset[nodes] = mass
        matrix = self.matrix[:count, :count]
        return run_power_iteration(matrix, links.degrees, reset, settings.damping, settings.tolerance)

    def best_hits(self, places: AnyIntegers, values: Doubles, k: int) -> tuple[Hit, ...]:
        """Return the `k` best passages as hits."""
        if is_recording():
            deepest = max(k, DEEPEST)
            ranked = weighted_graph.sort_best_first(places, values, deepest)[0][:deepest]
            record_ranking("passages", self.graph.passages.take(pa.array(ranked)).to_pylist(), k)
        places, values = weighted_graph.sort_best_first(places, values, k)
        ids = self.graph.passages.take(pa.array(places[:k])).to_pylist()
        return fetch_hits(self.passages, dict(zip(ids, values[:k].tolist(), strict=True)), self.source)


@dataclass(frozen=True)
class FilteredWalks:
    """The walks over the whole graph, and over the sub-graphs of the passages that pass the last filters."""

    unfiltered: GraphWalk
    phrases: Phrases
    passing: PassingRecords
    subgraphs: KeptResults[Filter, GraphWalk] = field(default_factory=lambda: KeptResults(_KEPT_GRAPHS))

    def within(self, where: Filter | None) -> GraphWalk:
        """Return the walks over what passes: edges of other passages' triples are not in the graph."""
        return self.unfiltered if where is None else self.subgraphs.find(where, lambda: self._restrict(where))

    def _restrict(self, where: Filter) -> GraphWalk:
        ids = pa.array(list(self.passing.find(where)), pa.large_string())
        passing = pc.is_in(self.unfiltered.graph.passages.cast(pa.large_string()), value_set=ids)
        return replace(self.unfiltered, graph=self.phrases.build_subgraph(passing.to_numpy(zero_copy_only=False)))


@dataclass(frozen=True, slots=True)
class EntityRetriever:
    """The open retriever of HippoRAG with `mode=entities`: HippoRAG as first published."""

    walks: FilteredWalks
    encoder: QueryEncoder
    llm: LLM

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer the questions one after the other."""
        check_queries(queries, k)
        return [self._retrieve_one(query, k) for query in queries]

    def _retrieve_one(self, query: Query, k: int) -> Retrieval:
        trace = Trace()
        names, walk = self._extract_entities(query, trace), self.walks.within(query.filter)
        start = time.perf_counter()
        entities = self._link_entities(names, walk.graph)
        nodes, mass = weighted_graph.entity_seeds(walk.graph.places(entities), walk.graph.passage_counts)
        linked = _trace_seeds(query, walk.graph, nodes, mass, _ms(start))
        start = time.perf_counter()
        sums = weighted_graph.phrase_sums(walk.graph, walk.among_phrases(nodes, mass))
        best = walk.best_hits(np.arange(len(sums)), sums, k)
        reached = Step(1, "passages", query.text, tuple(hit.id for hit in best), ms=_ms(start))
        trace.steps.extend((linked, reached))
        if len(best) == k:
            return Retrieval(best, tuple(trace.steps))
        others, near = self._by_cosine(query, {hit.id for hit in best}, k)
        return Retrieval((*best, *others)[:k], (*trace.steps, near))

    def _extract_entities(self, query: Query, trace: Trace) -> list[str]:
        """Return the entities that the question names, without duplicates in another case."""
        with trace.step(1, "question entities", query.text) as step:
            answer = self.llm.run(QUESTION_ENTITIES, {"question": query.text})
            names = list(
                {name.casefold(): name for entity in answer.entities if (name := " ".join(entity.split()))}.values()
            )
            step["note"] = ", ".join(names)
        return names

    def _link_entities(self, names: Sequence[str], graph: WeightedGraph) -> list[str]:
        """Return the phrase of the graph nearest to each name; of equally near ones the name itself, else the smallest.

        Phrases that no passage of a sub-graph contains and names without any phrase are left out.
        """
        vectors, linked = self.encoder.encode_passing(names), dict[int, str]()
        left, depth = list(range(len(names))), _EQUAL_PHRASES
        while left:
            answers = self.walks.phrases.vectors.search([VectorQuery(vectors[n], depth) for n in left])
            for n, answer in zip(left, answers, strict=True):
                rows = np.flatnonzero(graph.contains(answer.ids))
                if len(rows):
                    own, best = names[n].casefold(), answer.scores[rows[0]]
                    equal = [answer.ids[row] for row in rows if not scores_differ(answer.scores[row], best)]
                    linked[n] = own if own in equal else min(equal)
            full = {n for n, answer in zip(left, answers, strict=True) if len(answer.ids) == depth}
            left = [n for n in left if n in full and n not in linked]
            depth *= _DEEPER
        return [linked[n] for n in sorted(linked)]

    def _by_cosine(self, query: Query, reached: set[str], k: int) -> tuple[tuple[Hit, ...], Step]:
        """Return the passages that the walk did not reach, nearest first.

        Their scores are the cosine minus 1, so at most 0: they rank behind all passages that were reached.
        """
        (vector,) = self.encoder.encode_queries([query.text])
        start = time.perf_counter()
        near = tuple(hit for hit in _nearest_hits(self.walks.unfiltered, query, vector, k) if hit.id not in reached)
        note = f"The walk reached {len(reached)} passages; others follow by cosine."
        step = Step(1, "vectors", query.text, tuple(hit.id for hit in near), ms=_ms(start), note=note)
        return tuple(replace(hit, score=min(hit.score, 1.0) - 1) for hit in near), step


@dataclass(frozen=True, slots=True)
class FactRetriever:
    """The open retriever of HippoRAG with `mode=facts`: HippoRAG 2.

    Without `spread`, the walk is computed by power iteration. So it is with a filter, since the spread vectors are of
    a walk through all passages.
    """

    walks: FilteredWalks
    triples: Collection
    encoder: Encoder
    key: Callable[[str], str]
    spread: PassageSpread | None
    filter: FactFilter | None

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Answer all questions, with one batch of the encoder.

        Facts that do not pass a question's filter seed no walk.
        """
        check_queries(queries, k)
        vectors = self.encoder.encode_queries([query.text for query in queries])
        start = time.perf_counter()
        facts = self.facts(queries, vectors)
        ms = _ms(start) / max(1, len(queries))
        return [self._retrieve_one(*each, k, ms) for each in zip(queries, vectors, facts, strict=True)]

    def facts(self, queries: Sequence[Query], vectors: Floats) -> list[SearchResult]:
        """Return the triples nearest to each question that pass its filter; `vectors` is (queries, dimensions)."""
        count = self.walks.unfiltered.settings.facts
        searches = zip(queries, vectors, strict=True)
        nearest = [VectorQuery(vector, count, _TRIPLE_FIELDS, query.filter) for query, vector in searches]
        record_search("triples", self.triples, nearest, [query.text for query in queries])
        return self.triples.search(nearest)

    def seeds(self, facts: SearchResult, graph: WeightedGraph) -> tuple[AnyIntegers, Doubles]:
        """Return the phrases where the walk from these triples starts, as places, and their reset weights."""
        spelt = [row[side] for row in facts.records.to_pylist() for side in ("subject", "object")]
        sides = graph.places([self.key(phrase) for phrase in spelt]).reshape(-1, 2)
        return weighted_graph.fact_seeds(sides, facts.scores, graph.passage_counts)

    def _retrieve_one(self, query: Query, vector: Floats, result: SearchResult, k: int, searching: float) -> Retrieval:
        triples = tuple(Triple(*(row[side] for side in _TRIPLE_FIELDS)) for row in result.records.to_pylist())
        note = ", ".join(f"{score:.3f}" for score in result.scores)
        trace = Trace([Step(1, "triples", query.text, tuple(result.ids), triples, ms=searching, note=note)])
        if self.filter is not None and triples:
            result = self._keep_helpful(self.filter, query, result, triples, trace)
            if not result.ids:
                start = time.perf_counter()
                near = _nearest_hits(self.walks.unfiltered, query, vector, k)
                no_fact = "No fact helps: passages are ranked by cosine."
                step = Step(1, "vectors", query.text, tuple(hit.id for hit in near), ms=_ms(start), note=no_fact)
                return Retrieval(near, (*trace.steps, step))
        start = time.perf_counter()
        walk = self.walks.within(query.filter)
        nodes, mass = self.seeds(result, walk.graph)
        seeds = _trace_seeds(query, walk.graph, nodes, mass, _ms(start))
        start = time.perf_counter()
        places, values = (
            _walk_from_all(walk, query, vector, nodes, mass)
            if self.spread is None or query.filter is not None
            else _walk_around(walk, vector, nodes, mass, k, self.spread)
        )
        best = walk.best_hits(places, values, k)
        ranked = Step(1, "passages", query.text, tuple(hit.id for hit in best), ms=_ms(start))
        return Retrieval(best, (*trace.steps, seeds, ranked))

    @staticmethod
    def _keep_helpful(
        helpful: FactFilter, query: Query, result: SearchResult, triples: Sequence[Triple], trace: Trace
    ) -> SearchResult:
        """Return the facts that the filter keeps, with their scores."""
        with trace.step(1, "helpful triples", query.text) as step:
            rows = helpful.choose(query.text, triples)
            ids = [result.ids[row] for row in rows]
            step["ids"], step["triples"] = tuple(ids), tuple(triples[row] for row in rows)
        record_ranking("helpful triples", ids, query=query.text)
        return SearchResult(ids, result.scores[rows], result.records.take(pa.array(rows, pa.int64())))


def _nearest_hits(walk: GraphWalk, query: Query, vector: Floats, k: int) -> tuple[Hit, ...]:
    """Return the passages nearest to a question that pass its filter, by cosine."""
    by_meaning = [VectorQuery(vector, k, HIT_FIELDS, query.filter)]
    (result,) = walk.passages.search(by_meaning)
    record_search("vectors", walk.passages, by_meaning, [query.text])
    return read_hits(result, walk.source)


def _walk_around(
    walk: GraphWalk, vector: Floats, nodes: AnyIntegers, mass: Doubles, k: int, spread: PassageSpread
) -> tuple[AnyIntegers, Doubles]:
    """Score the passages that a walk from the seeds reaches, and those nearest to the question."""
    graph, settings = walk.graph, walk.settings
    values = weighted_graph.push(graph.all_edges, nodes, mass, settings.damping, settings.tolerance)[
        len(graph.phrases) :
    ]
    queries = [VectorQuery(vector, max(k, _NEAREST_PASSAGES)), VectorQuery(vector, 1), VectorQuery(-vector, 1)]
    near, nearest, farthest = walk.passages.search(queries)
    around = np.array([walk.places[id] for id in near.ids if id in walk.places], np.int64)
    places = np.union1d(weighted_graph.most(values, max(k, _REACHED_PASSAGES)), around)
    if not len(nearest.ids):
        return places, values[places]
    low, high = -float(farthest.scores[0]), float(nearest.scores[0])
    return places, values[places] + settings.passage_weight * spread.values(places, vector, low, high)


def _walk_from_all(
    walk: GraphWalk, query: Query, vector: Floats, nodes: AnyIntegers, mass: Doubles
) -> tuple[AnyIntegers, Doubles]:
    """Score all passages of the graph that pass the query's filter, by a walk over the whole graph."""
    graph, settings = walk.graph, walk.settings
    (near,) = walk.passages.search([VectorQuery(vector, max(1, walk.passages.count()), (), query.filter)])
    known = [(walk.places[id], row) for row, id in enumerate(near.ids) if id in walk.places]
    places, rows = np.array(known, np.int64).reshape(-1, 2).T
    reset = np.zeros(len(graph.degrees))
    reset[len(graph.phrases) + places] = settings.passage_weight * normalize_scores(near.scores)[rows]
    reset[nodes] = mass
    values = run_power_iteration(walk.matrix, graph.degrees, reset, settings.damping, settings.tolerance)
    return np.arange(len(graph.passages)), values[len(graph.phrases) :]


def _trace_seeds(query: Query, graph: WeightedGraph, nodes: AnyIntegers, mass: Doubles, ms: float) -> Step:
    """Return a trace step with the seeds, heaviest first, and their reset weights as a note."""
    order = np.lexsort((nodes, -mass))
    phrases = tuple(graph.phrases.take(pa.array(nodes[order], pa.int64())).to_pylist())
    return Step(1, "phrases", query.text, phrases, ms=ms, note=", ".join(f"{weight:.3g}" for weight in mass[order]))


def _ms(start: float) -> float:
    return (time.perf_counter() - start) * 1e3


# ---------------------------------------------------------------- the LLM task


class QuestionEntities(BaseModel):
    """The entities that a question names, in its own words."""

    entities: list[str]


def name_entities_by_rule(inputs: Mapping[str, Any]) -> QuestionEntities:
    """Return the names, quoted titles and dates in a question; bare numbers are not entities."""
    mentions = find_mentions(inputs["question"])
    return QuestionEntities(entities=[mention.text for mention in mentions if mention.kind != "number"])


QUESTION_ENTITIES: Task[QuestionEntities] = Task(
    name="question-entities",
    version=1,
    prompt=Path(__file__).with_name("prompts") / "question_entities.jinja",
    output=QuestionEntities,
    rule=name_entities_by_rule,
    max_tokens=300,
)
