"""Trials before the race: first questions that show what an answer costs, and dear methods on a part of the corpus.

A drop in a trial on a part of the corpus is a heuristic, outside the risk of the race, and is labelled so.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from ragindex.index.index import Index
from ragindex.interfaces import Scheme
from ragindex.types import Query
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.format import percent
from ragindex_eval.metrics.score import judgements
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.values import Candidate
from ragindex_eval.run.experiment import Experiment, load_experiment
from ragindex_eval.run.latency import LazyRetriever
from ragindex_eval.run.scores import ask_scored
from ragindex_eval.run.settings import CompareSettings
from ragindex_eval.stats.intervals import SampleArray
from ragindex_eval.stats.paired_tests import paired_interval

PARTS = (0.1, 0.3)
"""Shares of the documents, besides the judged ones, that dear methods are tried on before the whole corpus."""
_DEAR_SECONDS = 60.0  # to build; cheaper methods are not worth a trial
TRIAL_QUESTIONS = 60
"""Questions that are asked in a trial."""


def try_on_parts(
    candidates: Sequence[Candidate],
    settings: CompareSettings,
    rules: RecommendRules,
    data: Dataset,
    index: Index,
    schemes: Sequence[Scheme],
    queries: Sequence[Query],
    tell: Callable[[str], None],
) -> list[Candidate]:
    """Return the candidates, without the dear ones that do not seem able to be better by delta than the best cheap one.

    All are built over all judged documents and a sample of the others, which grows; nothing built is lost, because the
    index grows with it. A dear candidate goes on as long as the 95 % interval of its difference to the best cheap one
    reaches delta on the first of `queries`, those of the race. Nothing is tried if no candidate is dear, or the index
    has documents already.
    """
    dear = [one for one in candidates if one.state == "racing" and (one.costs.index_seconds or 0.0) >= _DEAR_SECONDS]
    cheap = [one for one in candidates if one.state == "racing" and one not in dear]
    if not dear or not cheap or index.documents.collection.count():
        return list(candidates)
    left, seed = dict[str, Candidate](), settings.seed or 0
    for share in PARTS:
        part = part_of(data, share, seed)
        tell(f"trial on {len(part.corpus.documents):,} of {len(data.corpus.documents):,} documents")
        experiment = load_experiment(settings, part, schemes, index)
        scores = score_candidates([*cheap, *dear], experiment, rules.metric, queries[:TRIAL_QUESTIONS])
        best = max(cheap, key=lambda one: float(scores[one.label].mean()))
        for one in dear:
            high = largest_gain(scores[one.label], scores[best.label])
            if high < rules.delta:
                reason = _describe_gain(len(part.corpus.documents), high, best)
                left[one.label] = one.leave("sub-corpus", reason)
                tell(f"{one.label} is not built over all documents: {reason}")
        dear = [one for one in dear if one.label not in left]
        if not dear:
            break
    return [left.get(one.label, one) for one in candidates]


def _describe_gain(documents: int, high: float, best: Candidate) -> str:
    least = (
        f"is at least {percent(-high)} points worse than" if high < 0 else f"gains {percent(high)} points at most over"
    )
    return f"on {documents:,} documents it {least} {best.label} (a heuristic)"


def part_of(data: Dataset, share: float, seed: int) -> Dataset:
    """Return the dataset with its gold documents and a share of the others; a larger share contains a smaller one."""
    gold = {id for query in data.queries for id in judgements(data.gold, query.id)}
    ids = {id for one in (data.gold or {}).values() for id in one.twins}
    others = [document for document in data.corpus.documents if document.id not in gold | ids]
    Random(seed).shuffle(others)  # noqa: S311  # a sample, no secret
    kept = {document.id for document in others[: round(share * len(others))]} | gold | ids
    documents = tuple(document for document in data.corpus.documents if document.id in kept)
    return replace(data, corpus=replace(data.corpus, documents=documents))


def score_candidates(
    candidates: Sequence[Candidate], experiment: Experiment, metric: str, queries: Sequence[Query]
) -> dict[str, SampleArray]:
    """Build the candidates and return their scores on the questions, by label."""
    found = dict[str, SampleArray]()
    for candidate in candidates:
        experiment.index.build(candidate.scheme)
        retriever = LazyRetriever(candidate.scheme, experiment.index)
        found[candidate.label] = np.array(ask_scored(experiment, candidate.label, retriever, queries, metric).scores)
        retriever.close()
    return found


def largest_gain(one: SampleArray, other: SampleArray) -> float:
    """Return the upper end of the 95 % interval of the mean difference, paired by question."""
    return paired_interval(one - other)[1]
