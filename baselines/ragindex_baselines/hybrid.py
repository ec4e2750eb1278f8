"""Hybrid retrieval: several schemes, by default BM25 and dense, fused by their ranks or by their scores."""

import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ragindex.filters import Ids
from ragindex.interfaces import (
    FilterQuery,
    OpenIndex,
    Retriever,
    Scheme,
    SearchingRetriever,
    SearchResult,
)
from ragindex.parts.text.passages import Passages
from ragindex.plugins.registry import PartField, SchemeField, label, searched_by
from ragindex.retrieval.fusion import convex_combination, reciprocal_rank_fusion
from ragindex.retrieval.hits import HIT_FIELDS, check_queries, read_hits
from ragindex.retrieval.stages import record_ranking, record_search
from ragindex.stores.metered import search_together
from ragindex.types import Hit, Query, Retrieval, Step
from ragindex_baselines.bm25 import BM25
from ragindex_baselines.dense import Dense

_EQUAL = 0.5  # the weight of two bases that count alike


class Hybrid(Scheme):
    """Keyword search and search by meaning, or other `bases`, fused into one ranking.

    The `depth` best results of each base are fused. `fusion=rrf` fuses ranks (Cormack et al. 2009); depth 100 and the
    constant 60 are customary, and the papers that are compared here state neither. `fusion=convex` is the weighted
    mean of the scores, min-max normalized for each question and base over these results (Bruch et al. 2023): `weight`
    is that of the second base.
    """

    version: ClassVar[int] = 1
    order_depends_on_filter: ClassVar[bool] = True
    bases: tuple[SchemeField, ...] | None = Field(
        default=None, min_length=1, description="Retrievers to fuse. null: BM25 and dense."
    )
    over: Annotated[PartField, searched_by("text", "vectors")] = Field(
        default=Passages(), description="Part whose records are searched."
    )
    depth: int = Field(default=100, ge=1, description="Results of each base that are fused.")
    fusion: Literal["rrf", "convex"] = Field(
        default="rrf", description="Reciprocal rank fusion, or the weighted mean of normalized scores."
    )
    rrf_k: float = Field(default=60, ge=0, description="Constant of reciprocal rank fusion (k in Cormack et al. 2009).")
    weight: float = Field(
        default=_EQUAL,
        ge=0,
        le=1,
        description="With fusion=convex: weight of the second of two bases, by default dense.",
    )

    @model_validator(mode="after")
    def _check_weight(self) -> Self:
        if self.weight != _EQUAL and len(self.base_schemes()) != 2:
            raise ValueError(f"weight needs two bases, got {len(self.base_schemes())}; others have equal weights")
        return self

    def base_schemes(self) -> tuple[Scheme, ...]:
        """Return the given bases, or BM25 and dense."""
        return self.bases or (BM25(over=self.over), Dense(over=self.over))

    def depends_on_k(self, k: int) -> bool:
        """Return True for k above `depth`, where more ranks are fused, or if a base depends on k."""
        return k > self.depth or super().depends_on_k(k)

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever that asks every base for each question."""
        bases = tuple(base.open(index) for base in self.base_schemes())
        return HybridRetriever(bases, self, label(self))


@dataclass(frozen=True, slots=True)
class HybridRetriever:
    """The open retriever of Hybrid."""

    bases: tuple[Retriever, ...]
    settings: Hybrid
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Ask each base for the larger of depth and k results for all questions, and fuse them.

        Bases that only search a collection are asked together, for ids alone: most hits contribute only their
        rank.
        """
        check_queries(queries, k)
        searching = [base for base in self.bases if isinstance(base, SearchingRetriever)]
        if len(searching) == len(self.bases):
            return self._at_once(searching, queries, k)
        answers = [base.retrieve(queries, max(self.settings.depth, k)) for base in self.bases]
        return [self._join(answer, k) for answer in zip(*answers, strict=True)]

    def _fuse(self, rankings: Sequence[Sequence[tuple[str, float]]], k: int) -> list[tuple[str, float]]:
        """Return the k best ids of the bases' rankings, with their fused scores."""
        if self.settings.fusion == "rrf":
            fused = reciprocal_rank_fusion([[id for id, _ in each] for each in rankings], self.settings.rrf_k)
        else:
            weight = self.settings.weight
            weights = (1 - weight, weight) if len(rankings) == 2 else (1.0,) * len(rankings)
            fused = convex_combination(rankings, weights)
        record_ranking("fusion", (id for id, _ in fused), k)
        return fused[:k]

    def _at_once(self, bases: Sequence[SearchingRetriever], queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Run all searches without fields, then read the records of the k best: two calls of the store."""
        searches = [(base.collection, base.requests(queries, max(self.settings.depth, k), ())) for base in bases]
        start = time.perf_counter()
        results = list(zip(*search_together(searches), strict=True))
        ms = (time.perf_counter() - start) * 1e3 / max(1, len(queries) * len(bases))
        texts = [query.text for query in queries]
        for base, (collection, requests) in zip(bases, searches, strict=True):
            record_search(base.step, collection, requests, texts)
        fused = [
            self._fuse([list(zip(result.ids, result.scores.tolist(), strict=True)) for result in each], k)
            for each in results
        ]
        known = self._read(bases, results, {id for best in fused for id, _ in best})
        answers = []
        for query, each, best in zip(queries, results, fused, strict=True):
            steps = [
                Step(1, base.step, query.text, tuple(result.ids), ms=ms)
                for base, result in zip(bases, each, strict=True)
            ]
            answers.append(Retrieval(tuple(replace(known[id], score=score) for id, score in best), tuple(steps)))
        return answers

    def _read(
        self, bases: Sequence[SearchingRetriever], results: Sequence[Sequence[SearchResult]], hit_ids: Set[str]
    ) -> dict[str, Hit]:
        """Read the hits of the given ids, each from the collection of the first base that found it."""
        place = {id: n for each in results for n in reversed(range(len(bases))) for id in each[n].ids if id in hit_ids}
        searches = []
        for n, base in enumerate(bases):
            ids = tuple(sorted(id for id, first in place.items() if first == n))
            searches.append((base.collection, [FilterQuery(Ids(ids), len(ids), HIT_FIELDS)] if ids else []))
        return {
            hit.id: hit
            for answers in search_together(searches)
            for answer in answers
            for hit in read_hits(answer, self.source)
        }

    def _join(self, retrievals: Sequence[Retrieval], k: int) -> Retrieval:
        by_id: dict[str, Hit] = {hit.id: hit for retrieval in reversed(retrievals) for hit in retrieval.hits}
        fused = self._fuse([[(hit.id, hit.score) for hit in retrieval.hits] for retrieval in retrievals], k)
        best = tuple(replace(by_id[id], score=score, source=self.source) for id, score in fused)
        trace = tuple(step for retrieval in retrievals for step in retrieval.trace)
        return Retrieval(best, trace, tuple(note for retrieval in retrievals for note in retrieval.notes))
