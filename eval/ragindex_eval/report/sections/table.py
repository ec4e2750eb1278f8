"""The table: every method's figures with their intervals."""

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from ragindex_eval.format import percent, short
from ragindex_eval.metrics.answers import ANSWER_METRICS_SHOWN
from ragindex_eval.report.plots import svg
from ragindex_eval.results.model import LATENCY, Comparison, Interval, MethodResult
from ragindex_eval.stats.conclusions import leaders

_MEANING = {
    "R": "recall: the share of a question's gold documents among the first k",
    "full_R": "the share of questions with every gold document among the first k",
    "Success": "the share of questions with any gold document among the first k",
    "RR": "one divided by the rank of the first gold document",
    "nDCG": "how much of the best possible ranking's discounted gain is reached",
    "one_doc_R": "recall over the hits that name exactly one document",
    "EM": "exact match: the share of questions whose answer is an accepted one",
    "F1": "the words that the answer shares with an accepted one",
}


@dataclass(frozen=True, slots=True)
class Column:
    """What a column is called, and what it means in a sentence; "" where the title says it."""

    title: str
    meaning: str


@dataclass(frozen=True, slots=True)
class MetricCell:
    """A figure, its interval ("" where there is none), and whether it is among the best."""

    text: str
    interval: str = ""
    best: bool = False


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One method."""

    label: str
    key: Markup
    cells: tuple[MetricCell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """`quality` says whether any metric is in it, `bold` whether any figure is set in bold.

    `bounds` are what a reader answers from nothing and from the gold documents, where answers were read.
    """

    columns: tuple[Column, ...]
    rows: tuple[MethodRow, ...]
    bounds: tuple[MethodRow, ...]
    quality: bool
    bold: bool


def render_table(comparison: Comparison) -> Table:
    """A row a method, in the order of the comparison."""
    metrics = metrics_shown(comparison)
    best = {name: methods_ahead(comparison, name) for name in (*metrics, LATENCY)}
    costs = [cost for cost in _COSTS if cost.always or any(cost.told(method) != 0 for method in comparison.methods)]
    columns = [*(Column(name.replace("_", " "), meaning(name)) for name in metrics), *(cost.column for cost in costs)]
    rows = []
    for number, method in enumerate(comparison.methods):
        quality = [_quality(method, name, method.label in best[name]) for name in metrics]
        cells = (*quality, *(cost.cell(method, method.label in best[LATENCY]) for cost in costs))
        rows.append(MethodRow(method.label, Markup(svg.key(number)), cells))  # noqa: S704  # drawn by us, holds no text
    bold = any(cell.best for row in rows for cell in row.cells)
    return Table(tuple(columns), tuple(rows), _bounds(comparison, metrics, len(costs)), bool(metrics), bold)


def _bounds(comparison: Comparison, metrics: list[str], costs: int) -> tuple[MethodRow, ...]:
    """Of a bound, only what its answers are worth."""
    blank = (MetricCell(""),) * costs
    return tuple(
        MethodRow(
            bound.label,
            Markup(""),
            (
                *(_quality(bound, name, False) if name in ANSWER_METRICS_SHOWN else MetricCell("") for name in metrics),
                *blank,
            ),
        )
        for bound in comparison.bounds
    )


def metrics_shown(comparison: Comparison) -> list[str]:
    """Recall at every k, full recall and nDCG at one; recall of one-document hits alone where it differs; EM and F1.

    Of these, the ones that were measured of any method.
    """
    ks, every = comparison.ks, [method.metrics for method in comparison.methods]
    of_answers = [name for name in ANSWER_METRICS_SHOWN if any(name in found for found in every)]
    if not comparison.dataset.judged:
        return of_answers
    one = 10 if 10 in ks else ks[len(ks) // 2]
    differing = [k for k in ks if any(found.get(f"one_doc_R@{k}") != found.get(f"R@{k}") for found in every)]
    names = [*(f"R@{k}" for k in ks), f"full_R@{one}", f"nDCG@{one}", *(f"one_doc_R@{k}" for k in differing)]
    return [*(name for name in names if any(name in found for found in every)), *of_answers]


def meaning(metric: str) -> str:
    """A metric in a few words."""
    return _MEANING.get(metric.partition("@")[0], "")


def methods_ahead(comparison: Comparison, metric: str) -> frozenset[str]:
    """The best methods by a metric, unless no method differs significantly from the best."""
    ahead = frozenset(leaders(comparison, metric))
    return ahead if len(ahead) < len(comparison.methods) else frozenset()


def _quality(method: MethodResult, name: str, best: bool) -> MetricCell:
    if name not in method.metrics:
        return MetricCell("–")
    bounds = method.ci95.get(name)
    return MetricCell(percent(method.metrics[name]), _between(bounds, percent), best)


def _milliseconds(value: float | None, bounds: Interval | None, best: bool) -> MetricCell:
    return MetricCell("–") if value is None else MetricCell(short(value), _between(bounds, short), best)


def _between(bounds: Interval | None, form: Callable[[float], str]) -> str:
    return "" if bounds is None else f"{form(bounds[0])} – {form(bounds[1])}"


def _told(
    title: str, meaning: str, value: Callable[[MethodResult], float | None], form: Callable[[float], str]
) -> "_Cost":
    """A column that is there where any method has a figure other than 0, or one that is not known."""

    def cell(method: MethodResult, fastest: bool) -> MetricCell:
        found = value(method)
        return MetricCell("–" if found is None else form(found))

    return _Cost(Column(title, meaning), cell, False, value)


@dataclass(frozen=True, slots=True)
class _Cost:
    """A column of costs: its cell for a method, which may be told to be among the fastest."""

    column: Column
    cell: Callable[[MethodResult, bool], MetricCell]
    always: bool = True
    told: Callable[[MethodResult], float | None] = lambda method: 1.0


_COSTS = (
    _Cost(
        Column("p50 ms", "half of the questions were answered within this time, asked one by one"),
        lambda method, fastest: _milliseconds(method.latency.total.p50, method.ci95.get(f"{LATENCY}_p50"), fastest),
    ),
    _Cost(
        Column("p95 ms", "95 % of the questions were answered within this time, asked one by one"),
        lambda method, fastest: _milliseconds(method.latency.total.p95, method.ci95.get(f"{LATENCY}_p95"), False),
    ),
    _Cost(
        Column("index s", "seconds of building the index, as if this method were built alone"),
        lambda method, fastest: MetricCell(short(method.index_seconds)),
    ),
    _Cost(
        Column("index MB", "megabytes of the index on disk"),
        lambda method, fastest: MetricCell(short(method.index_bytes / 1e6)),
    ),
    _told(
        "index tokens",
        "tokens of building the index, in and out, as if this method were built alone",
        lambda method: method.index_usage.input_tokens + method.index_usage.output_tokens,
        "{:,.0f}".format,
    ),
    _told("index $", "dollars of building the index", lambda method: method.index_usage.money, "{:.4f}".format),
    _told("spent $", "dollars that this run paid, for building and asking", lambda m: m.spent.money, "{:.4f}".format),
    _told(
        "tokens a question",
        "tokens of finding, in and out: the mean",
        lambda method: method.query_usage.input_tokens + method.query_usage.output_tokens,
        "{:,.0f}".format,
    ),
    _told("$ a question", "dollars of finding: the mean", lambda method: method.query_usage.money, "{:.5f}".format),
    _told("calls a question", "calls of language models: the mean", lambda method: method.calls, "{:.1f}".format),
    _told(
        "not answered",
        "questions on which the method failed; each scores 0",
        lambda method: len(method.failures),
        "{:,.0f}".format,
    ),
)

LATENCY_COLUMNS = tuple(cost.column for cost in _COSTS[:2])
"""Those that hold times of questions."""
