"""Ranking files under audit: what they lack, ties that decide a figure, gold that nobody finds, and paired tests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import ceil, isinf
from pathlib import Path
from typing import Any

import numpy as np

from ragindex.errors import UsageError
from ragindex_eval.data.run_files import RunFile, read_qrels, read_run
from ragindex_eval.format import join_names
from ragindex_eval.metrics import retrieval
from ragindex_eval.stats.intervals import SampleArray, mean_interval
from ragindex_eval.stats.paired_tests import count_questions, run_paired_tests, smallest_difference

SEED = 0
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class AuditedRun:
    """Rankings of one file: the mean of the metric with its interval, and what is amiss.

    `by_ties` are the least and the greatest mean over all orders of documents with equal scores, `tied` the questions
    whose figure depends on it. `missing` are judged questions without a ranking, which score 0, `unjudged` questions
    with a ranking and no judgements, `short` rankings of fewer than k documents. `unjudged_hits` is the share of the
    first k documents without a judgement. `unknown` are the documents that the corpus lacks, None without a corpus.
    """

    name: str
    value: float
    interval: tuple[float, float]
    by_ties: tuple[float, float]
    tied: int
    missing: int
    unjudged: int
    short: int
    unjudged_hits: float
    unknown: int | None


@dataclass(frozen=True, slots=True)
class AuditedPair:
    """Two runs: the difference of their means with its interval, corrected for all pairs, and p.

    `smallest` is the smallest difference that these questions show with 80 % power, were differences spread as they
    are; `needed_questions` show this difference. Either is None if there is none.
    """

    first: str
    second: str
    difference: float
    interval: tuple[float, float]
    p: float
    p_adjusted: float
    smallest: float | None
    needed_questions: int | None


@dataclass(frozen=True, slots=True)
class RankingAudit:
    """Runs and their pairs, and the gold documents that no run has at any rank, of `gold` in all.

    `unanswerable` are questions without a relevant document, which score 0. `unmatched` are gold documents that the
    corpus lacks, None without a corpus; `examples` has some of those and of `never_found` by name.
    """

    metric: str
    questions: int
    unanswerable: int
    gold: int
    never_found: int
    unmatched: int | None
    runs: tuple[AuditedRun, ...]
    pairs: tuple[AuditedPair, ...]
    examples: Mapping[str, tuple[str, ...]]

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON field `rankings`."""
        return asdict(self)


def audit_rankings(
    files: Sequence[Path], qrels: Path, metric: str, documents: frozenset[str] | None = None
) -> RankingAudit:
    """Audit ranking files by judgements, as trec_eval and ir_measures score them.

    `metric` is one of ragindex's retrieval metrics with its k; `documents` are the ids of the corpus. Raises DataError
    for files that cannot be read, and UsageError for an unknown metric and for runs of the same name.
    """
    k = _parse_cutoff(metric)
    grades = read_qrels(qrels)
    gold = {query: {id: grade for id, grade in of_query.items() if grade > 0} for query, of_query in grades.items()}
    if not any(gold.values()):
        raise UsageError(f"{qrels} judges no document as relevant, so no ranking can be scored.")
    runs = [read_run(file) for file in files]
    names = [run.name for run in runs]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(
            f"Several runs are called {join_names(repeated)}: rename the files, whose names are the labels."
        )
    values = np.stack([_score(run, gold, metric, k) for run in runs], axis=1)
    ids = {id for of_query in gold.values() for id in of_query}
    retrieved = {
        (query, id) for run in runs for query, ranked in run.rankings.items() for id, _ in ranked if query in gold
    }
    relevant = [(query, id) for query, of_query in gold.items() for id in of_query]
    missed = [id for query, id in relevant if (query, id) not in retrieved]
    unmatched = None if documents is None else sorted(ids - documents)
    return RankingAudit(
        metric=metric,
        questions=len(grades),
        unanswerable=sum(not of_query for of_query in gold.values()),
        gold=len(relevant),
        never_found=len(missed),
        unmatched=None if unmatched is None else len(unmatched),
        runs=tuple(
            _audit_run(run, values[:, number], grades, gold, metric, k, documents) for number, run in enumerate(runs)
        ),
        pairs=tuple(_audit_pairs(names, values)),
        examples={"never_found": tuple(missed[:_EXAMPLES]), "unmatched": tuple((unmatched or [])[:_EXAMPLES])},
    )


