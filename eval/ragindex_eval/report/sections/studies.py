"""Report sections of a study of several comparisons: all results, and the spread of each metric over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

from ragindex_eval.format import percent, without_folders
from ragindex_eval.report import tables
from ragindex_eval.report.tables import Column, MetricCell, meaning, metrics_shown
from ragindex_eval.results import seeds as spread
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


# ---------------------------------------------------------------- spread over seeds


@dataclass(frozen=True, slots=True)
class SpreadCell:
    """Mean, standard deviation and range of a metric over the seeds, in percent."""

    mean: str
    deviation: str
    reach: str


@dataclass(frozen=True, slots=True)
class SeedTable:
    """Table of one corpus and encoder, with a row per method and a column per metric."""

    title: str
    seeds: tuple[int, ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[SpreadCell, ...]], ...]


def render_seeds(study: Study) -> tuple[SeedTable, ...] | None:
    """Make the tables; None if no comparison was repeated with another seed, or nothing is judged."""
    shown = list(dict.fromkeys(name for comparison in study.comparisons for name in metrics_shown(comparison)))
    metrics = [name for name in shown if not name.startswith("one_doc")]
    tables = tuple(_seed_table(group, metrics) for group in spread.group_by_seed(study) if group.spreads)
    return tables or None


def _seed_table(group: spread.SeedGroup, metrics: list[str]) -> SeedTable:
    by_figure = {(figure.label, figure.metric): figure for figure in group.spreads}
    labels = list(dict.fromkeys(figure.label for figure in group.spreads))
    rows = tuple((label, tuple(_spread_cell(by_figure.get((label, name))) for name in metrics)) for label in labels)
    columns = tuple(Column(name.replace("_", " "), meaning(name)) for name in metrics)
    return SeedTable(without_folders(f"{group.dataset}, encoder {group.encoder}"), group.seeds, columns, rows)


def _spread_cell(figure: spread.SeedSpread | None) -> SpreadCell:
    if figure is None:
        return SpreadCell("–", "", "")
    return SpreadCell(
        percent(figure.mean), percent(figure.deviation), f"{percent(figure.least)} – {percent(figure.most)}"
    )
