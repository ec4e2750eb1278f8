"""The table of all methods, their figures and intervals, as the terminal and the page of the report lay it out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from markupsafe import Markup

from ragindex_eval.conclusions.leaders import leaders, middle_k
from ragindex_eval.format import percent, short
from ragindex_eval.metrics.answers import ANSWER_METRICS, select_shown
from ragindex_eval.metrics.evidence import TARGETS, write_interval, write_tokens
from ragindex_eval.report.plots import svg
from ragindex_eval.results.model import LATENCY, Comparison, Latency, MethodResult
from ragindex_eval.stats.intervals import Interval

_MEANINGS = {
    "R": "recall: the share of a question's gold documents in the first k hits",
    "full_R": "the share of questions with every gold document in the first k hits",
    "Success": "the share of questions with any gold document in the first k hits",
    "RR": "one divided by the rank of the first gold document",
    "nDCG": "how much of the best possible ranking's discounted gain is reached",
    "evidence_R": "the share of a question's evidence that the first k hits hold",
    "one_doc_R": "recall over the hits that name exactly one document",
    "EM": "exact match: the share of questions whose answer is an accepted one",
    "F1": "the words that the answer shares with an accepted one",
    "accuracy": "the share of multiple-choice questions whose answer names the right option",
    "STR-EM": "the share of sub-questions of which an accepted answer stands in the answer",
    "ROUGE-Lsum": "the longest common subsequences of words with the sentences of a reference answer",
    "Disambig-F1": "the F1 of what a question answering model finds in the answer for each sub-question",
    "DR": "the geometric mean of Disambig-F1 and ROUGE-Lsum",
}


ColumnGroup: TypeAlias = Literal["quality", "size", "cost"]
BOLD = "cannot be excluded as the best of its column (by p50: no other is significantly faster and twice as fast)"
"""What a bold figure means (`ragindex_eval.conclusions.leaders`)."""


@dataclass(frozen=True, slots=True)
class Column:
    """Title of a column and a sentence that explains it, "" if the title says enough.

    In a narrow terminal, a `group` of columns gives way as a whole. The terminal has no columns without a group.
    """

    title: str
    meaning: str
    group: ColumnGroup | None = None

    @property
    def lines(self) -> str:
        """The title in two lines, for the terminal."""
        first, separator, k = self.title.partition("@")
        if separator:
            return f"{first}\n@{k}"
        return self.title.replace(" a question", "/ question").replace(" ", "\n", 1)


@dataclass(frozen=True, slots=True)
class MetricCell:
    """Figure, its interval ("" if there is none), and whether it is among the best.

    `repeated` says that it is equal to that of another column, which the terminal shows alone.
    """

    text: str
    interval: str = ""
    best: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class MethodRow:
    """Row of one method."""

    label: str
    key: Markup
    cells: tuple[MetricCell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Table of a comparison; `quality` says whether it has metrics, and `bold` whether any figure is bold.

    `bounds` are the rows of the reader's bounds, if answers were read, and `total` is the row of what was spent in all.
    """

    columns: tuple[Column, ...]
    rows: tuple[MethodRow, ...]
    bounds: tuple[MethodRow, ...]
    quality: bool
    bold: bool
    total: MethodRow | None = None


def make_table(comparison: Comparison) -> Table:
    """Make the table, with a row per method in the order of the comparison."""
    metrics = metrics_shown(comparison)
    best = {name: methods_ahead(comparison, name) for name in (*metrics, LATENCY)}
    shown = (*comparison.methods, *comparison.bounds)
    costs = [cost for cost in _COST_COLUMNS if cost.always or any(cost.says_something(method) for method in shown)]
    columns = [*map(_metric_column, metrics), *(cost.column for cost in costs)]
    rows = []
    for number, method in enumerate(comparison.methods):
        quality = [_quality_cell(method, name, method.label in best[name]) for name in metrics]
        cells = (*quality, *(cost.cell(method, method.label in best[LATENCY]) for cost in costs))
        rows.append(MethodRow(method.label, Markup(svg.key(number)), cells))  # noqa: S704  # drawn by us, holds no text
    bold = any(cell.best for row in rows for cell in row.cells)
    bounds, total = _bound_rows(comparison, metrics, costs), _total_row(comparison, metrics, costs)
    return Table(tuple(columns), tuple(rows), bounds, bool(metrics), bold, total)


