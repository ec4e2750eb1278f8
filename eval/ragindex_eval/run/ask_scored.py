"""Questions asked of one method, block by block, and the metric of each; nothing is asked twice.

Answers stand in the same files as those of `ragindex compare`, so each command reuses what the other has asked, and
what was asked with fewer questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragindex.index.index import Index
from ragindex.interfaces import Scheme
from ragindex.types import Query
from ragindex_eval.results.model import Interval, MethodAnswer
from ragindex_eval.run.ask import answer_all
from ragindex_eval.run.batching import batching_for
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.fingerprints import answer_keys, rankings_fingerprint
from ragindex_eval.run.latency import LazyRetriever
from ragindex_eval.run.own_documents import without_own_documents
from ragindex_eval.run.score import score_rankings
from ragindex_eval.stats.intervals import LEVEL
from ragindex_eval.stats.paired_tests import paired_interval


@dataclass(frozen=True, slots=True)
class Asked:
    """Answers and their scores, one per question, and what the questions cost in dollars; None if that is unknown."""

    answers: tuple[MethodAnswer, ...]
    scores: tuple[float, ...]
    dollars: float | None


def answers_folder(index: Index, scheme: Scheme) -> Path:
    """Return the folder of a method's answers to any questions."""
    return index.folder / "runs" / rankings_fingerprint(index, scheme)


def ask_method(
    experiment: Experiment, label: str, retriever: LazyRetriever, queries: Sequence[Query], k: int
) -> tuple[MethodAnswer, ...]:
    """Ask a method some questions at k; answers that are kept are used again."""
    scheme, gold = retriever.scheme, experiment.dataset.gold
    return answer_all(
        without_own_documents(retriever, gold),
        queries,
        k,
        answers_folder(experiment.index, scheme) / f"answers-{k}.jsonl",
        label,
        keys=answer_keys(queries, gold),
        strict=experiment.strict,
        batching=batching_for(experiment.index, scheme),
        known={document.id for document in experiment.dataset.corpus.documents},
        positions=experiment.index.positions(scheme),
    )


def ask_scored(
    experiment: Experiment, label: str, retriever: LazyRetriever, queries: Sequence[Query], metric: str
) -> Asked:
    """Ask a method some questions, and score them; a question on which it fails scores 0."""
    cutoff = int(metric.rpartition("@")[2])
    k = cutoff if retriever.scheme.depends_on_k(experiment.ks[-1]) else experiment.ks[-1]
    answers = ask_method(experiment, label, retriever, queries, k)
    scores = score_rankings({k: answers}, experiment.dataset.gold, (cutoff,))
    return Asked(answers, tuple(scores[query.id][metric] for query in queries), _sum_dollars(answers))


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
