"""What the first answers of each candidate cost, in milliseconds and dollars, and which candidates that rules out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import binom

from ragindex.types import Query
from ragindex_eval.format import short
from ragindex_eval.recommend.prices import broken_constraint
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.values import Candidate
from ragindex_eval.run import latency
from ragindex_eval.run.ask_scored import answers_folder, ask_scored
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.latency import LazyRetriever, Timing

TIMED = 40
"""Questions that are timed."""


def cost_of_answers(
    candidates: Sequence[Candidate], experiment: Experiment, queries: Sequence[Query], rules: RecommendRules
) -> list[Candidate]:
    """Return the racing candidates with p95 and dollars of first questions, without those that break a constraint.

    A candidate is too slow if its 95th percentile exceeds the limit for certain: the lower end of a one-sided 95 %
    interval from order statistics does. Candidates are timed together, question by question.
    """
    racing = [one for one in candidates if one.state == "racing"]
    times = _time(racing, experiment, queries[:TIMED])
    found = dict[str, Candidate]()
    for one, milliseconds in zip(racing, times, strict=True):
        asked = ask_scored(
            experiment, one.label, LazyRetriever(one.scheme, experiment.index), queries[: rules.block], rules.metric
        )
        dollars = None if asked.dollars is None else 1000 * asked.dollars / len(asked.scores)
        p95 = float(np.percentile(milliseconds, 95)) if len(milliseconds) else None
        costed = replace(one, costs=replace(one.costs, p95_ms=p95, dollars_per_1000=dollars))
        broken = _too_slow(milliseconds, rules) or broken_constraint(costed.costs, rules)
        found[one.label] = costed if broken is None else costed.leave("constraint", broken)
    return [found.get(one.label, one) for one in candidates]


def lower_end_of_p95(milliseconds: Sequence[float]) -> float:
    """Return the lower end of the one-sided 95 % interval of the 95th percentile; 0 if there are too few times.

    The r-th smallest of n times lies below the percentile with probability P(Bin(n, 0.95) >= r); the largest r for
    which that is at least 0.95 is taken.
    """
    ordered = sorted(milliseconds)
    below = [rank for rank in range(1, len(ordered) + 1) if binom.sf(rank - 1, len(ordered), 0.95) >= 0.95]
    return ordered[below[-1] - 1] if below else 0.0


def _too_slow(milliseconds: Sequence[float], rules: RecommendRules) -> str | None:
    low = lower_end_of_p95(milliseconds)
    if rules.max_p95_ms is None or low <= rules.max_p95_ms:
        return None
    return f"--max-p95-ms {rules.max_p95_ms:g}: the 95th percentile is above {short(low)} ms"


def _time(candidates: Sequence[Candidate], experiment: Experiment, queries: Sequence[Query]) -> list[list[float]]:
    """Return the milliseconds of each question, for each candidate."""
    k, seed = experiment.ks[-1], experiment.index.seed
    timings = [
        Timing(
            one.label,
            LazyRetriever(one.scheme, experiment.index),
            answers_folder(experiment, one.scheme) / f"first-{latency.latency_file_name(k)}",
        )
        for one in candidates
    ]
    measured = latency.measure_latency(timings, list(queries), k, seed)
    return [list(one.latency.per_query.values()) for one in measured]
