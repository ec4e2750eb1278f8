"""What the first answers of each candidate cost, in milliseconds and dollars, and which candidates that rules out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragindex.types import Query
from ragindex_eval.format import short
from ragindex_eval.recommend.prices import broken_constraint
from ragindex_eval.recommend.rules import RecommendRules
from ragindex_eval.recommend.values import Candidate, Costs
from ragindex_eval.run import latency
from ragindex_eval.run.answers_file import answers_fingerprint
from ragindex_eval.run.experiment import Experiment
from ragindex_eval.run.latency import LazyRetriever, Timing
from ragindex_eval.run.scores import ask_scored
from ragindex_eval.stats.intervals import percentile_bounds

TIMED = 60
"""Questions that are timed; fewer than 59 have no upper bound of the 95th percentile."""
P95_RISK = 0.05
"""The risk that a bound of the 95th percentile is wrong."""


def cost_of_answers(
    candidates: Sequence[Candidate], experiment: Experiment, queries: Sequence[Query], rules: RecommendRules
) -> list[Candidate]:
    """Return the racing candidates with p95 and dollars of first questions, without those that break a constraint.

    A candidate is too slow if its 95th percentile exceeds the limit for certain: the lower bound from order
    statistics does, at a risk of 5 %. Candidates are timed together, question by question.
    """
    racing = [candidate for candidate in candidates if candidate.state == "racing"]
    times = _time(racing, experiment, queries[:TIMED])
    found = dict[str, Candidate]()
    for one, milliseconds in zip(racing, times, strict=True):
        scored = ask_scored(
            experiment, one.label, LazyRetriever(one.scheme, experiment.index), queries[: rules.block], rules.metric
        )
        dollars = None if scored.dollars is None else 1000 * scored.dollars / len(scored.scores)
        p95 = float(np.percentile(milliseconds, 95)) if len(milliseconds) else None
        bounds = percentile_bounds(milliseconds, 95, P95_RISK)
        costed = replace(one, costs=replace(one.costs, p95_ms=p95, p95_bounds=bounds, dollars_per_1000=dollars))
        broken = _too_slow(costed.costs, rules) or broken_constraint(costed.costs, rules)
        found[one.label] = costed if broken is None else costed.leave("constraint", broken)
    return [found.get(candidate.label, candidate) for candidate in candidates]


def _too_slow(costs: Costs, rules: RecommendRules) -> str | None:
    low = costs.p95_bounds[0]
    if rules.max_p95_ms is None or low is None or low <= rules.max_p95_ms:
        return None
    return f"--max-p95-ms {rules.max_p95_ms:g}: the 95th percentile is above {short(low)} ms"


def _time(candidates: Sequence[Candidate], experiment: Experiment, queries: Sequence[Query]) -> list[list[float]]:
    """Return the milliseconds of each question, for each candidate."""
    index, gold, k = experiment.index, experiment.dataset.gold, experiment.ks[-1]
    timings = [
        Timing(
            candidate.label,
            LazyRetriever(candidate.scheme, index),
            index.folder
            / "runs"
            / answers_fingerprint(index, candidate.scheme, queries, gold)
            / f"first-{latency.latency_file_name(k)}",
        )
        for candidate in candidates
    ]
    measured = latency.measure_latency(timings, list(queries), k, index.seed)
    return [list(one.latency.per_query.values()) for one in measured]
