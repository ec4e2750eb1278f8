"""Reranking of any method's candidates; only gains beyond it can be credited to a method itself."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError

from ragindex.accounting import ledger
from ragindex.errors import UsageError
from ragindex.interfaces import OpenIndex, Retriever, Scheme
from ragindex.llm.tasks import Task
from ragindex.parts.text.passages import OVER_PASSAGES, PassagesField
from ragindex.plugins import registry
from ragindex.plugins.registry import SchemeField, label
from ragindex.plugins.specs import Spec, parse_spec
from ragindex.retrieval.hits import check_queries
from ragindex.retrieval.stages import record_ranking
from ragindex.retrieval.trace import Trace
from ragindex.types import Hit, Query, Retrieval
from ragindex_baselines.rerank.endpoint import Endpoint
from ragindex_baselines.rerank.rerankers import CrossEncoder, LanguageModel, PassageScorer, PlaceScores, Reranker

# ---------------------------------------------------------------- the parameter `reranker`


_RERANKERS: Mapping[str, type[Reranker]] = {
    "cross-encoder": CrossEncoder,
    "endpoint": Endpoint,
    "language-model": LanguageModel,
}
_NAMES = {kind: name for name, kind in _RERANKERS.items()}


def reranker(value: Any) -> Any:
    """Return the reranker of a specification: cross-encoder:MODEL, endpoint:MODEL or language-model.

    Raises UsageError if the specification is invalid.
    """
    if type(value) in _NAMES:
        return value
    spec = parse_spec(value) if isinstance(value, str) else _read_spec(value)
    kind = _RERANKERS.get(spec.name)
    if kind is None:
        raise UsageError(
            f"A reranker is one of {', '.join(_RERANKERS)}. Got {spec.name!r}. See: ragindex methods rerank"
        )
    params = dict(spec.params)
    if spec.argument is not None:
        name = kind.argument
        if name is None:
            raise UsageError(f"The reranker {spec.name} takes no argument after a colon. Got {spec.argument!r}.")
        params[name] = spec.argument
    try:
        return kind.model_validate(params)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise UsageError(
            f"The {where!r} parameter of {spec.name}: {problem['msg']}. There are: {', '.join(kind.model_fields)}."
        ) from error


def _read_spec(value: Any) -> Spec:
    params = value.get("params") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str) or value.keys() - {"name", "params"}:
        raise UsageError(f"A reranker is written NAME, NAME:MODEL or {{name, params}}. Got {value!r}.")
    return Spec(value["name"], dict(params or {}))


def _describe(plugin: Reranker) -> dict[str, Any]:
    return {"name": _NAMES[type(plugin)], "params": plugin.model_dump(mode="json")}


RerankerField: TypeAlias = Annotated[
    Any, BeforeValidator(reranker), PlainSerializer(_describe, return_type=dict[str, Any])
]


# ---------------------------------------------------------------- the method


class Rerank(Scheme):
    """The best results of another method, scored again by an LLM or a cross-encoder.

    The `depth` best of `base` are scored; further results follow in the base's order. `reranker` is language-model
    (the default; it is asked once per question, and a rule replaces it if there is no LLM), cross-encoder(model=NAME)
    or endpoint(model=NAME). Candidates that it does not return keep the base's order, behind those that it does; with
    `left_out=drop` they are no results, so that a reader spends no tokens on them, unless it returns none at all.

    With `pair=bridge` a candidate is scored for the question beside a bridge, a passage that is known already: once for
    each of the `bridges` best, in so many calls. Its score is the largest of them; equal ones rank by their sum. A
    bridge is not scored beside itself, and a single one stays first.
    """

    version: ClassVar[int] = 1
    base: SchemeField = Field(
        default_factory=lambda: registry.scheme("hybrid"), description="Retriever whose results are reranked."
    )
    over: PassagesField = OVER_PASSAGES
    reranker: RerankerField | None = Field(
        default=None,
        description="language-model, cross-encoder(model=NAME) or endpoint(model=NAME). null: language-model.",
    )
    depth: int = Field(default=50, ge=1, description="Results that are reranked.")
    pair: Literal["question", "bridge"] = Field(
        default="question", description="Candidates are judged for the question alone, or beside each bridge."
    )
    bridges: int = Field(default=3, ge=1, le=20, description="With pair=bridge: best results that are bridges.")
    left_out: Literal["keep", "drop"] = Field(
        default="keep",
        description="Results that the reranker does not return follow behind the others, or are dropped.",
    )

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the tasks of the reranker."""
        return self._reranker().tasks(beside=self.pair == "bridge")

    def _open(self, index: OpenIndex) -> Retriever:
        """Open the base and the reranker."""
        return RerankRetriever(self.base.open(index), self._reranker().open(index), self, label(self))

    def _reranker(self) -> Reranker:
        return self.reranker or LanguageModel()


