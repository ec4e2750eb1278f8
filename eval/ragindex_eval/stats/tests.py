"""Confidence intervals and paired tests of the figures of a comparison, overall and by kind of question.

Quality is compared over the judged questions, latency over the timed questions that both methods answered, tokens and
money over all questions. Means are compared, except for latency. Latency is skewed, so geometric means are compared: a
single question that waited for a minute says little about the others, and a doubling counts the same for short and
long times.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import regex

from ragindex_eval.data.gold import Gold
from ragindex_eval.metrics.retrieval import means
from ragindex_eval.results.model import (
    COSTS,
    LATENCY,
    NAMED,
    NOT_NAMED,
    Breakdown,
    Interval,
    MethodPair,
    MethodResult,
    Percentiles,
)
from ragindex_eval.stats import resampling
from ragindex_eval.stats.resampling import SampleArray

_HOPS = regex.compile(r"(\d+)[ -]?hop")
_MAX_GROUPS = 20  # a breakdown into more groups than a person can read is left out
_SHORTEST = 1e-3  # milliseconds; shorter times are raised to this, so that their logarithm exists
_RESAMPLES_PER_PAIR = 50  # resamples per pair at least, so that p can fall well under 0.05 after Holm's correction


def with_intervals(
    methods: Sequence[MethodResult], gold: Mapping[str, Gold] | None, seed: int, naming: Collection[str] = ()
) -> list[MethodResult]:
    """Return the methods with their confidence intervals and breakdowns.

    `naming` are the ids of the questions that name the title of a document that answers them.
    """
    judged = list(methods[0].per_query) if methods else []
    quality = _quality_intervals(methods, judged, seed)
    groups = _groups({id: gold[id].kind for id in judged} if gold else {}, naming)
    split = [_breakdowns(methods, by, value, ids, seed) for (by, value), ids in groups.items()]
    return [
        replace(
            method,
            ci95={**quality[number], **_latency_intervals(method, seed), **_cost_intervals(method, seed)},
            breakdown=tuple(group[number] for group in split),
        )
        for number, method in enumerate(methods)
    ]


def pairs(methods: Sequence[MethodResult], seed: int) -> tuple[MethodPair, ...]:
    """Compare every pair of methods by every metric: quality first, costs last, p-values corrected per metric."""
    both = list(combinations(range(len(methods)), 2))
    every = [method.costs() for method in methods]
    known = [metric for metric in (LATENCY, *COSTS) if any(any(one.get(metric, {}).values()) for one in every)]
    costs = [pair for metric in known for pair in _correct_p_values(_cost_pairs(methods, both, metric, seed))]
    return (*_quality_pairs(methods, both, seed), *costs)


def hops(kind: str) -> int | None:
    """Return the number of hops in the name of a question kind, such as `2hop` or `3hop1`; None if there is none."""
    found = _HOPS.search(kind)
    return int(found[1]) if found else None


# ---------------------------------------------------------------- intervals


def _quality_intervals(methods: Sequence[MethodResult], ids: Sequence[str], seed: int) -> list[dict[str, Interval]]:
    """Return the interval of each metric's mean over the questions `ids`, for each method, all with the same draws."""
    found: list[dict[str, Interval]] = [{} for _ in methods]
    for defined, names in _families(methods, ids):
        if len(defined) < 2:
            continue
        values = np.hstack([_table(method, defined, names) for method in methods])
        intervals = iter([resampling.interval(column) for column in resampling.resampled_means(values, seed).T])
        for each in found:
            each |= {name: next(intervals) for name in names}
    return found


