"""Report section with the plots of a comparison and their captions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ragindex_eval.format import many
from ragindex_eval.report import plots
from ragindex_eval.report.plots import Axis, Curve, Dot, DotGroup, Figure, Point
from ragindex_eval.report.sections.kinds import FEWEST, GROUPINGS, group_name
from ragindex_eval.results.model import LATENCY, Breakdown, Comparison, MethodResult
from ragindex_eval.stats.intervals import Interval

_MONEY = Axis("dollars a question (logarithmic)", log=True)
_LATENCY = Axis("p50 latency, milliseconds a question (logarithmic)", log=True)


@dataclass(frozen=True, slots=True)
class Plot:
    """Drawing with its caption."""

    title: str
    caption: str
    drawing: Markup


def render_figures(comparison: Comparison) -> tuple[Plot, ...] | None:
    """Draw the plots of what was measured: quality, quality against latency and money, recall over k, and by kind."""
    if not comparison.dataset.judged:
        return _plot_latency(comparison)
    metric = f"R@{comparison.ks[0]}"
    figures = [_plot_metric(comparison, metric), _plot_against_latency(comparison, metric)]
    if any(method.query_usage.money for method in comparison.methods):
        figures.append(_plot_against_money(comparison, metric))
    measured = {name for method in comparison.methods for name in method.metrics}
    figures += [_plot_metric(comparison, name) for name in ("F1", "accuracy", "STR-EM") if name in measured][:1]
    if len(comparison.ks) > 1:
        figures.append(_plot_over_k(comparison))
    for by, words in GROUPINGS.items():
        groups = _groups(comparison, by, metric)
        if groups:
            figures.append(_plot_groups(metric, words, groups))
    return tuple(figures)


def _make_plot(title: str, caption: str, drawing: str) -> Plot:
    return Plot(title, caption, Markup(drawing))  # noqa: S704  # ragindex_eval.report.plots.svg escapes every text that it draws


def _plot_metric(comparison: Comparison, metric: str) -> Plot:
    title = f"{metric} of each method"
    dots = _make_dots(((number, method, method) for number, method in enumerate(comparison.methods)), metric)
    dots = tuple(sorted(dots, key=lambda dot: -(dot.figure.value if dot.figure.value is not None else -1.0)))
    caption = (
        "Mean over the questions with its 95 % interval. Intervals that overlap may still differ: the tests below pair "
        "the questions, the intervals do not."
    )
    return _make_plot(title, caption, plots.draw_dots(title, [DotGroup("", dots)], _percent_axis(metric)))


def _plot_against_latency(comparison: Comparison, metric: str) -> Plot:
    title = f"{metric} against latency"
    points = [
        Point(
            method.label,
            number,
            _p50_figure(method),
            _percent_figure(method.metrics.get(metric), method.ci95.get(metric)),
        )
        for number, method in enumerate(comparison.methods)
    ]
    caption = "The better a method finds, the higher it stands; the faster it answers, the further left."
    return _make_plot(title, caption, plots.draw_scatter(title, points, _LATENCY, _percent_axis(metric)))


def _plot_against_money(comparison: Comparison, metric: str) -> Plot:
    """Plot quality against money; methods of unknown cost are left out, and methods without cost stand apart."""
    title = f"{metric} against money"
    points = [
        Point(
            method.label,
            number,
            Figure(method.query_usage.money, method.ci95.get("money")),
            _percent_figure(method.metrics.get(metric), method.ci95.get(metric)),
        )
        for number, method in enumerate(comparison.methods)
    ]
    caption = "What finding costs a question, when its calls are first made; indexing is in the table."
    return _make_plot(title, caption, plots.draw_scatter(title, points, _MONEY, _percent_axis(metric)))


def _plot_over_k(comparison: Comparison) -> Plot:
    title = "Recall over k"
    series = [
        Curve(
            method.label,
            number,
            {k: _percent_figure(method.metrics.get(f"R@{k}"), method.ci95.get(f"R@{k}")) for k in comparison.ks},
        )
        for number, method in enumerate(comparison.methods)
    ]
    caption = "What a reader sees who is given the first k hits, with 95 % intervals."
    drawing = plots.draw_curves(title, series, Axis("k, documents"), _percent_axis("R@k"))
    return _make_plot(title, caption, drawing)


def _plot_groups(metric: str, words: str, groups: Sequence[DotGroup]) -> Plot:
    title = f"{metric} by {words}"
    caption = "Small groups have wide intervals; no test is made within a group."
    return _make_plot(title, caption, plots.draw_dots(title, groups, _percent_axis(metric)))


def _groups(comparison: Comparison, by: str, metric: str) -> list[DotGroup]:
    """Return a group of dots for every value of the breakdown, in its order."""
    methods = comparison.methods
    values = list(dict.fromkeys(group.value for method in methods for group in method.breakdown if group.by == by))
    return [_group(methods, by, value, metric) for value in values]


def _group(methods: Sequence[MethodResult], by: str, value: str, metric: str) -> DotGroup:
    parts = [(number, method, _find_breakdown(method, by, value)) for number, method in enumerate(methods)]
    known = [(number, method, part) for number, method, part in parts if part is not None]
    questions = max(part.questions for _, _, part in known)
    few = questions < FEWEST
    dots = _make_dots(known, metric, intervals=not few)
    return DotGroup(
        f"{group_name(by, value)} · {many(questions, 'question')}{', too few for an interval' if few else ''}", dots
    )


def _find_breakdown(method: MethodResult, by: str, value: str) -> Breakdown | None:
    return next((group for group in method.breakdown if group.by == by and group.value == value), None)


def _make_dots(
    figures: Iterable[tuple[int, MethodResult, MethodResult | Breakdown]], metric: str, *, intervals: bool = True
) -> tuple[Dot, ...]:
    """Make a dot for each (number, method, source), with the figure of the source."""
    return tuple(
        Dot(
            method.label,
            number,
            _percent_figure(source.metrics.get(metric), source.ci95.get(metric) if intervals else None),
        )
        for number, method, source in figures
    )


def _percent_axis(metric: str) -> Axis:
    return Axis(f"{metric}, percent", low=0.0, high=100.0)


def _percent_figure(value: float | None, bounds: Interval | None) -> Figure:
    """Convert a share and its interval to percent."""
    hundredfold = None if bounds is None else (100 * bounds[0], 100 * bounds[1])
    return Figure(None if value is None else 100 * value, hundredfold)


def _p50_figure(method: MethodResult) -> Figure:
    return Figure(method.latency.total.p50, method.ci95.get(f"{LATENCY}_p50"))


def _plot_latency(comparison: Comparison) -> tuple[Plot, ...]:
    """Plot only latency."""
    title = "Latency of each method"
    dots = tuple(Dot(method.label, number, _p50_figure(method)) for number, method in enumerate(comparison.methods))
    drawing = plots.draw_dots(title, [DotGroup("", dots)], _LATENCY)
    return (_make_plot(title, "Median over the timed questions with its 95 % interval.", drawing),)
