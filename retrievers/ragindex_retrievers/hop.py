"""The method hop: a second question about what the best passages mention and leave unsaid."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from ragindex.interfaces import Collection, Encoder, OpenIndex, Part, Retriever, Scheme, TextQuery, VectorQuery
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import OVER_PASSAGES, Passages, PassagesField
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.plugins.registry import SchemeField, label
from ragindex.retrieval.fusion import raise_scores
from ragindex.retrieval.hits import check_queries, fetch_hits
from ragindex.retrieval.stages import record_ranking, record_search
from ragindex.retrieval.trace import Trace
from ragindex.stores.metered import search_together
from ragindex.types import Query, Retrieval, Step
from ragindex_retrievers.second_question import SECOND_QUESTION, Bridge, QuestionWriter

_BASE_CONSTANT, _NEXT_CONSTANT = 2, 4
"""Added to ranks from 0, in the base's results and in those of a second question, before the reciprocal is taken."""
_DIGITS = 12
"""Scores are rounded to so many digits, so that equal sums of fractions are equal, and sorted by id."""
_EXPLAINED_HITS = 5


class Hop(Scheme):
    """The results of another method, and what a second question about each of the best of them finds.

    The `bridges` best results of `base` are bridges. A second question has the words of the question that the bridge
    does not hold, and the first `names` names that it mentions and the question does not; those of its own title are
    left out. A text without names has its rarest words instead. Each second question is searched among all passages,
    by words and by meaning. Ranks i of `base`, j by words and m by meaning count from 0, and a passage is ranked by

        1 / (2 + i) + `weight` * the largest over the bridges of 1 / (2 + i of the bridge) * (1 / (4 + j) + 1 / (4 + m))

    where passages beyond the `depth` best have 0. The `kept` best of `base` stay first all the same. Only ranks count,
    so that scores of any base will do. Nothing is added to the index beyond what `base`, `bm25` and `dense` need. A
    question costs `bridges` more encodings and twice as many searches. With `rewrite=model` an LLM writes the second
    questions, in one call for each bridge.
    """

    version: ClassVar[int] = 1
    order_depends_on_filter: ClassVar[bool] = True
    base: SchemeField = Field(
        default_factory=lambda: registry.scheme("links"), description="Retriever whose results are the first hop."
    )
    over: PassagesField = OVER_PASSAGES
    bridges: int = Field(
        default=3, ge=1, le=20, description="Best results of the base that a question is written from."
    )
    rewrite: Literal["rules", "model"] = Field(
        default="rules", description="Who writes the second questions: rules, or the LLM."
    )
    names: int = Field(default=8, ge=0, le=50, description="With rewrite=rules: names of a bridge in its question.")
    weight: float = Field(default=1.0, ge=0, description="Weight of what the second questions find.")
    kept: int = Field(default=1, ge=0, description="Best results of the base that stay before all others.")
    depth: int = Field(default=100, ge=1, description="Best results of each ranking that are scored.")

    def depends_on_k(self, k: int) -> bool:
        """Return True for k above `depth`, or if the base depends on k."""
        return k > self.depth or super().depends_on_k(k)

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the task of the second question with `rewrite=model`."""
        return (SECOND_QUESTION,) if self.rewrite == "model" else ()

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the parts of the base, the passages and their vectors."""
        return (*super()._parts(), Passages(), Vectors(of=Passages()))

    def _open(self, index: OpenIndex) -> Retriever:
        """Open the base and the vectors of the passages."""
        passages, vectors = index.open_part(Passages()), index.open_part(Vectors(of=Passages()))
        llm = index.llm if self.rewrite == "model" else None
        writer = QuestionWriter(self.names, passages.schema.language, llm, index.tokens_counted_by)
        return HopRetriever(self.base.open(index), passages, vectors, index.encoder, writer, self, label(self))


@dataclass(frozen=True, slots=True)
class Searches:
    """What a second question finds by words and by meaning, ids best first, and the milliseconds that it took."""

    by_words: Sequence[str]
    by_meaning: Sequence[str]
    ms: float

    def score(self, bridge_id: str) -> dict[str, float]:
        """Return the sum of the reciprocal ranks of each passage but the bridge itself."""
        scores = dict[str, float]()
        for ranking in (self.by_words, self.by_meaning):
            for rank, id in enumerate(id for id in ranking if id != bridge_id):
                scores[id] = scores.get(id, 0.0) + 1 / (_NEXT_CONSTANT + rank)
        return scores

    def describe(self, id: str) -> str:
        """Return the ranks of a passage, from 1."""
        rankings = {"by words": self.by_words, "by meaning": self.by_meaning}
        return ", ".join(f"{ids.index(id) + 1} {name}" for name, ids in rankings.items() if id in ids)