def _parse_cutoff(metric: str) -> int:
    name, _, cutoff = metric.partition("@")
    if name not in retrieval.RETRIEVAL_METRICS or not cutoff.isdecimal() or not 1 <= int(cutoff[:9]) <= 100_000:
        known = ", ".join(f"{known}@10" for known in retrieval.RETRIEVAL_METRICS)
        raise UsageError(f"--metric of rankings is one of {known}, with any number. Got {metric!r}.")
    return int(cutoff)


def _score(
    run: RunFile, gold: Mapping[str, Mapping[str, int]], metric: str, k: int, ties: int | None = None
) -> SampleArray:
    """Return the metric by question, in the order of `gold`.

    `ties` orders documents of equal scores: None by their ids as trec_eval does, 1 relevant ones first, -1 last.
    """
    return np.array(
        [
            _score_question(_order(run.rankings.get(query, ()), of_query, ties)[:k], of_query, metric, k)
            for query, of_query in gold.items()
        ]
    )


def _score_question(ids: Sequence[str], gold: Mapping[str, int], metric: str, k: int) -> float:
    return retrieval.score_hits([(id,) for id in ids], gold, [k])[metric] if gold else 0.0


def _order(ranked: Sequence[tuple[str, float]], gold: Mapping[str, int], ties: int | None) -> list[str]:
    with np.errstate(over="ignore"):  # as trec_eval keeps scores
        scores = np.array([score for _, score in ranked], dtype=np.float32).tolist()
    if ties is None or len(set(scores)) == len(scores):
        return [id for id, _ in ranked]
    entries = [(-score, -ties * gold.get(id, 0), id) for (id, _), score in zip(ranked, scores, strict=True)]
    return [id for _, _, id in sorted(entries, key=lambda entry: entry[:2])]


def _audit_run(
    run: RunFile,
    values: SampleArray,
    grades: Mapping[str, Mapping[str, int]],
    gold: Mapping[str, Mapping[str, int]],
    metric: str,
    k: int,
    documents: frozenset[str] | None,
) -> AuditedRun:
    worst, best = _score(run, gold, metric, k, -1), _score(run, gold, metric, k, 1)
    judged = [query for query in grades if query in run.rankings]
    first = [(query, id) for query in judged for id, _ in run.rankings[query][:k]]
    unjudged_hits = sum(id not in grades[query] for query, id in first) / len(first) if first else 0.0
    ids = {id for ranked in run.rankings.values() for id, _ in ranked}
    return AuditedRun(
        name=run.name,
        value=float(values.mean()),
        interval=mean_interval(values),
        by_ties=(float(worst.mean()), float(best.mean())),
        tied=int((best > worst).sum()),
        missing=len(grades) - len(judged),
        unjudged=len(run.rankings) - len(judged),
        short=sum(len(run.rankings[query]) < k for query in judged),
        unjudged_hits=unjudged_hits,
        unknown=None if documents is None else len(ids - documents),
    )


def _audit_pairs(names: Sequence[str], values: SampleArray) -> Iterator[AuditedPair]:
    pairs = list(combinations(range(len(names)), 2))
    if not pairs:
        return
    tests = run_paired_tests(values[:, :, None], pairs, SEED)
    for number, (first, second) in enumerate(pairs):
        differences = values[:, first] - values[:, second]
        mean = float(differences.mean())
        spread = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
        needed = count_questions(abs(mean), spread, len(pairs)) if spread else float("inf")
        yield AuditedPair(
            names[first],
            names[second],
            mean,
            (float(tests.low[number, 0]), float(tests.high[number, 0])),
            float(tests.p[number, 0]),
            float(tests.adjusted[number, 0]),
            smallest_difference(spread, len(differences), len(pairs)) if spread else None,
            None if isinf(needed) else ceil(needed),
        )