def _metric_column(name: str) -> Column:
    """Return the column of a metric; the terminal has a table of its own for one_doc_R."""
    group: ColumnGroup | None = None if name.startswith("one_doc") else "quality"
    return Column(name.replace("_", " "), meaning(name), group)


def _bound_rows(comparison: Comparison, metrics: list[str], costs: "list[_CostColumn]") -> tuple[MethodRow, ...]:
    """Return the rows of the reader's bounds, with answer metrics and what they cost."""
    return tuple(
        MethodRow(
            bound.label,
            Markup(""),
            (
                *(_quality_cell(bound, name, False) if name in ANSWER_METRICS else MetricCell("") for name in metrics),
                *(cost.cell(bound, False) if cost.column.title == _SPENT else MetricCell("") for cost in costs),
            ),
        )
        for bound in comparison.bounds
    )


def _total_row(comparison: Comparison, metrics: list[str], costs: "list[_CostColumn]") -> MethodRow | None:
    """Return the row of what the run spent in all; None if it spent nothing."""
    spent = comparison.spent
    if spent.money == 0:
        return None
    total = "–" if spent.money is None else f"{'~' if spent.estimated else ''}{spent.money:.4f}"
    cells = (MetricCell(total if cost.column.title == _SPENT else "") for cost in costs)
    return MethodRow("together", Markup(""), (*(MetricCell("") for _ in metrics), *cells))


def metrics_shown(comparison: Comparison) -> list[str]:
    """Return the metrics of the table, as far as they were measured for any method.

    These are recall at every k, that of evidence, full recall and nDCG at one k, one_doc_R where it differs from
    recall, and the answer metrics of `select_shown`.
    """
    ks, every = comparison.ks, [method.metrics for method in comparison.methods]
    of_answers = select_shown({name for metrics_of in every for name in metrics_of})
    if not comparison.dataset.judged:
        return of_answers
    middle = middle_k(ks)
    differing = [
        k for k in ks if any(metrics_of.get(f"one_doc_R@{k}") != metrics_of.get(f"R@{k}") for metrics_of in every)
    ]
    names = [
        *(f"R@{k}" for k in ks),
        *(f"evidence_R@{k}" for k in ks),
        f"full_R@{middle}",
        f"nDCG@{middle}",
        *(f"one_doc_R@{k}" for k in differing),
    ]
    return [*(name for name in names if any(name in metrics_of for metrics_of in every)), *of_answers]


def meaning(metric: str) -> str:
    """Return a short explanation of a metric; "" if there is none."""
    return _MEANINGS.get(metric.partition("@")[0], "")


def methods_ahead(comparison: Comparison, metric: str) -> frozenset[str]:
    """Return the methods that may be the best by a metric; none if no method can be excluded."""
    ahead = frozenset(leaders(comparison, metric))
    return ahead if len(ahead) < len(comparison.methods) else frozenset()


def _quality_cell(method: MethodResult, name: str, best: bool) -> MetricCell:
    if name not in method.metrics:
        return MetricCell("–")
    value, bounds = method.metrics[name], method.ci95.get(name)
    repeated = name.startswith("one_doc") and value == method.metrics.get(name.removeprefix("one_doc_"))
    return MetricCell(percent(value), format_interval(bounds, percent), best, repeated)


TOKENS_MEANING = (
    "tokens of hits that a reader of each question must be given until the mean recall of evidence reaches it"
)


def token_shares(metrics: Sequence[str]) -> list[str]:
    """Return the recalls of evidence up to which tokens are counted; [] if the metrics name no evidence."""
    return [f"{target:.0%}" for target in TARGETS] if any(name.startswith("evidence") for name in metrics) else []


def token_cells(method: MethodResult, metrics: Sequence[str]) -> list[MetricCell]:
    """Return for each of `token_shares` the tokens that must be read for it, and their interval."""
    counts = [method.tokens_to_recall.get(f"tokens_to_recall@{target:g}") for target in TARGETS]
    cells = [
        MetricCell("–") if count is None else MetricCell(write_tokens(count), write_interval(count)) for count in counts
    ]
    return cells[: len(token_shares(metrics))]


def _latency_cell(value: float | None, bounds: Interval | None, best: bool) -> MetricCell:
    return MetricCell("–") if value is None else MetricCell(short(value), format_interval(bounds, short), best)


def format_interval(bounds: Interval | None, form: Callable[[float], str]) -> str:
    """Format the ends of an interval; "" if there is none."""
    return "" if bounds is None else f"{form(bounds[0])} – {form(bounds[1])}"


