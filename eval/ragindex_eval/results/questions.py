"""The results of a comparison by question: what each method found, where the gold is among it, and the metrics."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ragindex._util.text import describe_near, find_near_names
from ragindex.errors import UnknownNameError
from ragindex_eval.metrics.retrieval import equivalents, gold_ranks, judgements
from ragindex_eval.results.model import Comparison, MethodAnswer, MethodResult, SavedHit


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """What one method found for a question, and its metrics, {} without gold. `error` is why there is no answer.

    `gold_ranks` maps the gold documents that were found to the ranks of the first hits on them. `answer` is that of
    the reader, None if nothing was read.
    """

    hits: tuple[SavedHit, ...]
    gold_ranks: Mapping[str, int]
    metrics: Mapping[str, float]
    latency_ms: float | None
    error: str | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """Question, the grades of its gold documents by id, and what each method found, by label in the table's order."""

    id: str
    text: str
    gold: Mapping[str, int]
    methods: Mapping[str, QuestionAnswer]

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object, with the fields as keys."""
        return asdict(self)


def list_question_results(comparison: Comparison) -> tuple[QuestionResult, ...]:
    """Return the result of every question, in the order of the questions."""
    methods = (*comparison.methods, *comparison.failed)
    by_label = {method.label: {answer.query_id: answer for answer in method.final} for method in methods}
    return tuple(
        QuestionResult(
            query.id,
            query.text,
            dict(judgements(comparison.gold, query.id)),
            {
                method.label: _build_answer(comparison, method, by_label[method.label][query.id])
                for method in methods
                if query.id in by_label[method.label]
            },
        )
        for query in comparison.queries
    )


def _build_answer(comparison: Comparison, method: MethodResult, answer: MethodAnswer) -> QuestionAnswer:
    gold, equal = judgements(comparison.gold, answer.query_id), equivalents(comparison.gold, answer.query_id)
    return QuestionAnswer(
        answer.hits,
        gold_ranks((hit.doc_ids for hit in answer.hits), gold, equal),
        dict(method.per_query.get(answer.query_id, {})),
        method.latency.per_query.get(answer.query_id),
        answer.error,
        None if answer.reading is None else answer.reading.answer,
    )


def find_question_result(comparison: Comparison, written: str) -> QuestionResult:
    """Return the result of the question with this id or text, or of the only one with this in its text.

    Raises UnknownNameError if there is none, or several.
    """
    question_results = list_question_results(comparison)
    matches = list(_match(question_results, written))
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UnknownNameError(
            f"{len(matches)} questions have {written!r} in them. Give an id: "
            + ", ".join(f"{match.id} ({match.text})" for match in matches[:5])
        )
    near = describe_near(find_near_names(written, [result.text for result in question_results]))
    ids = f"ids: {question_results[0].id} to {question_results[-1].id}"
    raise UnknownNameError(f"There is no question with the id or text {written!r} ({near or ids}).")


def _match(results: tuple[QuestionResult, ...], written: str) -> Iterator[QuestionResult]:
    exact = [result for result in results if written == result.id] or [
        result for result in results if written.strip() == result.text.strip()
    ]
    part = written.casefold().strip()
    yield from exact[:1] or (result for result in results if part and part in result.text.casefold())
