"""Conclusions of a comparison: which methods differ significantly, which may be the best, and how far they agree.

Direction, size and significance of a pair all come from one statistic, the value of a `MethodPair`. A conclusion never
contradicts the figures that are shown beside it.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from ragindex_eval.metrics.retrieval import ranking
from ragindex_eval.results.model import COSTS, LATENCY, ComparedMethods, MethodAnswer, MethodPair, MethodResult
from ragindex_eval.stats.intervals import LEVEL

DRIFT = 2.0  # a smaller factor than this is called neither faster nor slower, however certain it is
_LOWER_IS_BETTER = (LATENCY, *COSTS)
FEW = 30  # questions; with fewer, intervals are wide


def middle_k(ks: Sequence[int]) -> int:
    """Return the one k at which nDCG and full recall are shown: 10 if it was measured, else the middle one."""
    return 10 if 10 in ks else ks[len(ks) // 2]


def differ(compared: ComparedMethods, a: str, b: str, metric: str) -> bool:
    """Return whether one of two methods is significantly better than the other by a metric (see `better`)."""
    return better(compared, a, b, metric) or better(compared, b, a, metric)


def better(compared: ComparedMethods, a: str, b: str, metric: str) -> bool:
    """Return whether `a` is significantly better than `b`: higher in a quality metric, or lower in a cost.

    The pair's value must be significant (corrected p under 0.05), and the figures shown must agree with it. For
    latency, the interval, which includes the noise of the machine, must leave out equality too, and `a` must be at
    least DRIFT times as fast, both by the pair's value and by p50. Returns False if the metric was not measured for
    both methods.
    """
    try:
        pair = compared.pair(a, b, metric)
    except KeyError:
        return False
    ahead = pair.excess < 0 if metric in _LOWER_IS_BETTER else pair.excess > 0
    in_noise = metric == LATENCY and (pair.ci95 is None or pair.ci95[1] >= 1.0)
    if not ahead or pair.p_adjusted >= LEVEL or in_noise:
        return False
    return _figures_agree(compared.method(a), compared.method(b), metric, pair.value)


def differ_slightly(compared: ComparedMethods, pair: MethodPair) -> bool:
    """Return whether latencies differ significantly by a factor under DRIFT, by the pair's value and by p50.

    The interval of the pair includes the noise of the machine and must leave out equality.
    """
    if pair.metric != LATENCY or pair.ci95 is None or pair.p_adjusted >= LEVEL:
        return False
    first, second = (compared.method(label).latency.total.p50 for label in (pair.a, pair.b))
    factors = (pair.value, first / second if first and second else 1.0)
    below, above = max(*factors, pair.ci95[1]) < 1, min(*factors, pair.ci95[0]) > 1
    return (below or above) and all(1 / DRIFT < factor < DRIFT for factor in factors)


def _figures_agree(a: MethodResult, b: MethodResult, metric: str, value: float) -> bool:
    """Return whether the figures shown for two methods agree that `a` is better."""
    if metric == LATENCY:
        first, second = a.latency.total, b.latency.total
        if first.p50 is None or first.p95 is None or second.p50 is None or second.p95 is None:
            return False
        return max(value, first.p50 / second.p50 if second.p50 else 1.0) <= 1 / DRIFT and first.p95 <= second.p95
    if metric in COSTS:
        spent, others = getattr(a.query_usage, metric), getattr(b.query_usage, metric)
        return spent is not None and others is not None and bool(spent < others)
    return a.metrics[metric] > b.metrics[metric]


def leaders(compared: ComparedMethods, metric: str) -> tuple[str, ...]:
    """Return the methods that cannot be excluded as the best by a metric, best first; () if it was not measured.

    A method is excluded if another one is significantly better. As p-values are corrected for all pairs, any method
    that is as good as the best is excluded with a probability of 5 % at most, however many methods are.
    """
    ranked = rank_methods(compared, metric)
    return tuple(label for label in ranked if not any(better(compared, other, label, metric) for other in ranked))


def rank_methods(compared: ComparedMethods, metric: str) -> list[str]:
    """Sort the labels by mean, or by p50 for latency, best first; ties keep the order of the table."""
    if metric == LATENCY:
        timed = [(method.latency.total.p50, method.label) for method in compared.methods]
        known = [(value, label) for value, label in timed if value is not None]
        return [label for _, label in sorted(known, key=lambda pair: pair[0])]
    measured = [method for method in compared.methods if metric in method.metrics]
    return [method.label for method in sorted(measured, key=lambda method: -method.metrics[metric])]


def overlap(first: MethodAnswer, second: MethodAnswer, k: int) -> float | None:
    """Return the Jaccard overlap of the documents of the first k hits of two answers; None if one of them failed."""
    if first.error is not None or second.error is not None:
        return None
    a, b = (set(ranking(hit.doc_ids for hit in answer.hits[:k])) for answer in (first, second))
    return len(a & b) / len(a | b) if a | b else 1.0


def agreement(compared: ComparedMethods, k: int) -> Mapping[tuple[str, str], float]:
    """Return the mean overlap of every pair of methods over the questions that both answered."""
    overlaps = {}
    for first, second in combinations(compared.methods, 2):
        shared = [overlap(a, b, k) for a, b in zip(first.final, second.final, strict=True)]
        known = [value for value in shared if value is not None]
        if known:
            overlaps[first.label, second.label] = sum(known) / len(known)
    return overlaps
