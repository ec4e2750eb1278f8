"""Report section on iterative methods: recall and costs after each iteration, compared with other methods."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from markupsafe import Markup

from ragindex.retrieval.trace import KEPT_IDS
from ragindex_eval.conclusions import iterations as by_iteration
from ragindex_eval.conclusions.iterations import ASKED, MS, TOKENS_READ, TOKENS_WRITTEN, IterativeMethod
from ragindex_eval.format import many, percent, short, shown
from ragindex_eval.report import plots
from ragindex_eval.report.plots import Axis, Curve, Figure, svg
from ragindex_eval.report.sections.figures import Plot
from ragindex_eval.report.tables import Column, MetricCell, meaning
from ragindex_eval.results.model import Comparison, MethodResult
from ragindex_eval.stats.intervals import Interval, SampleArray, cost_interval, mean_interval

_MOST_CURVES = 7  # the most that one plot holds
_WIDE_TICK = 10_000  # from this value on, tick labels are too wide
_AXIS = Axis("iteration")
_TOKEN_NAMES = ("input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class IterationRow:
    """Row of a method after one iteration, or of a method without iterations.

    The first row of a method shows its name over `span` rows; `span` is 0 in the others.
    """

    label: str
    key: Markup
    span: int
    iteration: str
    cells: tuple[MetricCell, ...]


@dataclass(frozen=True, slots=True)
class Iterations:
    """Table and plots by iteration; `notes` say what the figures leave out."""

    columns: tuple[Column, ...]
    lines: tuple[IterationRow, ...]
    notes: tuple[str, ...]
    plots: tuple[Plot, ...]


@dataclass(frozen=True, slots=True)
class _Measurements:
    """Figures of one method by iteration.

    `recall` is by k, `spent` are means of the costs of `by_iteration.spent` except milliseconds, and `ms` are median
    milliseconds. `total` are the input and output tokens of all questions.
    """

    iterative: IterativeMethod
    recall: Mapping[int, tuple[Figure, ...]]
    spent: tuple[tuple[Figure, ...], ...]
    ms: tuple[float, ...]
    total: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _ColumnKind:
    """Column with functions for its cells: after iteration n of a method, and for a method without iterations."""

    column: Column
    after: Callable[[_Measurements, int], MetricCell]
    without: Callable[[MethodResult], MetricCell]


def render_iterations(comparison: Comparison) -> Iterations | None:
    """Make the table and plots; None if no method is iterative."""
    ks = [k for k in comparison.ks if k <= KEPT_IDS] if comparison.dataset.judged else []
    measured = [_measure(iterative, comparison, ks) for iterative in by_iteration.iterative_methods(comparison)]
    if not measured:
        return None
    others = _choose_others(comparison, [measurement.iterative for measurement in measured], ks)
    columns = [*map(_recall_column, ks), *(_TOKEN_COLUMNS if _any_tokens(measured) else ()), _TIME_COLUMN]
    lines = [line for measurement in measured for line in _method_rows(measurement, columns)]
    for number, method in others:
        lines.append(_make_row(number, method, 1, "–", [MetricCell("–"), *(each.without(method) for each in columns)]))
    head = (Column("questions", "those that took this iteration"), *(each.column for each in columns))
    drawn = (_recall_plot(measured, others, ks), _token_plot(measured, others))
    notes = (*_describe_ks(comparison, ks), *(note for measurement in measured for note in _notes(measurement)))
    return Iterations(head, tuple(lines), notes, tuple(measurement for measurement in drawn if measurement is not None))


def _measure(iterative: IterativeMethod, comparison: Comparison, ks: Sequence[int]) -> _Measurements:
    recall = _mean_figures(by_iteration.recalls(iterative, comparison, ks), mean_interval)
    paid = by_iteration.spent(iterative)
    by_k = {k: tuple(row[at] for row in recall) for at, k in enumerate(ks)} if recall else {}
    costs = _mean_figures(paid[:, :, :MS], partial(cost_interval, seed=comparison.seed))
    read, written = paid[:, -1, TOKENS_READ].sum(), paid[:, -1, TOKENS_WRITTEN].sum()
    ms = np.median(paid[:, :, MS], axis=0).tolist()
    return _Measurements(iterative, by_k, tuple(costs), tuple(ms), (float(read), float(written)))


def _mean_figures(values: SampleArray, interval: Callable[[SampleArray], Interval]) -> list[tuple[Figure, ...]]:
    """Return means over questions with their intervals, one row per iteration.

    `values` has the shape (questions, iterations, columns). Returns [] if there are no questions or columns, and no
    intervals if there is only one question.
    """
    questions, iterations, columns = values.shape
    if not questions or not columns:
        return []
    flat = values.reshape(questions, -1)
    several = questions > 1
    figures = [Figure(float(column.mean()), interval(column) if several else None) for column in flat.T]
    return [tuple(figures[n * columns : (n + 1) * columns]) for n in range(iterations)]


def _choose_others(
    comparison: Comparison, methods: Sequence[IterativeMethod], ks: Sequence[int]
) -> list[tuple[int, MethodResult]]:
    """Choose methods without iterations to compare with, as many as a plot holds.

    Methods of the same family come first, then the best ones.
    """
    families = {numbered.method.name.partition(".")[0] for numbered in methods}
    by_number = {numbered.number for numbered in methods}
    left = [(number, method) for number, method in enumerate(comparison.methods) if number not in by_number]
    metric = f"R@{ks[-1]}" if ks else ""

    def order(numbered: tuple[int, MethodResult]) -> tuple[bool, float, int]:
        return numbered[1].name.partition(".")[0] not in families, -numbered[1].metrics.get(metric, 0.0), numbered[0]

    return sorted(left, key=order)[: max(1, _MOST_CURVES - len(methods))]


# ---------------------------------------------------------------- the table


def _method_rows(measurements: _Measurements, columns: Sequence[_ColumnKind]) -> Iterator[IterationRow]:
    iterative, last = measurements.iterative, measurements.iterative.iterations
    for n in range(1, last + 1):
        cells = [MetricCell(f"{iterative.took(n):,}"), *(each.after(measurements, n) for each in columns)]
        yield _make_row(iterative.number, iterative.method, last if n == 1 else 0, str(n), cells)


def _make_row(
    number: int, method: MethodResult, span: int, iteration: str, cells: Sequence[MetricCell]
) -> IterationRow:
    return IterationRow(method.label, Markup(svg.key(number)), span, iteration, tuple(cells))  # noqa: S704  # drawn by us


def _recall_column(k: int) -> _ColumnKind:
    name = f"R@{k}"

    def after(measurement: _Measurements, n: int) -> MetricCell:
        if k not in measurement.recall:
            return MetricCell("–")
        return _cell(measurement.recall[k][n - 1], percent)

    def without(method: MethodResult) -> MetricCell:
        return _cell(Figure(method.metrics.get(name), method.ci95.get(name)), percent)

    return _ColumnKind(Column(name, f"{meaning(name)}, had it stopped after this iteration"), after, without)


def _cost_column(title: str, about: str, at: int, without: Callable[[MethodResult], MetricCell]) -> _ColumnKind:
    return _ColumnKind(
        Column(title, about), lambda measurement, n: _cell(measurement.spent[n - 1][at], _format_count), without
    )


def _cell(figure: Figure, form: Callable[[float], str]) -> MetricCell:
    if figure.value is None:
        return MetricCell("–")
    return MetricCell(form(figure.value), "" if figure.ci95 is None else " – ".join(map(form, figure.ci95)))


def _format_count(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _tokens(method: MethodResult, name: str) -> Figure:
    """Return the mean tokens per question of a method without iterations."""
    return Figure(getattr(method.query_usage, name), method.ci95.get(name))


_TOKEN_COLUMNS = (
    _cost_column(
        "tokens in",
        "tokens read by language models and paid encoders up to this iteration, a question: the mean",
        TOKENS_READ,
        lambda method: _cell(_tokens(method, "input_tokens"), _format_count),
    ),
    _cost_column(
        "tokens out",
        "tokens written by language models up to this iteration, a question: the mean",
        TOKENS_WRITTEN,
        lambda method: _cell(_tokens(method, "output_tokens"), _format_count),
    ),
    _cost_column(
        "asked",
        "steps up to this iteration in which a language model wrote, a question: the mean",
        ASKED,
        lambda method: MetricCell("–"),
    ),
)
_TIME_COLUMN = _ColumnKind(
    Column("steps ms", "milliseconds of the steps up to this iteration: the median"),
    lambda measurements, n: MetricCell(short(measurements.ms[n - 1])),
    lambda method: MetricCell("–"),
)


def _any_tokens(measurements: Sequence[_Measurements]) -> bool:
    return any(any(measurement.total) for measurement in measurements)


# ---------------------------------------------------------------- notes


def _describe_ks(comparison: Comparison, ks: Sequence[int]) -> list[str]:
    if not comparison.dataset.judged:
        return ["No question has gold documents: what each iteration found was not measured."]
    beyond = ", ".join(f"R@{k}" for k in comparison.ks if k not in ks)
    limit = f"the first {KEPT_IDS} passages of each iteration are kept"
    return [f"{beyond} {'is' if len(comparison.ks) - len(ks) == 1 else 'are'} not shown: {limit}."] if beyond else []


def _notes(measurements: _Measurements) -> Iterator[str]:
    label = shown(measurements.iterative.method.label, 120)
    if measurements.iterative.left_out:
        missing = f"{many(measurements.iterative.left_out, 'question')}, whose traces do not hold every iteration"
        yield f"{label}: without {missing}."
    usages = [answer.usage for answer in measurements.iterative.answers.values()]
    paid = (sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages))
    if measurements.total != paid:
        yield f"{label}: the steps account for {sum(measurements.total):,.0f} of {sum(paid):,} tokens."


# ---------------------------------------------------------------- the plots


def _recall_plot(
    measurements: Sequence[_Measurements], others: Sequence[tuple[int, MethodResult]], ks: Sequence[int]
) -> Plot | None:
    """Plot recall at the largest k of all methods; None without such a k or with one iteration."""
    measured_ks = [k for k in ks if all(k in measurement.recall for measurement in measurements)]
    if not measured_ks or _most_iterations(measurements) < 2:
        return None
    metric, title = f"R@{measured_ks[-1]}", f"R@{measured_ks[-1]} by iteration"
    series = [
        _make_curve(
            measurement.iterative.method.label, measurement.iterative.number, measurement.recall[measured_ks[-1]], 100
        )
        for measurement in measurements
    ]
    levels = (
        (number, method, Figure(method.metrics.get(metric), method.ci95.get(metric))) for number, method in others
    )
    series += [
        _make_level_line(method.label, number, figure, _most_iterations(measurements), 100)
        for number, method, figure in levels
    ]
    caption = (
        "What each method would have found had it stopped there, with 95 % intervals; a question that had stopped "
        "keeps its value. Level lines are methods without a ranking of each iteration, the best few of them."
    )
    return _make_plot(title, caption, series, Axis(f"{metric}, percent", low=0.0, high=100.0))


def _token_plot(measurements: Sequence[_Measurements], others: Sequence[tuple[int, MethodResult]]) -> Plot | None:
    """Plot cumulative tokens; None if no tokens were used or there is only one iteration."""
    if not _any_tokens(measurements) or _most_iterations(measurements) < 2:
        return None
    rows = [figure for measurement in measurements for row in measurement.spent for figure in row[:ASKED]]
    rows += [_tokens(method, name) for _, method in others for name in _TOKEN_NAMES]
    many_tokens = max(value for figure in rows for value in figure.values) >= _WIDE_TICK
    times, unit = (0.001, "thousand tokens") if many_tokens else (1, "tokens")
    series = [
        curve
        for at, direction in ((TOKENS_READ, "in"), (TOKENS_WRITTEN, "out"))
        for curve in _token_curves(measurements, others, at, direction, times)
    ]
    caption = (
        "Read (in) and written (out) up to each iteration, the mean a question with 95 % intervals. Level lines are "
        "methods without a ranking of each iteration."
    )
    return _make_plot("Tokens by iteration", caption, series, Axis(f"{unit} a question, cumulative", low=0.0))


def _token_curves(
    measurements: Sequence[_Measurements],
    others: Sequence[tuple[int, MethodResult]],
    at: int,
    direction: str,
    times: float,
) -> Iterator[Curve]:
    """Yield the curves of input or output tokens; those of output tokens have hollow marks."""
    hollow = at * svg.COLOURS
    for measurement in measurements:
        label = f"{measurement.iterative.method.label}, {direction}"
        yield _make_curve(label, measurement.iterative.number + hollow, [row[at] for row in measurement.spent], times)
    for number, method in others:
        figure = _tokens(method, _TOKEN_NAMES[at])
        if figure.value:
            yield _make_level_line(
                f"{method.label}, {direction}", number + hollow, figure, _most_iterations(measurements), times
            )


def _most_iterations(measurements: Sequence[_Measurements]) -> int:
    return max(measurement.iterative.iterations for measurement in measurements)


def _make_curve(label: str, style: int, row: Sequence[Figure], times: float) -> Curve:
    return Curve(label, style, {n: _scale(figure, times) for n, figure in enumerate(row, start=1)})


def _make_level_line(label: str, style: int, figure: Figure, last: int, times: float) -> Curve:
    """Make a horizontal line with its interval at the end."""
    return Curve(label, style, {1: _scale(Figure(figure.value), times), last: _scale(figure, times)})


def _scale(figure: Figure, times: float) -> Figure:
    bounds = None if figure.ci95 is None else (times * figure.ci95[0], times * figure.ci95[1])
    return Figure(None if figure.value is None else times * figure.value, bounds)


def _make_plot(title: str, caption: str, series: Sequence[Curve], y: Axis) -> Plot:
    drawing = plots.draw_curves(title, series, _AXIS, y)
    return Plot(title, caption, Markup(drawing))  # noqa: S704  # ragindex_eval.report.plots.svg escapes every text that it draws
