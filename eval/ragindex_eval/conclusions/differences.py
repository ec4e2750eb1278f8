"""Confidence intervals and paired tests of the figures of a comparison, overall and by kind of question.

Quality is compared over the judged questions, latency over the timed questions that both methods answered, tokens and
money over all questions. Means are compared, except for latency. Latency is skewed, so geometric means are compared: a
single question that waited for a minute says little about the others, and a doubling counts the same for short and
long times.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    MethodPair,
    MethodResult,
    Percentiles,
)
from ragindex_eval.stats.intervals import Interval, SampleArray, cost_interval, mean_interval, percentile_interval
from ragindex_eval.stats.paired_tests import PairedTests, paired_interval, run_paired_tests

_HOPS = regex.compile(r"(\d+)[ -]?hop")
_MAX_GROUPS = 20  # a breakdown into more groups than a person can read is left out
_SHORTEST = 1e-3  # milliseconds; shorter times are raised to this, so that their logarithm exists


def with_intervals(
    methods: Sequence[MethodResult], gold: Mapping[str, Gold] | None, seed: int, naming: Collection[str] = ()
) -> list[MethodResult]:
    """Return the methods with their confidence intervals and breakdowns.

    `naming` are the ids of the questions that name the title of a document that answers them.
    """
    judged = list(methods[0].per_query) if methods else []
    quality = _quality_intervals(methods, judged)
    groups = _groups({id: gold[id].kind for id in judged} if gold else {}, naming)
    split = [_breakdowns(methods, by, value, ids) for (by, value), ids in groups.items()]
    return [
        replace(
            method,
            ci95={**quality[number], **_latency_intervals(method), **_cost_intervals(method, seed)},
            breakdown=tuple(group[number] for group in split),
        )
        for number, method in enumerate(methods)
    ]


def compare_methods(methods: Sequence[MethodResult], seed: int) -> tuple[MethodPair, ...]:
    """Compare every pair of the methods by every metric, quality first and costs last.

    The p-values are corrected for all pairs within one metric.
    """
    both = list(combinations(range(len(methods)), 2))
    pairs = list[MethodPair]()
    for names, values in _tables(methods) if both else ():
        tested = run_paired_tests(values, both, seed, None if names[0] in (LATENCY, *COSTS) else 1.0)
        pairs += _compare_pairs(methods, both, names, values, tested)
    return tuple(pairs)


def hops(kind: str) -> int | None:
    """Return the number of hops in the name of a question kind, such as `2hop` or `3hop1`; None if there is none."""
    match = _HOPS.search(kind)
    return int(match[1]) if match else None


# ---------------------------------------------------------------- intervals


def _quality_intervals(methods: Sequence[MethodResult], ids: Sequence[str]) -> list[dict[str, Interval]]:
    """Return the interval of each metric's mean over the questions `ids`, for each method."""
    intervals: list[dict[str, Interval]] = [{} for _ in methods]
    for defined, names in _families(methods, ids):
        if len(defined) < 2:
            continue
        for own, method in zip(intervals, methods, strict=True):
            own |= dict(zip(names, map(mean_interval, _table(method, defined, names).T), strict=True))
    return intervals


