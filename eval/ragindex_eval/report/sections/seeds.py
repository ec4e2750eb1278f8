"""Report section on the spread of each metric over seeds."""

from dataclasses import dataclass

from ragindex_eval.format import percent, without_folders
from ragindex_eval.report.sections.table import Column, meaning, metrics_shown
from ragindex_eval.results import seeds as spread
from ragindex_eval.results.model import Study


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
