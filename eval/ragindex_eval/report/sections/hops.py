"""Report section by kind of question: the spread of recall, and the iterations after which questions stopped."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from markupsafe import Markup

from ragindex_eval.conclusions import differences as tests
from ragindex_eval.conclusions import iterations as by_iteration
from ragindex_eval.conclusions.iterations import IterativeMethod
from ragindex_eval.format import many, percent
from ragindex_eval.report import plots
from ragindex_eval.report.plots import Axis, Dot, DotGroup, Figure, svg
from ragindex_eval.report.sections.figures import Plot
from ragindex_eval.report.sections.kinds import FEWEST, group_name
from ragindex_eval.report.sections.table import Column
from ragindex_eval.results.model import Comparison, MethodResult

_COLUMNS = (
    Column("mean", ""),
    Column("lower quartile", "a quarter of the questions have at most this recall"),
    Column("median", ""),
    Column("upper quartile", "a quarter of the questions have at least this recall"),
)


@dataclass(frozen=True, slots=True)
class RecallCell:
    """Recall of one method on the questions of one kind, in percent; "–" if it was not measured."""

    label: str
    key: Markup
    mean: str
    interval: str
    quartiles: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class KindRow:
    """Recall of all methods on the questions of one kind."""

    name: str
    spreads: tuple[RecallCell, ...]


@dataclass(frozen=True, slots=True)
class Stops:
    """Iterations of one method on the questions of one kind; `counts` are the questions that stopped after 1, 2, …"""

    label: str
    key: Markup
    kind: str
    questions: int
    median: str
    mean: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hops:
    """Tables and plot by kind of question; kinds with fewer than `few` questions have no intervals."""

    metric: str
    columns: tuple[Column, ...]
    kinds: tuple[KindRow, ...]
    plot: Plot
    stop_columns: tuple[Column, ...]
    stops: tuple[Stops, ...]
    few: int


def render_hops(comparison: Comparison) -> Hops | None:
    """Make the tables and the plot.

    Returns None if the data have no kinds of questions. Also returns None if they have only numbers of hops and no
    method is iterative, because the plots of the figures section show these.
    """
    metric, groups = _largest_recall(comparison), _groups(comparison)
    iterative_methods = by_iteration.iterative_methods(comparison)
    if metric is None or not groups or not (iterative_methods or _finest_breakdown(comparison) == "kind"):
        return None
    kinds = tuple(
        KindRow(_group_name(comparison, *group), _recall_cells(comparison, *group, metric)) for group in groups
    )
    stops = tuple(
        stop
        for iterative in iterative_methods
        for stop in _count_stops(comparison, iterative, _most_iterations(iterative_methods))
    )
    return Hops(metric, _COLUMNS, kinds, _plot(comparison, metric, groups), _stop_columns(stops), stops, FEWEST)


def _stop_columns(stops: Sequence[Stops]) -> tuple[Column, ...]:
    counted = range(1, len(stops[0].counts) + 1) if stops else ()
    return tuple(Column(title, "") for title in ("questions", "median", "mean", *(f"after {n}" for n in counted)))


def _largest_recall(comparison: Comparison) -> str | None:
    """Return recall at the largest k at which it was measured; None if it was not."""
    measured = [f"R@{k}" for k in comparison.ks if any(f"R@{k}" in method.metrics for method in comparison.methods)]
    return measured[-1] if measured else None


def _finest_breakdown(comparison: Comparison) -> str:
    """Return the finest breakdown that there is, "kind" or "hops"."""
    return "kind" if any(group.by == "kind" for method in comparison.methods for group in method.breakdown) else "hops"


def _groups(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Return the values of the breakdowns, in their order, with the ids of their questions."""
    by, gold = _finest_breakdown(comparison), comparison.gold or {}
    every = [group.value for method in comparison.methods for group in method.breakdown if group.by == by]
    judged = comparison.methods[0].per_query if comparison.methods else {}
    values = {id: _find_group(by, gold[id].kind) for id in judged if id in gold}
    return [
        (value, [id for id, of_question in values.items() if of_question == value]) for value in dict.fromkeys(every)
    ]


