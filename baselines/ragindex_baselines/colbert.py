"""ColBERT: late interaction between the tokens of a question and those of a passage (Santhanam et al. 2022).

Each token of the question is matched with its most similar token in the passage; the score of the passage is
the sum of these similarities. The encoder decides which model computes the vectors.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from ragindex.errors import UsageError
from ragindex.filters import Ids
from ragindex.interfaces import (
    Collection,
    FilterQuery,
    Floats,
    OpenIndex,
    Part,
    Retriever,
    Scheme,
    SearchResult,
)
from ragindex.parts.records import Doubles
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.token_vectors import TokenIndex, TokenVectors
from ragindex.plugins.registry import PartField, SchemeField, label
from ragindex.retrieval.hits import HIT_FIELDS, PassingRecords, check_queries, read_hits
from ragindex.retrieval.stages import DEEPEST, is_recording, record_ranking
from ragindex.types import Query, Retrieval, Step

Ranking: TypeAlias = tuple[list[str], Doubles]
"""Ids with their scores, best first."""


class ColBERT(Scheme):
    """MaxSim: the sum, over the question's tokens, of the best dot product with a token of the passage.

    If `over` has fewer than `all_below` records (or fewer pass a question's filter), all of them are scored.
    Otherwise the `candidate_factor` * k best candidates are: the records whose average token vector is most
    similar to the question's, or the results of another scheme, `candidates`. `vectors` is the part of token vectors:
    token_vectors, made by the index's encoder, or multi_vectors(model=NAME) with a model of its own. Its `of`
    need not be given: it is set to `over`. Only the first `query_tokens` tokens of a question count, special
    tokens excluded.
    """

    version: ClassVar[int] = 2
    over: PartField = Field(default=Passages(), description="Part whose records are searched.")
    vectors: PartField | None = Field(
        default=None, description="Token vectors: token_vectors (the index's encoder) or multi_vectors(model=NAME)."
    )
    candidates: SchemeField | None = Field(
        default=None, description="Retriever of the candidates. null: by the records' average token vectors."
    )
    candidate_factor: int = Field(default=10, ge=1, description="Candidates per result: candidate_factor * k.")
    all_below: int = Field(default=200, ge=0, description="Collections with fewer records are scored whole.")
    query_tokens: int = Field(default=128, ge=1, description="Tokens of a question that count.")

    @model_validator(mode="after")
    def _of_what_is_searched(self) -> "ColBERT":
        if self.vectors is not None and getattr(self.vectors, "of", None) not in (Passages(), self.over):
            raise ValueError("`vectors` must be of the part `over`, as vectors=token_vectors")
        return self

    def depends_on_k(self, k: int) -> bool:
        """Return True: the number of candidates grows with k."""
        return True

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the part that is searched, its token vectors, and the parts of the candidates' scheme."""
        return (self.over, self._vectors(), *(self.candidates.parts() if self.candidates else ()))

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever by token vectors alone, or over the results of `candidates` if there are many records."""
        tokens: TokenIndex = index.open_part(self._vectors())
        if self.candidates and len(tokens.ids) >= self.all_below:
            return OverCandidates(self.candidates.open(index), tokens, self, label(self))
        records = index.open_part(self.over)
        return LateInteraction(records, PassingRecords(records), tokens, self, label(self))

    def _vectors(self) -> Part[Any]:
        vectors = self.vectors or TokenVectors()
        return vectors.model_copy(update={"of": self.over})


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """The open retriever of ColBERT that finds its candidates by average token vectors, or scores all records."""

    collection: Collection
    passing: PassingRecords
    index: TokenIndex
    settings: ColBERT
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Score the candidates of each question; questions for which all records are scored are scored together."""
        check_queries(queries, k)
        tokens = [self.index.question(query.text)[: self.settings.query_tokens] for query in queries]
        start = time.perf_counter()
        shortlists = [
            self._shortlist(query, of_query, self.settings.candidate_factor * k)
            for query, of_query in zip(queries, tokens, strict=True)
        ]
        unlimited = [number for number, ids in enumerate(shortlists) if ids is None]
        scores = self.index.scores(self.index.ids, [tokens[number] for number in unlimited])
        ranked = {number: _rank_best(self.index.ids, scores[:, at], k) for at, number in enumerate(unlimited)}
        for number, ids in enumerate(shortlists):
            if ids is not None:
                ranked[number] = _rank_best(ids, self.index.scores(ids, [tokens[number]])[:, 0], k)
        results = self._read_results([ranked[number] for number in range(len(queries))])
        ms = (time.perf_counter() - start) * 1e3 / max(1, len(queries))
        return [
            Retrieval(read_hits(result, self.source), (Step(1, "token vectors", query.text, tuple(result.ids), ms=ms),))
            for query, result in zip(queries, results, strict=True)
        ]

    def _shortlist(self, query: Query, tokens: Floats, count: int) -> list[str] | None:
        """Return the records to score, or None for all."""
        among = None if query.filter is None else sorted(self.passing.find(query.filter))
        if len(self.index.ids if among is None else among) < self.settings.all_below:
            return among
        if not is_recording():
            return self.index.shortlist(tokens, count, among)
        ranked = self.index.shortlist(tokens, max(count, DEEPEST), among)
        record_ranking("average token vectors", ranked, count, query.text)
        return ranked[:count]

    def _read_results(self, ranked: Sequence[Ranking]) -> list[SearchResult]:
        """Read the records of all rankings in one call of the store."""
        queries = [FilterQuery(Ids(tuple(ids)), max(1, len(ids)), HIT_FIELDS) for ids, _ in ranked]
        results = []
        for (ids, scores), result in zip(ranked, self.collection.search(queries), strict=True):
            place = {id: row for row, id in enumerate(result.ids)}
            results.append(
                SearchResult(ids, scores, result.records.take(pa.array([place[id] for id in ids], pa.int64())))
            )
        return results


@dataclass(frozen=True, slots=True)
class OverCandidates:
    """The open retriever of ColBERT that scores the results of another scheme."""

    candidates: Retriever
    index: TokenIndex
    settings: ColBERT
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Find the candidates of all questions together, and score them.

        Raises UsageError if a candidate is a record of another part.
        """
        check_queries(queries, k)
        retrievals = self.candidates.retrieve(queries, self.settings.candidate_factor * k)
        return [self._scored(query, retrieval, k) for query, retrieval in zip(queries, retrievals, strict=True)]

    def _scored(self, query: Query, retrieval: Retrieval, k: int) -> Retrieval:
        tokens = self.index.question(query.text)[: self.settings.query_tokens]
        start = time.perf_counter()
        by_id = {hit.id: hit for hit in retrieval.hits}
        ids, scores = _rank_best(list(by_id), self._scores(list(by_id), tokens), k)
        ranked = tuple(
            replace(by_id[id], score=score, source=self.source) for id, score in zip(ids, scores.tolist(), strict=True)
        )
        step = Step(1, "token vectors", query.text, tuple(ids), ms=(time.perf_counter() - start) * 1e3)
        return Retrieval(ranked, (*retrieval.trace, step), retrieval.notes)

    def _scores(self, ids: Sequence[str], tokens: Floats) -> Doubles:
        try:
            return self.index.scores(ids, [tokens])[:, 0]
        except UsageError as error:
            raise UsageError(f"The candidates of {self.source} must be records of what it is over. {error}") from None


def _rank_best(ids: Sequence[str], scores: Doubles, k: int) -> Ranking:
    """Return the k highest scores, equal ones by id; pairs without tokens (score minus infinity) are left out."""
    rows = np.flatnonzero(scores > -np.inf)
    if is_recording():
        ranked = sorted(rows.tolist(), key=lambda row: (-scores[row], ids[row]))
        record_ranking("token vectors", (ids[row] for row in ranked), k)
    if k < len(rows):
        rows = rows[scores[rows] >= np.partition(scores[rows], len(rows) - k)[len(rows) - k]]
    ordered = sorted(rows.tolist(), key=lambda row: (-scores[row], ids[row]))[:k]
    return [ids[row] for row in ordered], scores[ordered]
