"""Scores of rankings against gold documents, and of answers against accepted answers.

`Scores` are those of a comparison. `ask_scored` asks and scores some questions of one method, for races and holdouts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ragindex.interfaces import Scheme
from ragindex.types import Query
from ragindex_eval.data.gold import Gold
from ragindex_eval.metrics import answers as answer_metrics
from ragindex_eval.metrics import long_answers, retrieval
from ragindex_eval.metrics.evidence import TokensToRecall, evidence_recall, recall_steps, tokens_to_recall
from ragindex_eval.metrics.long_answers import SpanReader
from ragindex_eval.metrics.retrieval import judgements, score_question
from ragindex_eval.results.model import MethodAnswer
from ragindex_eval.run.answers import Answers, ask_method
from ragindex_eval.run.ask import failure
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.latency import LazyRetriever
from ragindex_eval.run.plan import LeftOutMethod
from ragindex_eval.stats.intervals import LEVEL, Interval
from ragindex_eval.stats.paired_tests import paired_interval

Metrics = Mapping[str, Mapping[str, float]]
"""The metrics of each question, by its id."""


@dataclass(frozen=True, slots=True)
class ScoredMethod:
    """The answers of a method with the metrics of each question."""

    answers: Answers
    metrics: Metrics

    @property
    def label(self) -> str:
        """The label of the method."""
        return self.answers.label

    @property
    def fails(self) -> bool:
        """Whether the method failed on every scored question at some k, so that its figures mean nothing."""
        scored = [
            [answer for answer in answers if not self.metrics or answer.query_id in self.metrics]
            for answers in self.answers.by_k.values()
        ]
        return any(all(failure(answer) is not None for answer in answers) for answers in scored)


Watch: TypeAlias = Callable[[str, ScoredMethod | None], None]
"""Gets the name of the data set with None when a comparison begins, and then each method that has answered.

Methods that failed on every question are left out.
"""


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of all methods: of those that are compared, of those that failed, and the methods left out."""

    compared: tuple[ScoredMethod, ...]
    failed: tuple[ScoredMethod, ...]
    left_out: tuple[LeftOutMethod, ...]


def score_methods(
    experiment: Experiment, outcomes: Iterable[Answers | LeftOutMethod], watch: Watch | None = None
) -> Scores:
    """Score each method as soon as its answers come. `watch` gets those that are compared."""
    scored, left_out = list[ScoredMethod](), list[LeftOutMethod]()
    for outcome in outcomes:
        if isinstance(outcome, LeftOutMethod):
            left_out.append(outcome)
            continue
        gold, reads = experiment.dataset.gold, experiment.reader is not None
        metrics = score(outcome.by_k, gold, experiment.ks, read=reads, find_spans=experiment.find_spans)
        scored.append(ScoredMethod(outcome, metrics))
        if watch is not None and not scored[-1].fails:
            watch(experiment.dataset.name, scored[-1])
    compared = tuple(method for method in scored if not method.fails)
    return Scores(compared, tuple(method for method in scored if method.fails), tuple(left_out))


def score_rankings(
    answers: Mapping[int, Sequence[MethodAnswer]], gold: Mapping[str, Gold] | None, ks: Sequence[int]
) -> Metrics:
    """Compute the retrieval metrics of every judged question; an unanswered question scores 0.

    Metrics at k use the answers retrieved at k if there are any, else those at the largest k.
    """
    scored: dict[str, dict[str, float]] = {}
    for k in ks:
        for answer in answers.get(k, answers[max(answers)]):
            if gold and judgements(gold, answer.query_id):
                hits, right = [hit.doc_ids for hit in answer.hits], gold[answer.query_id]
                positions = [hit.positions for hit in answer.hits]
                scores = {**score_question(hits, right, (k,)), **evidence_recall(positions, right, (k,))}
                scored.setdefault(answer.query_id, {}).update(scores)
    ordered = [*retrieval.metric_names(ks), *(f"evidence_R@{k}" for k in ks)]
    return {id: {name: values[name] for name in ordered if name in values} for id, values in scored.items()}


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
    known = {id: right for id, right in (gold or {}).items() if right.answers}
    short = [right for right in known.values() if not right.options and not right.sub_questions]
    several = any(len(right.answers) > 1 for right in short)
    scored = {}
    for answer in answers:
        if answer.query_id in known:
            read = None if answer.reading is None or answer.reading.error is not None else answer.reading
            values = _score_answer(read.answer if read else "", known[answer.query_id], several, find_spans)
            scored[answer.query_id] = values if read else dict.fromkeys(values, 0.0)
    return scored


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


def _score_answer(written: str, gold: Gold, several: bool, find_spans: SpanReader | None) -> dict[str, float]:
    if gold.options:
        return {"accuracy": answer_metrics.accuracy(written, gold.answers, gold.options)}
    if gold.sub_questions:
        return _score_long_answer(written, gold, find_spans)
    values = {"EM": answer_metrics.exact_match(written, gold.answers), "F1": answer_metrics.f1(written, gold.answers)}
    if several:
        values["STR-EM"] = long_answers.string_exact_match(written, [gold.answers])
        values["ROUGE-L"] = answer_metrics.rouge_l(written, gold.answers)
    return values


def _score_long_answer(written: str, gold: Gold, find_spans: SpanReader | None) -> dict[str, float]:
    groups = [part.answers for part in gold.sub_questions]
    values = {
        "STR-EM": long_answers.string_exact_match(written, groups),
        "ROUGE-Lsum": long_answers.rouge_lsum(written, gold.answers),
    }
    if find_spans is not None:
        spans = find_spans([(part.question, written) for part in gold.sub_questions])
        values["Disambig-F1"] = long_answers.disambiguated_f1(spans, groups)
    return values


# ---------------------------------------------------------------- questions asked and scored on the way


@dataclass(frozen=True, slots=True)
class ScoredQuestions:
    """Answers and their scores, one per question, and what the questions cost in dollars; None if that is unknown."""

    answers: tuple[MethodAnswer, ...]
    scores: tuple[float, ...]
    dollars: float | None


def ask_scored(
    experiment: Experiment, label: str, retriever: LazyRetriever, queries: Sequence[Query], metric: str
) -> ScoredQuestions:
    """Ask a method some questions, and score them; a question on which it fails scores 0."""
    cutoff = int(metric.rpartition("@")[2])
    k = cutoff if retriever.scheme.depends_on_k(experiment.ks[-1]) else experiment.ks[-1]
    answers = ask_method(experiment, label, retriever.scheme, queries, k, retriever)
    scores = score_rankings({k: answers}, experiment.dataset.gold, (cutoff,))
    return ScoredQuestions(answers, tuple(scores[query.id][metric] for query in queries), _sum_dollars(answers))


def compare_scores(
    experiment: Experiment,
    chosen: tuple[str, Scheme],
    rival: tuple[str, Scheme],
    queries: Sequence[Query],
    metric: str,
    level: float = LEVEL,
) -> tuple[float, float, Interval]:
    """Ask two methods, pairs of label and scheme; return both means and the interval of the paired difference.

    The interval misses the difference with a probability of `level`.
    """
    index = experiment.index
    own, other = (
        np.array(ask_scored(experiment, label, LazyRetriever(scheme, index), queries, metric).scores)
        for label, scheme in (chosen, rival)
    )
    return float(own.mean()), float(other.mean()), paired_interval(own - other, level=level)


def _sum_dollars(answers: Sequence[MethodAnswer]) -> float | None:
    paid = [answer.usage.money for answer in answers]
    return None if None in paid else sum(money or 0.0 for money in paid)
