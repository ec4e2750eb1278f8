"""Report sections on groups of questions: by hops, by kind, by title named, and those that no document answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ragindex_eval.format import many, percent, short
from ragindex_eval.report.plots import svg
from ragindex_eval.report.tables import (
    Column,
    MethodRow,
    MetricCell,
    format_interval,
    meaning,
    metrics_shown,
)
from ragindex_eval.results.model import LATENCY, Breakdown, Comparison

FEWEST = 10  # questions; resamples of fewer hardly vary, so an interval would look too narrow
GROUPINGS = {"hops": "number of hops", "kind": "kind of question", "title": "title in the question"}
"""The ways to group questions (`Breakdown.by`), in words."""


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """Figures of all methods on one group of questions."""

    name: str
    questions: int
    rows: tuple[MethodRow, ...]


@dataclass(frozen=True, slots=True)
class GroupTable:
    """Table of one way to group the questions: `by` hops, kind or title."""

    by: str
    heading: str
    columns: tuple[Column, ...]
    groups: tuple[QuestionGroup, ...]


@dataclass(frozen=True, slots=True)
class GroupTables:
    """Tables of all ways to group the questions; groups of fewer than `few` questions have no intervals."""

    tables: tuple[GroupTable, ...]
    few: int


def render_kinds(comparison: Comparison) -> GroupTables | None:
    """Make a table for each way to group the questions; None if there is none."""
    groupings = dict.fromkeys(group.by for group in comparison.methods[0].breakdown)
    return GroupTables(tuple(_make_table(comparison, by) for by in groupings), FEWEST) if groupings else None


def group_name(by: str, value: str) -> str:
    """Return the name of a group for display."""
    return many(int(value), "hop") if by == "hops" and value.isdecimal() else value


def _make_table(comparison: Comparison, by: str) -> GroupTable:
    metrics = metrics_shown(comparison)
    every = [group for method in comparison.methods for group in method.breakdown if group.by == by]
    costs = [cost for cost in _COSTS if any(_tokens(group) or group.calls for group in every)]
    columns = (*(Column(name.replace("_", " "), meaning(name)) for name in metrics), *_TIMES, *costs)
    groups = []
    for value in dict.fromkeys(group.value for group in every):
        rows = tuple(
            MethodRow(method.label, Markup(svg.key(number)), _cells(part, metrics, bool(costs)))  # noqa: S704  # drawn by us
            for number, method in enumerate(comparison.methods)
            for part in method.breakdown
            if (part.by, part.value) == (by, value)
        )
        questions = next(group.questions for group in every if group.value == value)
        groups.append(QuestionGroup(group_name(by, value), questions, rows))
    return GroupTable(by, GROUPINGS[by], columns, tuple(groups))


_TIMES = (
    Column("p50 ms", "half of the timed questions of the group were answered within this time"),
    Column("p95 ms", "95 % of the timed questions of the group were answered within this time"),
)
_COSTS = (
    Column("tokens a question", "tokens of finding, in and out: the mean"),
    Column("$ a question", "dollars of finding: the mean"),
    Column("calls a question", "calls of language models: the mean"),
)


def _tokens(part: Breakdown) -> int | float:
    return part.usage.input_tokens + part.usage.output_tokens


def _cells(part: Breakdown, metrics: Sequence[str], costs: bool) -> tuple[MetricCell, ...]:
    several = part.questions >= FEWEST
    bounds = part.ci95 if several else {}
    cells = [
        MetricCell(percent(part.metrics[name]), format_interval(bounds.get(name), percent))
        if name in part.metrics
        else MetricCell("–")
        for name in metrics
    ]
    for value, name in ((part.latency.p50, "p50"), (part.latency.p95, "p95")):
        interval = format_interval(bounds.get(f"{LATENCY}_{name}"), short)
        cells.append(MetricCell("–") if value is None else MetricCell(short(value), interval))
    if costs:
        money = "–" if part.usage.money is None else f"{part.usage.money:.5f}"
        cells += map(MetricCell, (f"{_tokens(part):,.0f}", money, f"{part.calls:.1f}"))
    return tuple(cells)


# ---------------------------------------------------------------- questions that no document answers


@dataclass(frozen=True, slots=True)
class NothingRow:
    """Method, with shares of questions for which it finds nothing, and the threshold of the score that all suggest."""

    label: str
    rightly: str
    wrongly: str
    threshold: str


@dataclass(frozen=True, slots=True)
class NothingTable:
    """Rows of all methods, and the fewest questions that a share of them is of."""

    rows: tuple[NothingRow, ...]
    fewest: int


def render_nothing(comparison: Comparison) -> NothingTable | None:
    """Make the table; None if no questions are marked as unanswerable."""
    rows = tuple(
        NothingRow(
            row.label,
            row.rightly.describe(),
            row.wrongly.describe(),
            "none" if row.threshold is None else f"{row.threshold:.4g}",
        )
        for row in comparison.finds_nothing
    )
    fewest = min((min(row.rightly.of, row.wrongly.of) for row in comparison.finds_nothing), default=0)
    return NothingTable(rows, fewest) if rows else None