def _find_group(by: str, kind: str) -> str:
    """Return the group of a kind of question."""
    if by == "kind":
        return kind or "other"
    return "other" if (hops := tests.hops(kind)) is None else str(hops)


def _group_name(comparison: Comparison, value: str, ids: Sequence[str]) -> str:
    return f"{group_name(_finest_breakdown(comparison), value)} · {many(len(ids), 'question')}"


# ---------------------------------------------------------------- recall


def _recall_cells(comparison: Comparison, value: str, ids: Sequence[str], metric: str) -> tuple[RecallCell, ...]:
    return tuple(
        _recall_cell(number, method, value, _finest_breakdown(comparison), _values(method, ids, metric), metric)
        for number, method in enumerate(comparison.methods)
    )


def _values(method: MethodResult, ids: Sequence[str], metric: str) -> list[float]:
    return [method.per_query[id][metric] for id in ids if metric in method.per_query.get(id, {})]


def _recall_cell(
    number: int, method: MethodResult, value: str, by: str, values: Sequence[float], metric: str
) -> RecallCell:
    key = Markup(svg.key(number))  # noqa: S704  # drawn by us, holds no text
    if not values:
        return RecallCell(method.label, key, "–", "", ("–", "–", "–"))
    part = next((group for group in method.breakdown if (group.by, group.value) == (by, value)), None)
    bounds = part.ci95.get(metric) if part and len(values) >= FEWEST else None
    interval = "" if bounds is None else " – ".join(map(percent, bounds))
    low, middle, high = map(percent, np.quantile(values, (0.25, 0.5, 0.75)).tolist())
    return RecallCell(method.label, key, percent(fmean(values)), interval, (low, middle, high))


def _plot(comparison: Comparison, metric: str, groups: Sequence[tuple[str, list[str]]]) -> Plot:
    title = f"{metric} by kind of question"
    drawn = [
        DotGroup(
            _group_name(comparison, value, ids),
            tuple(
                Dot(method.label, number, _quartile_figure(_values(method, ids, metric)))
                for number, method in enumerate(comparison.methods)
            ),
        )
        for value, ids in groups
    ]
    caption = (
        "Marks are means; the lines go from the lower to the upper quartile of the questions. They are no intervals: "
        "they say how unlike the questions are, not how sure the mean is. A mean may lie outside."
    )
    drawing = plots.draw_dots(title, drawn, Axis(f"{metric}, percent", low=0.0, high=100.0))
    return Plot(title, caption, Markup(drawing))  # noqa: S704  # ragindex_eval.report.plots.svg escapes every text that it draws


def _quartile_figure(values: Sequence[float]) -> Figure:
    """Return the mean with the quartiles as its bounds, in percent."""
    if not values:
        return Figure(None)
    low, high = (100 * np.quantile(values, (0.25, 0.75))).tolist()
    return Figure(100 * fmean(values), (low, high))


# ---------------------------------------------------------------- iterations


def _most_iterations(iterative_methods: Sequence[IterativeMethod]) -> int:
    return max((iterative.iterations for iterative in iterative_methods), default=0)


def _count_stops(comparison: Comparison, iterative: IterativeMethod, longest: int) -> Iterator[Stops]:
    """Yield the stops of one method, by hops if the data have them, else by kind."""
    gold = comparison.gold or {}
    kinds = {id: gold[id].kind for id in iterative.rankings if id in gold}
    by = "hops" if any(tests.hops(kind) is not None for kind in kinds.values()) else "kind"
    grouped: dict[str, list[int]] = {}
    for id, kind in kinds.items():
        grouped.setdefault(_find_group(by, kind), []).append(len(iterative.rankings[id]))
    for value, stopped in sorted(grouped.items()):
        yield Stops(
            iterative.method.label,
            Markup(svg.key(iterative.number)),  # noqa: S704  # drawn by us, holds no text
            group_name(by, value),
            len(stopped),
            f"{median(stopped):g}",
            f"{fmean(stopped):.2f}",
            tuple(stopped.count(n) for n in range(1, longest + 1)),
        )
