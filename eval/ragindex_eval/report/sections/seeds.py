"""Show the spread of each metric over seeds."""

from dataclasses import dataclass

from ragindex_eval.format import percent, without_folders
from ragindex_eval.report.sections.table import Column, meaning, metrics_shown
from ragindex_eval.results.model import Study
from ragindex_eval.stats import seeds as spread


@dataclass(frozen=True, slots=True)
class SpreadCell:
    """A figure over the seeds, in percent: its mean, its standard deviation and how far it reaches."""

    mean: str
    deviation: str
    reach: str


@dataclass(frozen=True, slots=True)
class SeedTable:
    """One corpus and encoder: a row a method, a column a metric."""

    title: str
    seeds: tuple[int, ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[SpreadCell, ...]], ...]


def render_seeds(study: Study) -> tuple[SeedTable, ...] | None:
    """None where nothing was done twice, or nothing judged."""
    shown = list(dict.fromkeys(name for one in study.comparisons for name in metrics_shown(one)))
    metrics = [name for name in shown if not name.startswith("one_doc")]
    found = tuple(_repeated(group, metrics) for group in spread.group_by_seed(study) if group.spreads)
    return found or None


def _repeated(group: spread.SeedGroup, metrics: list[str]) -> SeedTable:
    by_figure = {(one.label, one.metric): one for one in group.spreads}
    labels = list(dict.fromkeys(one.label for one in group.spreads))
    rows = tuple((label, tuple(_shown(by_figure.get((label, name))) for name in metrics)) for label in labels)
    columns = tuple(Column(name.replace("_", " "), meaning(name)) for name in metrics)
    return SeedTable(without_folders(f"{group.dataset}, encoder {group.encoder}"), group.seeds, columns, rows)


def _shown(one: spread.SeedSpread | None) -> SpreadCell:
    if one is None:
        return SpreadCell("–", "", "")
    return SpreadCell(percent(one.mean), percent(one.deviation), f"{percent(one.least)} – {percent(one.most)}")