def _families(methods: Sequence[MethodResult], ids: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """Group the metrics by the questions of `ids` for which they are defined.

    The groups differ because not every question has accepted answers. DR, which no single question has, is left out.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for name in methods[0].metrics if methods else ():
        if defined := tuple(id for id in ids if name in methods[0].per_query[id]):
            found.setdefault(defined, []).append(name)
    return [(list(defined), names) for defined, names in found.items()]


def _latency_intervals(method: MethodResult, seed: int) -> dict[str, Interval]:
    values = np.array(list(method.latency.per_query.values()))
    if len(values) < 2:
        return {}
    p50, p95 = resampling.percentile_intervals(values, (50, 95), seed)
    return {f"{LATENCY}_p50": p50, f"{LATENCY}_p95": p95}


def _cost_intervals(method: MethodResult, seed: int) -> dict[str, Interval]:
    """Return the intervals of mean tokens and money per question."""
    paid = {metric: list(values.values()) for metric, values in method.costs().items() if metric != LATENCY}
    several = {metric: values for metric, values in paid.items() if len(values) > 1 and any(values)}
    return {
        metric: resampling.interval(resampling.resampled_means(np.array(values)[:, None], seed)[:, 0])
        for metric, values in several.items()
    }


def _table(method: MethodResult, ids: Sequence[str], names: Sequence[str]) -> SampleArray:
    """Return the metric values as an array of shape (questions, metrics)."""
    return np.array([[method.per_query[id][name] for name in names] for id in ids], dtype=np.float64)


def _groups(kinds: Mapping[str, str], naming: Collection[str]) -> dict[tuple[str, str], list[str]]:
    """Group the questions by hops, by kind, and by whether they name a title.

    Groups by kind are left out if they equal those by hops, and so is a single group or more than _MAX_GROUPS.
    """
    by_kind = _group_by_value({id: kind or "other" for id, kind in kinds.items()})
    by_hops = _group_by_value(
        {id: "other" if (found := hops(kind)) is None else str(found) for id, kind in kinds.items()}
    )
    by_title = _group_by_value({id: NAMED if id in naming else NOT_NAMED for id in kinds})
    same = sorted(by_hops.values()) == sorted(by_kind.values())
    return {
        (by, value): ids
        for by, groups in {"hops": by_hops, "kind": {} if same else by_kind, "title": by_title}.items()
        if 1 < len(groups) <= _MAX_GROUPS
        for value, ids in sorted(groups.items())
    }


def _group_by_value(values: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for id, value in values.items():
        found.setdefault(value, []).append(id)
    return found


def _breakdowns(methods: Sequence[MethodResult], by: str, value: str, ids: Sequence[str], seed: int) -> list[Breakdown]:
    """Return the breakdown of one group of questions for each method."""
    intervals, found = _quality_intervals(methods, ids, seed), []
    for method, bounds in zip(methods, intervals, strict=True):
        part = _restrict(method, frozenset(ids))
        metrics = means([method.per_query[id] for id in ids])
        bounds = {**bounds, **_latency_intervals(part, seed)}
        found.append(Breakdown(by, value, len(ids), metrics, bounds, part.latency.total, part.query_usage, part.calls))
    return found


def _restrict(method: MethodResult, ids: Collection[str]) -> MethodResult:
    """Return a method with the answers at the largest k, and the times, of some questions."""
    answers = {max(method.answers): tuple(one for one in method.final if one.query_id in ids)}
    times = {id: taken for id, taken in method.latency.per_query.items() if id in ids}
    p50, p95 = np.percentile(list(times.values()), (50, 95)).tolist() if times else (None, None)
    latency = replace(method.latency, total=Percentiles(p50, p95), per_query=times)
    return replace(method, answers=answers, latency=latency)


# ---------------------------------------------------------------- pairs


def _quality_pairs(methods: Sequence[MethodResult], both: Sequence[tuple[int, int]], seed: int) -> list[MethodPair]:
    if not both or not methods[0].per_query:
        return []
    families = _families(methods, list(methods[0].per_query))
    return [pair for ids, names in families for pair in _family_pairs(methods, both, ids, names, seed)]


def _family_pairs(
    methods: Sequence[MethodResult],
    both: Sequence[tuple[int, int]],
    ids: Sequence[str],
    names: Sequence[str],
    seed: int,
) -> list[MethodPair]:
    """Compare all pairs by metrics that are defined for the same questions."""
    values = np.stack([_table(method, ids, names) for method in methods], axis=1)
    tested = resampling.permutation_tests(values, both, seed, _count_resamples(len(both)))
    resampled = resampling.resampled_means(values.reshape(len(ids), -1), seed)
    resampled = resampled.reshape(len(resampled), len(methods), len(names))
    found = []
    for at, name in enumerate(names):
        of_metric = [
            _compare_pair(
                methods, one, other, name, values[:, one, at] - values[:, other, at], float(p), resampled[:, :, at]
            )
            for (one, other), p in zip(both, tested[:, at], strict=True)
        ]
        found += _correct_p_values(of_metric)
    return found


def _cost_pairs(
    methods: Sequence[MethodResult], both: Sequence[tuple[int, int]], metric: str, seed: int
) -> list[MethodPair]:
    """Compare all pairs by one cost; pairs with a method whose money is unknown are left out."""
    found, costs = [], [method.costs() for method in methods]
    for one, other in both:
        a, b = costs[one].get(metric, {}), costs[other].get(metric, {})
        ids = [id for id in a if id in b]
        if not ids:
            continue
        values = np.array([[a[id], b[id]] for id in ids])
        if metric == LATENCY:
            values = np.log(np.maximum(values, _SHORTEST))
        p = resampling.permutation_tests(values[:, :, None], [(0, 1)], seed, _count_resamples(len(both)))[0, 0]
        resampled = resampling.resampled_means(values, seed)
        named = (methods[one], methods[other])
        found.append(_compare_pair(named, 0, 1, metric, values[:, 0] - values[:, 1], float(p), resampled))
    return found


def _compare_pair(
    methods: Sequence[MethodResult],
    one: int,
    other: int,
    metric: str,
    differences: SampleArray,
    p: float,
    resampled: SampleArray,
) -> MethodPair:
    """Build the comparison of two methods by one metric.

    `resampled` are means of shape (draws, methods). Latencies are given as logarithms, so their difference is a ratio.
    `p_holm` is the uncorrected p-value until `_correct_p_values` replaces it.
    """
    value, several = float(differences.mean()), len(differences) > 1
    bounds = resampling.interval(resampled[:, one] - resampled[:, other]) if several else None
    if metric == LATENCY:
        value, bounds = math.exp(value), None if bounds is None else (math.exp(bounds[0]), math.exp(bounds[1]))
    labels = methods[one].label, methods[other].label
    return MethodPair(*labels, metric, len(differences), value, bounds, p, p)


def _correct_p_values(of_metric: Sequence[MethodPair]) -> list[MethodPair]:
    values = resampling.holm([pair.p for pair in of_metric])
    return [replace(pair, p_holm=value) for pair, value in zip(of_metric, values, strict=True)]


def _count_resamples(pairs: int) -> int:
    return max(resampling.RESAMPLES, _RESAMPLES_PER_PAIR * pairs)