def _families(methods: Sequence[MethodResult], ids: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """Group the metrics by the questions of `ids` for which they are defined.

    The groups differ because not every question has accepted answers. DR, which no single question has, is left out.
    """
    families: dict[tuple[str, ...], list[str]] = {}
    for name in methods[0].metrics if methods else ():
        if defined := tuple(id for id in ids if name in methods[0].per_query[id]):
            families.setdefault(defined, []).append(name)
    return [(list(defined), names) for defined, names in families.items()]


def _latency_intervals(method: MethodResult) -> dict[str, Interval]:
    """Return the intervals of p50 and p95, as far as there are enough times."""
    times = list(method.latency.per_query.values())
    intervals = {f"{LATENCY}_p{percent}": percentile_interval(times, percent) for percent in (50, 95)}
    return {name: bounds for name, bounds in intervals.items() if bounds is not None}


def _cost_intervals(method: MethodResult, seed: int) -> dict[str, Interval]:
    """Return the intervals of mean tokens and money per question."""
    paid = {metric: list(values.values()) for metric, values in method.costs().items() if metric != LATENCY}
    several = {metric: values for metric, values in paid.items() if len(values) > 1 and any(values)}
    return {metric: cost_interval(np.array(values), seed) for metric, values in several.items()}


def _table(method: MethodResult, ids: Sequence[str], names: Sequence[str]) -> SampleArray:
    """Return the metric values as an array of shape (questions, metrics)."""
    return np.array([[method.per_query[id][name] for name in names] for id in ids], dtype=np.float64)


def _groups(kinds: Mapping[str, str], naming: Collection[str]) -> dict[tuple[str, str], list[str]]:
    """Group the questions by hops, by kind, and by whether they name a title.

    Groups by kind are left out if they equal those by hops, and so is a single group or more than _MAX_GROUPS.
    """
    by_kind = _group_by_value({id: kind or "other" for id, kind in kinds.items()})
    by_hops = _group_by_value(
        {id: "other" if (hop_count := hops(kind)) is None else str(hop_count) for id, kind in kinds.items()}
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
    ids_by_value: dict[str, list[str]] = {}
    for id, value in values.items():
        ids_by_value.setdefault(value, []).append(id)
    return ids_by_value


def _breakdowns(methods: Sequence[MethodResult], by: str, value: str, ids: Sequence[str]) -> list[Breakdown]:
    """Return the breakdown of one group of questions for each method."""
    intervals, breakdowns = _quality_intervals(methods, ids), []
    for method, bounds in zip(methods, intervals, strict=True):
        part = _restrict(method, frozenset(ids))
        metrics = means([method.per_query[id] for id in ids])
        bounds = {**bounds, **_latency_intervals(part)}
        breakdowns.append(
            Breakdown(by, value, len(ids), metrics, bounds, part.latency.total, part.query_usage, part.calls)
        )
    return breakdowns


def _restrict(method: MethodResult, ids: Collection[str]) -> MethodResult:
    """Return a method with the answers at the largest k, and the times, of some questions."""
    answers = {max(method.answers): tuple(answer for answer in method.final if answer.query_id in ids)}
    times = {id: taken for id, taken in method.latency.per_query.items() if id in ids}
    p50, p95 = np.percentile(list(times.values()), (50, 95)).tolist() if times else (None, None)
    latency = replace(method.latency, total=Percentiles(p50, p95), per_query=times)
    return replace(method, answers=answers, latency=latency)


# ---------------------------------------------------------------- pairs


def _tables(methods: Sequence[MethodResult]) -> Iterator[tuple[Sequence[str], SampleArray]]:
    """Yield metrics with their values of shape (questions, methods, metrics), NaN where a method was not measured.

    Metrics that are defined for the same questions come together. Latencies are logarithms.
    """
    judged = list(methods[0].per_query) if methods else []
    for ids, names in _families(methods, judged):
        yield names, np.stack([_table(method, ids, names) for method in methods], axis=1)
    every = [method.costs() for method in methods]
    for metric in (LATENCY, *COSTS):
        costs = [costs_of.get(metric, {}) for costs_of in every]
        if any(any(cost.values()) for cost in costs):
            values = _align(costs)
            yield [metric], (_logarithms(values) if metric == LATENCY else values)[:, :, None]


def _align(per_query: Sequence[Mapping[str, float]]) -> SampleArray:
    """Return values by query id as an array of shape (questions, methods), NaN where a method has none."""
    ids = list(dict.fromkeys(id for scores in per_query for id in scores))
    return np.array([[scores.get(id, math.nan) for scores in per_query] for id in ids]).reshape(
        len(ids), len(per_query)
    )


def _logarithms(milliseconds: SampleArray) -> SampleArray:
    return np.log(np.maximum(milliseconds, _SHORTEST))


def _compare_pairs(
    methods: Sequence[MethodResult],
    both: Sequence[tuple[int, int]],
    names: Sequence[str],
    values: SampleArray,
    tested: PairedTests,
) -> Iterator[MethodPair]:
    """Yield the comparison of each of the pairs `both`, for one metric after the other.

    Pairs without a question that both methods have are left out.
    """
    for metric, name in enumerate(names):
        for number, (first, second) in enumerate(both):
            differences = values[:, first, metric] - values[:, second, metric]
            shared = differences[~np.isnan(differences)]
            if not len(shared):
                continue
            value, bounds = float(shared.mean()), None
            if len(shared) > 1:
                noise = _machine_noise(methods[first], methods[second]) if name == LATENCY else 0.0
                bounds = float(tested.low[number, metric]) - noise, float(tested.high[number, metric]) + noise
            if name == LATENCY:
                value, bounds = math.exp(value), None if bounds is None else (math.exp(bounds[0]), math.exp(bounds[1]))
            yield MethodPair(
                *(methods[first].label, methods[second].label, name, len(shared), value, bounds),
                *(float(p[number, metric]) for p in (tested.p, tested.adjusted)),
            )


def _machine_noise(method_result: MethodResult, other: MethodResult) -> float:
    """Return how far the same work differed between the timings of two methods, in logarithms.

    This is the end of the 95 % interval of the mean difference of the reference times that is farther from 0. It is 0
    without reference times of both.
    """
    values = _align([method_result.latency.reference, other.latency.reference])
    timed = values[~np.isnan(values).any(axis=1)]
    if not len(timed):
        return 0.0
    logarithms = _logarithms(timed)
    return max(map(abs, paired_interval(logarithms[:, 0] - logarithms[:, 1], None)))
