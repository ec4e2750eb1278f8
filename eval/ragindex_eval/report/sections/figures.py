"""The plots of a comparison, with what each shows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ragindex_eval.format import many
from ragindex_eval.report import plots
from ragindex_eval.report.plots import Axis, Curve, Dot, DotGroup, Figure, Point
from ragindex_eval.results.model import LATENCY, Breakdown, Comparison, Interval, MethodResult

_FEW = 10  # questions of a group: drawn again with replacement, fewer hardly vary, and look surer than they are
_MONEY = Axis("dollars a question (logarithmic)", log=True)
_LATENCY = Axis("p50 latency, milliseconds a question (logarithmic)", log=True)


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with its caption."""

    title: str
    caption: str
    drawing: Markup


def render_figures(comparison: Comparison) -> tuple[Plot, ...] | None:
    """Quality; quality against latency and, where any was paid, money; recall over k; by kind: as far as measured."""
    if not comparison.dataset.judged:
        return _without_gold(comparison)
    metric = f"R@{comparison.ks[0]}"
    found = [_ranked(comparison, metric), _against_latency(comparison, metric)]
    if any(method.query_usage.money for method in comparison.methods):
        found.append(_against_money(comparison, metric))
    if any("F1" in method.metrics for method in comparison.methods):
        found.append(_ranked(comparison, "F1"))
    if len(comparison.ks) > 1:
        found.append(_over_k(comparison))
    for by, words in (("hops", "number of hops"), ("kind", "kind of question")):
        groups = _groups(comparison, by, metric)
        if groups:
            found.append(_by_group(metric, words, groups))
    return tuple(found)


def _plot(title: str, caption: str, drawing: str) -> Plot:
    return Plot(title, caption, Markup(drawing))  # noqa: S704  # ragindex_eval.report.plots.svg escapes every text that it draws


def _ranked(comparison: Comparison, metric: str) -> Plot:
    title = f"{metric} of each method"
    dots = _dots(((number, one, one) for number, one in enumerate(comparison.methods)), metric)
    dots = tuple(sorted(dots, key=lambda dot: -(dot.figure.value if dot.figure.value is not None else -1.0)))
    caption = (
        "Mean over the questions with its 95 % interval. Intervals that overlap may still differ: the tests below pair "
        "the questions, the intervals do not."
    )
    return _plot(title, caption, plots.draw_dots(title, [DotGroup("", dots)], _percent(metric)))


def _against_latency(comparison: Comparison, metric: str) -> Plot:
    title = f"{metric} against latency"
    points = [
        Point(method.label, number, _p50(method), _shares(method.metrics.get(metric), method.ci95.get(metric)))
        for number, method in enumerate(comparison.methods)
    ]
    caption = "The better a method finds, the higher it stands; the faster it answers, the further left."
    return _plot(title, caption, plots.draw_scatter(title, points, _LATENCY, _percent(metric)))


def _against_money(comparison: Comparison, metric: str) -> Plot:
    """A method whose money is not known is left out; one that costs nothing stands apart."""
    title = f"{metric} against money"
    points = [
        Point(
            method.label,
            number,
            Figure(method.query_usage.money, method.ci95.get("money")),
            _shares(method.metrics.get(metric), method.ci95.get(metric)),
        )
        for number, method in enumerate(comparison.methods)
    ]
    caption = "What finding costs a question, when its calls are first made; indexing is in the table."
    return _plot(title, caption, plots.draw_scatter(title, points, _MONEY, _percent(metric)))


def _over_k(comparison: Comparison) -> Plot:
    title = "Recall over k"
    series = [
        Curve(
            method.label,
            number,
            {k: _shares(method.metrics.get(f"R@{k}"), method.ci95.get(f"R@{k}")) for k in comparison.ks},
        )
        for number, method in enumerate(comparison.methods)
    ]
    caption = "What a reader sees who is given the first k documents, with 95 % intervals."
    drawing = plots.draw_curves(title, series, Axis("k, documents"), _percent("R@k"))
    return _plot(title, caption, drawing)


def _by_group(metric: str, words: str, groups: Sequence[DotGroup]) -> Plot:
    title = f"{metric} by {words}"
    caption = "Small groups have wide intervals; no test is made within a group."
    return _plot(title, caption, plots.draw_dots(title, groups, _percent(metric)))


def _groups(comparison: Comparison, by: str, metric: str) -> list[DotGroup]:
    """A group for every value, in the order in which the breakdown gives them."""
    methods = comparison.methods
    values = list(dict.fromkeys(one.value for method in methods for one in method.breakdown if one.by == by))
    return [_group(methods, by, value, metric) for value in values]


def _group(methods: Sequence[MethodResult], by: str, value: str, metric: str) -> DotGroup:
    parts = [(number, method, _part(method, by, value)) for number, method in enumerate(methods)]
    known = [(number, method, part) for number, method, part in parts if part is not None]
    questions = max(part.questions for _, _, part in known)
    few = questions < _FEW
    dots = _dots(known, metric, intervals=not few)
    name = f"{value} hop{'' if value == '1' else 's'}" if by == "hops" and value.isdigit() else value
    return DotGroup(f"{name} · {many(questions, 'question')}{', too few for an interval' if few else ''}", dots)


def _part(method: MethodResult, by: str, value: str) -> Breakdown | None:
    return next((one for one in method.breakdown if one.by == by and one.value == value), None)


def _dots(
    figures: Iterable[tuple[int, MethodResult, MethodResult | Breakdown]], metric: str, *, intervals: bool = True
) -> tuple[Dot, ...]:
    """A dot for every method, its figure taken from the third value."""
    return tuple(
        Dot(method.label, number, _shares(source.metrics.get(metric), source.ci95.get(metric) if intervals else None))
        for number, method, source in figures
    )


def _percent(metric: str) -> Axis:
    return Axis(f"{metric}, percent", low=0.0, high=100.0)


def _shares(value: float | None, bounds: Interval | None) -> Figure:
    """In percent."""
    hundredfold = None if bounds is None else (100 * bounds[0], 100 * bounds[1])
    return Figure(None if value is None else 100 * value, hundredfold)


def _p50(method: MethodResult) -> Figure:
    return Figure(method.latency.total.p50, method.ci95.get(f"{LATENCY}_p50"))


def _without_gold(comparison: Comparison) -> tuple[Plot, ...]:
    """Latency alone."""
    title = "Latency of each method"
    dots = tuple(Dot(method.label, number, _p50(method)) for number, method in enumerate(comparison.methods))
    drawing = plots.draw_dots(title, [DotGroup("", dots)], _LATENCY)
    return (_plot(title, "Median over the timed questions with its 95 % interval.", drawing),)
