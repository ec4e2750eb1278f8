"""Report section with one table of all comparisons of a study."""

from collections.abc import Sequence
from dataclasses import dataclass

from ragindex_eval.format import without_folders
from ragindex_eval.report import tables
from ragindex_eval.report.tables import Column, MetricCell
from ragindex_eval.results.model import Comparison, Study


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """Row of one method in one comparison.

    The first row of a comparison shows its name over `span` rows; `span` is 0 in the others.
    """

    anchor: str
    corpus: str
    encoder: str
    seed: int
    span: int
    label: str
    cells: tuple[MetricCell, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """Table of the figures that all comparisons have, without latency, which was measured at different times."""

    columns: tuple[Column, ...]
    lines: tuple[OverviewRow, ...]


def render_overview(study: Study) -> Overview | None:
    """Make the table; None if the study has only one comparison."""
    if len(study.comparisons) < 2:
        return None
    compared_tables = [tables.make_table(comparison) for comparison in study.comparisons]
    together = [column for column in compared_tables[0].columns if column not in tables.LATENCY_COLUMNS]
    shared = [column for column in together if all(column in compared.columns for compared in compared_tables)]
    lines = [
        line
        for number, (compared, of_comparison) in enumerate(
            zip(study.comparisons, compared_tables, strict=True), start=1
        )
        for line in _make_rows(compared, of_comparison, shared, f"c{number}")
    ]
    return Overview(tuple(shared), tuple(lines))


def _make_rows(
    comparison: Comparison, of_comparison: tables.Table, shared: Sequence[Column], anchor: str
) -> list[OverviewRow]:
    places = [of_comparison.columns.index(column) for column in shared]
    return [
        OverviewRow(
            anchor,
            comparison.dataset.name,
            without_folders(comparison.encoder),
            comparison.seed,
            len(of_comparison.rows) if number == 0 else 0,
            row.label,
            tuple(row.cells[at] for at in places),
        )
        for number, row in enumerate(of_comparison.rows)
    ]
