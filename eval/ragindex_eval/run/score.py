"""Scores of rankings against gold documents, and of answers against accepted answers."""

from collections.abc import Mapping, Sequence

from ragindex_eval.data.gold import Gold
from ragindex_eval.metrics import answers as answer_metrics
from ragindex_eval.metrics import long_answers, retrieval
from ragindex_eval.metrics.evidence import TokensToRecall, evidence_recall, recall_steps, tokens_to_recall
from ragindex_eval.metrics.long_answers import SpanReader
from ragindex_eval.metrics.score import judgements, score_question
from ragindex_eval.results.model import MethodAnswer

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
                hits, one = [hit.doc_ids for hit in answer.hits], gold[answer.query_id]
                positions = [hit.positions for hit in answer.hits]
                scores = {**score_question(hits, one, (k,)), **evidence_recall(positions, one, (k,))}
                found.setdefault(answer.query_id, {}).update(scores)
    ordered = [*retrieval.metric_names(ks), *(f"evidence_R@{k}" for k in ks)]
    return {id: {name: values[name] for name in ordered if name in values} for id, values in found.items()}


def count_tokens_to_recall(
    answers: Sequence[MethodAnswer], gold: Mapping[str, Gold] | None, seed: int
) -> dict[str, TokensToRecall]:
    """Return how many tokens of hits must be read for a recall, over the judged questions; {} if there are none."""
    judged = [answer for answer in answers if gold and judgements(gold, answer.query_id)]
    steps = [
        recall_steps([(hit.doc_ids, hit.positions, hit.tokens) for hit in answer.hits], gold[answer.query_id])
        for answer in judged
        if gold
    ]
    return tokens_to_recall(steps, seed)


def score_answers(
    answers: Sequence[MethodAnswer], gold: Mapping[str, Gold] | None, find_spans: SpanReader | None = None
) -> Metrics:
    """Compute the answer metrics of each question with accepted answers; an unanswered question scores 0.

    Multiple-choice questions have accuracy, and ambiguous ones with sub-questions the metrics of ASQA; of these,
    Disambig-F1 needs `find_spans`. All others have EM and F1, and STR-EM and ROUGE-L too if one of them has several
    accepted answers: its STR-EM is 1 if any of them occurs in the answer.
    """
    known = {id: one for id, one in (gold or {}).items() if one.answers}
    several = any(len(one.answers) > 1 for one in known.values() if not one.options and not one.sub_questions)
    found = {}
    for answer in answers:
        if answer.query_id in known:
            read = None if answer.reading is None or answer.reading.error is not None else answer.reading
            values = _score_answer(read.answer if read else "", known[answer.query_id], several, find_spans)
            found[answer.query_id] = values if read else dict.fromkeys(values, 0.0)
    return found


def score(
    answers: Mapping[int, Sequence[MethodAnswer]],
    gold: Mapping[str, Gold] | None,
    ks: Sequence[int],
    *,
    read: bool,
    find_spans: SpanReader | None = None,
) -> Metrics:
    """Compute all metrics of each question, in order; answer metrics are included if answers were `read`."""
    rankings = score_rankings(answers, gold, ks)
    final = answers[max(answers)]
    readings = score_answers(final, gold, find_spans) if read else {}
    ids = [answer.query_id for answer in final if answer.query_id in rankings or answer.query_id in readings]
    return {id: {**rankings.get(id, {}), **readings.get(id, {})} for id in ids}


def _score_answer(said: str, gold: Gold, several: bool, find_spans: SpanReader | None) -> dict[str, float]:
    if gold.options:
        return {"accuracy": answer_metrics.accuracy(said, gold.answers, gold.options)}
    if gold.sub_questions:
        return _score_long_answer(said, gold, find_spans)
    values = {"EM": answer_metrics.exact_match(said, gold.answers), "F1": answer_metrics.f1(said, gold.answers)}
    if several:
        values["STR-EM"] = long_answers.string_exact_match(said, [gold.answers])
        values["ROUGE-L"] = answer_metrics.rouge_l(said, gold.answers)
    return values


def _score_long_answer(said: str, gold: Gold, find_spans: SpanReader | None) -> dict[str, float]:
    groups = [part.answers for part in gold.sub_questions]
    values = {
        "STR-EM": long_answers.string_exact_match(said, groups),
        "ROUGE-Lsum": long_answers.rouge_lsum(said, gold.answers),
    }
    if find_spans is not None:
        spans = find_spans([(part.question, said) for part in gold.sub_questions])
        values["Disambig-F1"] = long_answers.disambiguated_f1(spans, groups)
    return values
