"""Comparison of a run with a published table: conditions, figures, and differences between methods."""

from collections.abc import Mapping, Sequence

import regex

from ragindex_eval.data.published import EFFICIENCY, PublishedTable
from ragindex_eval.format import without_folders
from ragindex_eval.results.model import ComparedMethods, DatasetFacts, MethodResult
from ragindex_eval.results.records import (
    ComparedCondition,
    ComparedFigure,
    ComparedGain,
    FigureVerdict,
    GainVerdict,
    PublishedComparison,
)
from ragindex_eval.stats.intervals import Interval

_RULES = "rules"
_NO_POOLS: Mapping[str, int] = {}


def compare_published(
    table: PublishedTable,
    data: str,
    compared: ComparedMethods,
    conditions_here: Mapping[str, str | int | None],
    bounds: Sequence[MethodResult] = (),
    pools: Mapping[str, int] = _NO_POOLS,
) -> PublishedComparison:
    """Set the published figures on a data set beside those of a comparison, whose methods they name by label.

    `conditions_here` is what the comparison ran with (`list_measured_conditions`), not what its settings asked for. No
    figure is comparable unless every stated condition is equal. Methods that the comparison lacks stand in the result
    as not measured. Figures may also be those of the reader's `bounds`. `pools` has the number of nodes that a method
    searches.
    """
    conditions = tuple(
        _compare_condition(name, value, conditions_here[name]) for name, value in table.conditions_on(data).items()
    )
    comparable = all(condition.equal for condition in conditions)
    published = table.figures_on(data)
    methods = {method.label: method for method in (*compared.methods, *bounds)}
    figures = []
    for (label, metric), value in published.items():
        over = table.baseline_of(label)
        here, interval = _measured(methods, label, metric, over, pools)
        base = None if over is None or metric in EFFICIENCY else published.get((over, metric))
        gain = None if over is None or base is None else _compare_gain(compared, label, over, metric, value - base)
        verdict = judge_figure(value, here, interval, comparable=comparable)
        figures.append(ComparedFigure(label, metric, value, here, interval, verdict, gain))
    return PublishedComparison(table.source, data, conditions, table.unchecked, tuple(figures))


def list_measured_conditions(
    facts: DatasetFacts, k: int, *, encoder: str, llm: str, reader: str = "none"
) -> dict[str, str | int | None]:
    """Return what a comparison ran with, by the names of published conditions; `k` is its largest cutoff."""
    sizes = {name: getattr(facts, name) for name in ("questions", "documents", "passages")}
    return {**sizes, "k": k, "encoder": encoder, "llm": llm, "reader": reader}


def judge_figure(published: float, here: float | None, bounds: Interval | None, *, comparable: bool) -> FigureVerdict:
    """Return the verdict on a figure; the ends of its interval belong to it."""
    if here is None:
        return "not measured"
    if not comparable:
        return "not comparable"
    if bounds is None:
        return "no interval"
    return "within the interval" if bounds[0] <= published <= bounds[1] else "differs"


def judge_gain(published: float, bounds: Interval | None) -> GainVerdict:
    """Return whether a published difference has the sign of the difference here, whose interval is `bounds`."""
    if bounds is None or bounds[0] <= 0.0 <= bounds[1]:
        return "unclear"
    return "agrees" if (published > 0.0) == (bounds[0] > 0.0) and published != 0.0 else "contradicts"


def measure_efficiency(
    methods: Mapping[str, MethodResult], pools: Mapping[str, int], label: str, over: str
) -> float | None:
    """Return TPER: the ratio of two methods' seconds a question by that of their pools; None if one is unknown."""
    first, second = (methods[name].seconds_per_question if name in methods else None for name in (label, over))
    if not first or not second or not {label, over} <= pools.keys():
        return None
    return (first / second) / (pools[label] / pools[over])


def _measured(
    methods: Mapping[str, MethodResult], label: str, metric: str, over: str | None, pools: Mapping[str, int]
) -> tuple[float | None, Interval | None]:
    method = methods.get(label)
    if method is None:
        return None, None
    if metric == "TPQ":
        return method.seconds_per_question, None
    if metric == "TPER":
        return None if over is None else measure_efficiency(methods, pools, label, over), None
    return method.metrics.get(metric), method.ci95.get(metric)


def _compare_gain(compared: ComparedMethods, label: str, over: str, metric: str, published: float) -> ComparedGain:
    try:
        pair = compared.pair(label, over, metric)
    except KeyError:
        return ComparedGain(over, published, None, None, "not measured")
    return ComparedGain(over, published, pair.value, pair.ci95, judge_gain(published, pair.ci95))


def _compare_condition(name: str, published: str | int, here: str | int | None) -> ComparedCondition:
    if isinstance(published, int):
        return ComparedCondition(name, f"{published:,}", f"{here:,}", here == published)
    label = str(here)
    equal = published in regex.split(r"[^\w.+-]+", label)
    return ComparedCondition(name, published, published if equal else _shown_model(label), equal)


def _shown_model(label: str) -> str:
    """Return the name of a model without provider and folders: `sentence-transformers:/models/x` is `x`."""
    if label == "offline":
        return _RULES
    return without_folders(label) if "(" in label else str(regex.split(r"[:/\\]", label.rstrip("/\\"))[-1])