@dataclass(frozen=True, slots=True)
class RerankRetriever:
    """The open retriever of Rerank."""

    base: Retriever
    reranker: PassageScorer
    settings: Rerank
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Ask the base for the larger of depth and k results for all questions, then rerank question by question."""
        check_queries(queries, k)
        retrievals = self.base.retrieve(queries, max(self.settings.depth, k))
        return [self._rerank(query, retrieval, k) for query, retrieval in zip(queries, retrievals, strict=True)]

    def _rerank(self, query: Query, retrieval: Retrieval, k: int) -> Retrieval:
        if not retrieval.hits:
            return retrieval
        candidates, trace = retrieval.hits[: self.settings.depth], Trace(list(retrieval.trace))
        with trace.step(max((step.iteration for step in retrieval.trace), default=1), "reranker", query.text) as step:
            order = self._order(query.text, candidates, len(retrieval.hits) - len(candidates))
            for what, times in order.counts.items():
                for _ in range(times):
                    ledger.count_outcome("rerank", what)
            drops = self.settings.left_out == "drop" and order.returned
            count = min(k, order.returned) if drops else k
            record_ranking("reranker", (retrieval.hits[place] for place in order.places), count)
            ranked = tuple(
                replace(retrieval.hits[place], score=score, source=self.source)
                for place, score in zip(order.places[:count], order.scores[:count], strict=True)
            )
            step["ids"], step["note"] = tuple(hit.id for hit in ranked), order.note
        return Retrieval(ranked, tuple(trace.steps), retrieval.notes)

    def _order(self, question: str, candidates: Sequence[Hit], rest: int) -> "Order":
        """Score the candidates for the question, or beside each bridge, and rank them."""
        ids, texts = [hit.id for hit in candidates], [(hit.title, hit.text) for hit in candidates]
        if self.settings.pair == "question":
            return order_candidates(self.reranker.scores(question, texts), ids, rest)
        calls = []
        for bridge in range(min(self.settings.bridges, len(candidates))):
            places = [place for place in range(len(candidates)) if place != bridge]
            scores = self.reranker.scores(question, [texts[place] for place in places], texts[bridge]) if places else ()
            calls.append((places, order_candidates(scores, [ids[place] for place in places])))
        return merge_orders(calls, ids, rest)


# ---------------------------------------------------------------- the ranking of all candidates; none gets lost


REPEATED, UNKNOWN, NO_NUMBER, LEFT_OUT = "said twice", "no such passage", "no score", "not returned"
_LARGEST_SCORE = 1e12
"""Scores beyond this are treated as missing; below it, floats that differ by one are distinct."""


@dataclass(frozen=True, slots=True)
class Order:
    """A ranking: the positions of all candidates, best first, their scores, and counts of the errors in the output.

    The first `returned` of them were returned by the reranker.
    """

    places: tuple[int, ...]
    scores: tuple[float, ...]
    counts: Mapping[str, int]
    returned: int

    @property
    def note(self) -> str:
        """Return the counts as text, "" if there are none."""
        return ", ".join(f"{count} {what}" for what, count in self.counts.items())


def order_candidates(returned: PlaceScores, ids: Sequence[str], rest: int = 0) -> Order:
    """Rank the candidates `ids`, given in the base's order, by the `returned` scores; equal scores by id.

    Candidates without a score follow in the base's order, and then `rest` more candidates that the reranker
    was not given. Their scores fall by 1 from the lowest score. Pairs that name no candidate are dropped. If
    a candidate is named twice, the first score is used. A score that is not a number of a sensible size is
    treated as missing. All these errors are counted.
    """
    scores: dict[int, float] = {}
    counts: Counter[str] = Counter()
    for place, score in returned:
        if not 0 <= place < len(ids):
            counts[UNKNOWN] += 1
        elif place in scores:
            counts[REPEATED] += 1
        elif not abs(score) <= _LARGEST_SCORE:  # NaN too
            counts[NO_NUMBER] += 1
        else:
            scores[place] = score
    best = sorted(scores, key=lambda place: (-scores[place], ids[place]))
    left_out = [place for place in range(len(ids)) if place not in scores]
    if left_out:
        counts[LEFT_OUT] = len(left_out)
    others = [*left_out, *range(len(ids), len(ids) + rest)]
    lowest = min(scores.values(), default=len(others) + 1.0)
    falling = [lowest - step for step in range(1, len(others) + 1)]
    return Order((*best, *others), (*(scores[place] for place in best), *falling), dict(counts), len(best))


def merge_orders(calls: Sequence[tuple[Sequence[int], Order]], ids: Sequence[str], rest: int = 0) -> Order:
    """Merge the orders beside each bridge into one of all candidates; a call has the places of what it scored.

    A candidate counts with its largest score, equal ones rank by their sum, then by id. If there is one call, the
    candidate that it did not score, its bridge, stays first. What calls left out counts only where all did.
    """
    scores: dict[int, list[float]] = {}
    counts: Counter[str] = Counter()
    for places, order in calls:
        counts.update({what: count for what, count in order.counts.items() if what != LEFT_OUT})
        for local, score in zip(order.places[: order.returned], order.scores, strict=False):
            scores.setdefault(places[local], []).append(score)
    if len(calls) == 1:
        scores[0] = [max((score for (score,) in scores.values()), default=0.0) + 1]
    best = sorted(scores, key=lambda place: (-max(scores[place]), -sum(scores[place]), ids[place]))
    merged = order_candidates([(place, max(scores[place])) for place in best], ids, rest)
    return replace(merged, places=(*best, *merged.places[len(best) :]), counts={**counts, **merged.counts})