def _format_spread(latency: Latency) -> str:
    if latency.mean is None:
        return "–"
    return short(latency.mean) if latency.sd is None else f"{short(latency.mean)} ± {short(latency.sd)}"


def _optional_cost(
    title: str,
    meaning: str,
    group: ColumnGroup,
    value: Callable[[MethodResult], float | None],
    form: Callable[[float], str],
    estimated: Callable[[MethodResult], bool] = lambda method: False,
) -> "_CostColumn":
    """Make a column that is shown only if a method has a figure other than 0, or an unknown one.

    Figures of which `estimated` holds are marked with ~.
    """

    def cell(method: MethodResult, fastest: bool) -> MetricCell:
        cost, about = value(method), "~" if estimated(method) else ""
        return MetricCell("–" if cost is None else f"{about}{form(cost)}")

    return _CostColumn(Column(title, meaning, group), cell, False, value)


@dataclass(frozen=True, slots=True)
class _CostColumn:
    """Column of costs; the second argument of `cell` says whether the method is among the fastest."""

    column: Column
    cell: Callable[[MethodResult, bool], MetricCell]
    always: bool = True
    value: Callable[[MethodResult], float | None] = lambda method: 1.0

    def says_something(self, method: MethodResult) -> bool:
        """Return whether a cost is not 0, nor unknown because the ranking comes from elsewhere."""
        cost = self.value(method)
        return cost != 0 and (method.built or cost is not None)


_SPENT = "spent $"
_COST_COLUMNS = (
    _CostColumn(
        Column("p50 ms", "half of the questions were answered within this time, asked one by one", "size"),
        lambda method, fastest: _latency_cell(method.latency.total.p50, method.ci95.get(f"{LATENCY}_p50"), fastest),
    ),
    _CostColumn(
        Column("p95 ms", "95 % of the questions were answered within this time, asked one by one", "size"),
        lambda method, fastest: _latency_cell(method.latency.total.p95, method.ci95.get(f"{LATENCY}_p95"), False),
    ),
    _CostColumn(
        Column("mean ± sd ms", "mean and standard deviation of these times, as many papers print them"),
        lambda method, fastest: MetricCell(_format_spread(method.latency)),
    ),
    _CostColumn(
        Column("index s", "seconds of building the index, as if this method were built alone", "size"),
        lambda method, fastest: MetricCell("–" if method.index_seconds is None else short(method.index_seconds)),
    ),
    _CostColumn(
        Column("index MB", "megabytes of the index on disk", "size"),
        lambda method, fastest: MetricCell("–" if method.index_bytes is None else short(method.index_bytes / 1e6)),
    ),
    _optional_cost(
        "index tokens",
        "tokens of building the index, in and out, as if this method were built alone (~: estimated)",
        "cost",
        lambda method: method.index_tokens,
        "{:,.0f}".format,
        lambda method: method.index_usage.estimated,
    ),
    _optional_cost(
        "index $",
        "dollars of building the index (~: by estimated tokens)",
        "cost",
        lambda method: method.index_usage.money,
        "{:.4f}".format,
        lambda method: method.index_usage.estimated,
    ),
    _optional_cost(
        _SPENT,
        "dollars that this run paid, for building and asking (~: by estimated tokens)",
        "cost",
        lambda method: method.spent.money,
        "{:.4f}".format,
        lambda method: method.spent.estimated,
    ),
    _optional_cost(
        "tokens a question",
        "tokens of finding, in and out: the mean (~: estimated)",
        "cost",
        lambda method: method.query_tokens,
        "{:,.0f}".format,
        lambda method: method.query_usage.estimated,
    ),
    _optional_cost(
        "$ a question",
        "dollars of finding: the mean (~: by estimated tokens)",
        "cost",
        lambda method: method.query_usage.money,
        "{:.5f}".format,
        lambda method: method.query_usage.estimated,
    ),
    _optional_cost(
        "calls a question", "calls of language models: the mean", "cost", lambda method: method.calls, "{:.1f}".format
    ),
    _optional_cost(
        "not answered",
        "questions on which the method failed; each scores 0",
        "quality",
        lambda method: len(method.failures),
        "{:,.0f}".format,
    ),
)

LATENCY_COLUMNS = tuple(cost.column for cost in _COST_COLUMNS[:3])
"""Those that hold times of questions."""