@dataclass(frozen=True, slots=True)
class HopRetriever:
    """The open retriever of Hop."""

    base: Retriever
    passages: Collection
    vectors: Collection
    encoder: Encoder
    writer: QuestionWriter
    settings: Hop
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Ask the base for all questions, then encode and search all second questions in one batch.

        With `rewrite=model`, the LLM is asked question by question; raises what `LLM.map` raises, and LLMError.
        """
        return [answer for answer, _ in self.retrieve_with_gains(queries, k)]

    def retrieve_with_gains(self, queries: Sequence[Query], k: int) -> list[tuple[Retrieval, Mapping[str, float]]]:
        """Return what `retrieve` does, and for each passage what the second questions add to it, before `weight`."""
        check_queries(queries, k)
        depth = max(self.settings.depth, k)
        answers, bridges = [], []
        for query, answer in zip(queries, self.base.retrieve(queries, depth), strict=True):
            trace = Trace(list(answer.trace))
            bridges.append(self.writer.write(query.text, answer.hits, self.settings.bridges, trace))
            answers.append(replace(answer, trace=tuple(trace.steps)))
        searches = self._search(queries, bridges, depth)
        return [self._fuse(*of_query, k) for of_query in zip(queries, answers, bridges, searches, strict=True)]

    def _search(
        self, queries: Sequence[Query], bridges: Sequence[Sequence[Bridge]], depth: int
    ) -> list[list[Searches]]:
        """Search each second question, without its bridge, by words and by meaning; in the order of `bridges`."""
        flat = [(bridge, query.filter) for query, of_query in zip(queries, bridges, strict=True) for bridge in of_query]
        start = time.perf_counter()
        vectors = self.encoder.encode_queries([bridge.question for bridge, _ in flat]) if flat else ()
        texts = [TextQuery(bridge.question, depth, (), where) for bridge, where in flat]
        near = [VectorQuery(vector, depth, (), where) for vector, (_, where) in zip(vectors, flat, strict=True)]
        by_words, by_meaning = search_together([(self.passages, texts), (self.vectors, near)])
        ms = (time.perf_counter() - start) * 1e3 / max(1, len(flat))
        questions = [bridge.question for bridge, _ in flat]
        record_search("second question by words", self.passages, texts, questions)
        record_search("second question by meaning", self.vectors, near, questions)
        results = iter(
            [Searches(words.ids, meaning.ids, ms) for words, meaning in zip(by_words, by_meaning, strict=True)]
        )
        return [[next(results) for _ in of_query] for of_query in bridges]

    def _fuse(
        self, query: Query, answer: Retrieval, bridges: Sequence[Bridge], searches: Sequence[Searches], k: int
    ) -> tuple[Retrieval, Mapping[str, float]]:
        hits = {hit.id: hit for hit in answer.hits}
        scores = {id: 1 / (_BASE_CONSTANT + rank) for rank, id in enumerate(hits)}
        gains, via = dict[str, float](), dict[str, int]()
        for place, (bridge, results) in enumerate(zip(bridges, searches, strict=True)):
            for id, score in results.score(bridge.hit.id).items():
                gain = score / (_BASE_CONSTANT + place)
                if gain > gains.get(id, 0.0):
                    gains[id], via[id] = gain, place
        weight = self.settings.weight
        ids = dict.fromkeys([*hits, *gains] if weight else hits)
        scores = {id: round(scores.get(id, 0.0) + weight * gains.get(id, 0.0), _DIGITS) for id in ids}
        first = list(hits)[: self.settings.kept]
        rest = sorted(scores.keys() - set(first), key=lambda id: (-scores[id], id))
        record_ranking("both hops", (*first, *rest), k)
        best = [*first, *rest][:k]
        scores |= zip(best, raise_scores([scores[id] for id in best]), strict=True)
        new = fetch_hits(self.passages, {id: scores[id] for id in best if id not in hits}, self.source)
        known = {**hits, **{hit.id: hit for hit in new}}
        ranked = tuple(replace(known[id], score=scores[id], source=self.source) for id in best if id in known)
        trace = (*answer.trace, *self._explain(bridges, searches, best, via))
        return Retrieval(ranked, trace, answer.notes), gains

    def _explain(
        self, bridges: Sequence[Bridge], searches: Sequence[Searches], best: Sequence[str], via: Mapping[str, int]
    ) -> Iterator[Step]:
        """Yield a step for each second question; its ids are the results that it moved up most."""
        for place, (bridge, results) in enumerate(zip(bridges, searches, strict=True)):
            ids = tuple(id for id in best if via.get(id) == place)
            notes = (f"{id}: rank {results.describe(id)}" for id in ids[:_EXPLAINED_HITS])
            note = "\n".join((f"second question after {bridge.hit.id}", *notes))
            yield Step(2, "second question", bridge.question, ids, ms=results.ms, note=note)
