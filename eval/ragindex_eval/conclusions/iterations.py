"""Recall and costs of iterative methods after each iteration, computed from their traces and the gold documents.

An iterative method adds a step IF_STOPPED to its trace for every iteration. A question that stopped early keeps its
last ranking in later iterations, so that every iteration covers the same questions.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragindex.retrieval.trace import IF_STOPPED
from ragindex.types import Step
from ragindex_eval.metrics import retrieval
from ragindex_eval.metrics.retrieval import equivalents, judgements
from ragindex_eval.results.model import Comparison, MethodAnswer, MethodResult
from ragindex_eval.stats.intervals import SampleArray

TOKENS_READ, TOKENS_WRITTEN, ASKED, MS = range(4)
"""The columns of `spent`."""


@dataclass(frozen=True, slots=True)
class IterativeMethod:
    """Rankings of an iterative method after each iteration; `number` is its position in the comparison.

    `answers` and `rankings` are by query id. A ranking holds the passage ids that the method would have returned after
    iteration 1, 2, … `left_out` counts the answered questions whose traces do not hold all of these rankings.
    """

    number: int
    method: MethodResult
    answers: Mapping[str, MethodAnswer]
    rankings: Mapping[str, tuple[tuple[str, ...], ...]]
    left_out: int

    @property
    def iterations(self) -> int:
        """The largest number of iterations of any question."""
        return max(map(len, self.rankings.values()))

    def took(self, n: int) -> int:
        """Count the questions that reached iteration `n`."""
        return sum(len(ranking) >= n for ranking in self.rankings.values())


def iterative_methods(comparison: Comparison) -> list[IterativeMethod]:
    """Return the methods whose traces hold the ranking of each iteration for at least one question."""
    read = (_read_iterative(number, method) for number, method in enumerate(comparison.methods))
    return [method_read for method_read in read if method_read is not None]


def _read_iterative(number: int, method: MethodResult) -> IterativeMethod | None:
    """Return None if a method is not iterative.

    A method whose last ranking differs from its answer is not: a reranker passes on the steps of its base.
    """
    answered = {answer.query_id: answer for answer in method.final if answer.error is None}
    rankings = {id: ranking for id, answer in answered.items() if (ranking := _read_rankings(answer.trace))}
    ranked = {id: answered[id] for id in rankings}
    if not rankings or not all(_matches_answer(answer, rankings[id][-1]) for id, answer in ranked.items()):
        return None
    return IterativeMethod(number, method, ranked, rankings, len(answered) - len(ranked))


def _read_rankings(trace: Sequence[Step]) -> tuple[tuple[str, ...], ...]:
    """Return the ranking of each iteration in order; () if one is missing or occurs twice."""
    stopped = [step for step in trace if step.index == IF_STOPPED]
    by_iteration = {step.iteration: step.ids for step in stopped}
    wanted = range(1, max((step.iteration for step in trace), default=0) + 1)
    complete = len(stopped) == len(by_iteration) and by_iteration.keys() == set(wanted)
    return tuple(by_iteration[n] for n in wanted) if complete else ()


def _matches_answer(answer: MethodAnswer, ranking: Sequence[str]) -> bool:
    """Return whether the hits begin with the ranking, without passages that are gone from the index."""
    hits = [hit.id for hit in answer.hits]
    among = set(hits)
    both = [id for id in ranking if id in among]
    return both == hits[: len(both)]


# ---------------------------------------------------------------- recall


def document(passage_id: str, documents: Container[str]) -> str:
    """Return the document id of a passage id, which is `DOC` or, for a chunk, `DOC#3` (ragindex.corpus.chunking)."""
    of_document, mark, number = passage_id.rpartition("#")
    was_cut = bool(mark) and number.isdecimal() and passage_id not in documents
    return of_document if was_cut else passage_id


def recalls(iterative: IterativeMethod, comparison: Comparison, ks: Sequence[int]) -> SampleArray:
    """Return the recall of every judged question after each iteration, of shape (questions, iterations, ks).

    No k may exceed the KEPT_IDS of a trace. A question that was not answered scores 0, as everywhere; one without
    rankings has no row.
    """
    known = {id for answer in iterative.answers.values() for hit in answer.hits for id in hit.doc_ids}
    failed = {answer.query_id for answer in iterative.method.final if answer.error is not None}
    rows = list[SampleArray]()
    for query in comparison.queries:
        gold = judgements(comparison.gold, query.id)
        if gold and query.id in failed:
            rows.append(np.zeros((iterative.iterations, len(ks))))
        elif gold and query.id in iterative.rankings:
            equal = equivalents(comparison.gold, query.id)
            values = [_recall(ids, gold, equal, known, ks) for ids in iterative.rankings[query.id]]
            rows.append(np.array(values + values[-1:] * (iterative.iterations - len(values))))
    return np.array(rows).reshape(len(rows), iterative.iterations, len(ks))


def _recall(
    ids: Sequence[str], gold: Mapping[str, int], equal: Mapping[str, str], known: set[str], ks: Sequence[int]
) -> list[float]:
    """Return recall at each k."""
    documents = [document(id, known | gold.keys() | equal.keys()) for id in ids]
    hits = retrieval.score_hits([(id,) for id in documents], gold, ks, equal)
    return [hits[f"R@{k}"] for k in ks]


# ---------------------------------------------------------------- costs


def spent(iterative: IterativeMethod) -> SampleArray:
    """Return the cumulative costs of every answered question after each iteration: (questions, iterations, 4).

    The columns are input tokens, output tokens, steps in which an LLM wrote, and milliseconds. Steps after the last
    iteration count with it. The steps IF_STOPPED do not count, because they are no work of the method.
    """
    costs = np.zeros((len(iterative.answers), iterative.iterations, 4))
    for question, answer in enumerate(iterative.answers.values()):
        for step in answer.trace:
            if step.index != IF_STOPPED:
                paid = (step.input_tokens, step.output_tokens, step.output_tokens > 0, step.ms)
                costs[question, max(step.iteration, 1) - 1 :] += paid
    return costs
