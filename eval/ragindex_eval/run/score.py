"""Scores of rankings against gold documents, and of answers against accepted answers."""

from collections.abc import Mapping, Sequence

from ragindex_eval.data.gold import Gold
from ragindex_eval.metrics import answers as answer_metrics
from ragindex_eval.metrics import retrieval
from ragindex_eval.metrics.score import judgements, score_question
from ragindex_eval.results.model import MethodAnswer
from ragindex_eval.results.reader_results import ReaderAnswer

Metrics = Mapping[str, Mapping[str, float]]
"""The metrics of each question, by its id."""


def score_rankings(
    answers: Mapping[int, Sequence[MethodAnswer]], gold: Mapping[str, Gold] | None, ks: Sequence[int]
) -> Metrics:
    """Compute the retrieval metrics of every judged question; an unanswered question scores 0.

    Metrics at k use the answers retrieved at k if there are any, else those at the largest k.
    """
    found: dict[str, dict[str, float]] = {}
    for k in ks:
        for answer in answers.get(k, answers[max(answers)]):
            if gold and judgements(gold, answer.query_id):
                hits = [hit.doc_ids for hit in answer.hits]
                found.setdefault(answer.query_id, {}).update(score_question(hits, gold[answer.query_id], (k,)))
    ordered = retrieval.metric_names(ks)
    return {query_id: {name: values[name] for name in ordered} for query_id, values in found.items()}


def score_answers(answers: Sequence[MethodAnswer], gold: Mapping[str, Gold] | None) -> Metrics:
    """Compute the answer metrics of each question with accepted answers; an unanswered question scores 0."""
    names, found = answer_metric_names(gold), {}
    for answer in answers:
        accepted = gold[answer.query_id].answers if gold and answer.query_id in gold else ()
        if accepted:
            values = _score_answer(answer.reading, accepted)
            found[answer.query_id] = {name: values[name] for name in names}
    return found


def score(
    answers: Mapping[int, Sequence[MethodAnswer]], gold: Mapping[str, Gold] | None, ks: Sequence[int], *, read: bool
) -> Metrics:
    """Compute all metrics of each question, in order; answer metrics are included if answers were `read`."""
    rankings = score_rankings(answers, gold, ks)
    final = answers[max(answers)]
    readings = score_answers(final, gold) if read else {}
    ids = [answer.query_id for answer in final if answer.query_id in rankings or answer.query_id in readings]
    return {id: {**rankings.get(id, {}), **readings.get(id, {})} for id in ids}


def answer_metric_names(gold: Mapping[str, Gold] | None) -> list[str]:
    """Return the answer metrics: EM and F1, plus string_EM and ROUGE-L if a question has several accepted answers."""
    counts = [len(one.answers) for one in (gold or {}).values() if one.answers]
    return list(answer_metrics.ANSWER_METRICS[: 0 if not counts else 2 if max(counts) == 1 else None])


def _score_answer(reading: ReaderAnswer | None, accepted: Sequence[str]) -> dict[str, float]:
    if reading is None or reading.error is not None:
        return dict.fromkeys(answer_metrics.ANSWER_METRICS, 0.0)
    return {
        "EM": answer_metrics.exact_match(reading.answer, accepted),
        "F1": answer_metrics.f1(reading.answer, accepted),
        "string_EM": answer_metrics.string_exact_match(reading.answer, accepted),
        "ROUGE-L": answer_metrics.rouge_l(reading.answer, accepted),
    }
