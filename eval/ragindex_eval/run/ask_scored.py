"""Questions asked of one method, block by block, and the metric of each; nothing is asked twice.

Answers stand in the same files as those of `ragindex compare` over the same questions, so each command reuses what the
other has asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragindex.interfaces import Scheme
from ragindex.types import Query
from ragindex_eval.results.model import MethodAnswer
from ragindex_eval.run.ask import answer_all
from ragindex_eval.run.batching import batching_for
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.fingerprints import answers_fingerprint
from ragindex_eval.run.latency import LazyRetriever
from ragindex_eval.run.score import score_rankings


@dataclass(frozen=True, slots=True)
class Asked:
    """Answers and their scores, one per question, and what the questions cost in dollars; None if that is unknown."""

    answers: tuple[MethodAnswer, ...]
    scores: tuple[float, ...]
    dollars: float | None


def answers_folder(experiment: Experiment, scheme: Scheme) -> Path:
    """Return the folder of a method's answers, which depends on all that they depend on."""
    index, queries = experiment.index, experiment.dataset.queries
    return index.folder / "runs" / answers_fingerprint(index, scheme, queries)


def ask_scored(
    experiment: Experiment, label: str, retriever: LazyRetriever, queries: Sequence[Query], metric: str
) -> Asked:
    """Ask a method some questions, and score them; a question on which it fails scores 0."""
    scheme = retriever.scheme
    k = int(metric.rpartition("@")[2]) if scheme.depends_on_k(experiment.ks[-1]) else experiment.ks[-1]
    answers = answer_all(
        retriever,
        queries,
        k,
        answers_folder(experiment, scheme) / f"answers-{k}.jsonl",
        label,
        strict=experiment.strict,
        batching=batching_for(experiment.index, scheme),
        known={document.id for document in experiment.dataset.corpus.documents},
        positions=experiment.index.positions(scheme),
    )
    cutoff = int(metric.rpartition("@")[2])
    scores = score_rankings({k: answers}, experiment.dataset.gold, (cutoff,))
    return Asked(answers, tuple(scores[query.id][metric] for query in queries), _sum_dollars(answers))


def _sum_dollars(answers: Sequence[MethodAnswer]) -> float | None:
    paid = [answer.usage.money for answer in answers]
    return None if None in paid else sum(money or 0.0 for money in paid)
