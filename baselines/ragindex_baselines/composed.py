"""Composed retrieval: a vector search within the candidates of BM25 (GRIEVER, section 4.2.2; reading V5)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ragindex.filters import Ids
from ragindex.interfaces import (
    Collection,
    Encoder,
    OpenIndex,
    Part,
    Retriever,
    Scheme,
    SearchResult,
    TextQuery,
    VectorQuery,
)
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import vectors_of
from ragindex.plugins.registry import PartField, label, searched_by
from ragindex.retrieval.fusion import normalize_scores, reciprocal_rank_fusion
from ragindex.retrieval.hits import HIT_FIELDS, check_queries, read_hits
from ragindex.retrieval.stages import record_ranking, record_search
from ragindex.types import Query, Retrieval, Step


class Composed(Scheme):
    """Keyword search whose best results are ranked again by their cosines with the question.

    The `candidate_factor` * k best of BM25 are ranked again. `composed_score` is the score of a candidate: `cosine`
    alone (reading V5), the `sum` of both scores, `rrf` of both ranks, or `weighted`: `weight` times the cosine plus 1
    - `weight` times the BM25 score, both scaled to [0, 1] over the candidates. The paper announces a score but does
    not give it, nor the number of candidates.
    """

    version: ClassVar[int] = 1
    order_depends_on_filter: ClassVar[bool] = True
    over: Annotated[PartField, searched_by("text", "vectors")] = Field(
        default=Passages(), description="Part whose records are searched."
    )
    candidate_factor: int = Field(default=10, ge=1, description="BM25 candidates per result: candidate_factor * k.")
    composed_score: Literal["cosine", "sum", "rrf", "weighted"] = Field(
        default="cosine",
        description="Score of a candidate: its cosine, the sum of both scores, reciprocal rank fusion, or a "
        "weighted sum (V5).",
    )
    weight: float = Field(default=0.5, ge=0, le=1, description="With composed_score=weighted: weight of the cosine.")
    rrf_k: float = Field(default=60, ge=0, description="Constant of reciprocal rank fusion.")

    def depends_on_k(self, k: int) -> bool:
        """Return True: the number of candidates grows with k."""
        return True

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the part that is searched, and its vectors."""
        return (self.over, vectors_of(self.over))

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever that encodes each question and runs two searches."""
        text, vectors = index.open_part(self.over), index.open_part(vectors_of(self.over))
        return ComposedRetriever(text, vectors, index.encoder, self, label(self))


@dataclass(frozen=True, slots=True)
class ComposedRetriever:
    """The open retriever of Composed."""

    text: Collection
    vectors: Collection
    encoder: Encoder
    settings: Composed
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Search for all questions with one batch of the encoder and two calls of the store."""
        check_queries(queries, k)
        depth = self.settings.candidate_factor * k
        encoded = self.encoder.encode_queries([query.text for query in queries])
        start = time.perf_counter()
        by_words = [TextQuery(query.text, depth, (), query.filter) for query in queries]
        candidates = self.text.search(by_words)
        between = time.perf_counter()
        limit = k if self.settings.composed_score == "cosine" else depth
        by_meaning = [
            VectorQuery(vector, limit, HIT_FIELDS, Ids(tuple(matched.ids)))
            for vector, matched in zip(encoded, candidates, strict=True)
        ]
        results = self.vectors.search(by_meaning)
        share = 1e3 / max(1, len(queries))
        times = ((between - start) * share, (time.perf_counter() - between) * share)
        texts = [query.text for query in queries]
        record_search("text", self.text, by_words, texts)
        record_search("vectors", self.vectors, by_meaning, texts)
        return [
            self._retrieval(query, matched, near, k, times)
            for query, matched, near in zip(queries, candidates, results, strict=True)
        ]

    def _retrieval(
        self, query: Query, matched: SearchResult, near: SearchResult, k: int, times: tuple[float, float]
    ) -> Retrieval:
        ranked = near if self.settings.composed_score == "cosine" else _rank_candidates(self.settings, matched, near, k)
        first = Step(1, "text", query.text, tuple(matched.ids), ms=times[0])
        second = Step(1, "vectors", query.text, tuple(near.ids), ms=times[1])
        return Retrieval(read_hits(ranked, self.source), (first, second))


def _rank_candidates(settings: Composed, matched: SearchResult, near: SearchResult, k: int) -> SearchResult:
    """Return the candidates that have a cosine, sorted by the combined score."""
    if settings.composed_score == "rrf":
        scores = dict(reciprocal_rank_fusion([matched.ids, near.ids], settings.rrf_k))
    else:
        lexical = dict(zip(matched.ids, _weigh_scores(settings, matched.scores, 1 - settings.weight), strict=True))
        cosine = zip(near.ids, _weigh_scores(settings, near.scores, settings.weight), strict=True)
        scores = {id: float(score + lexical[id]) for id, score in cosine}
    ranked = sorted(range(len(near.ids)), key=lambda row: (-scores[near.ids[row]], near.ids[row]))
    record_ranking("both scores", (near.ids[row] for row in ranked), k)
    rows = ranked[:k]
    ids = [near.ids[row] for row in rows]
    records = near.records.take(pa.array(rows, pa.int64()))
    return replace(near, ids=ids, scores=np.array([scores[id] for id in ids]), records=records)


def _weigh_scores(settings: Composed, scores: Any, weight: float) -> Any:
    return weight * normalize_scores(scores) if settings.composed_score == "weighted" else scores
