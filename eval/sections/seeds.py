"""What chance does: the same corpus and encoder under several seeds."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from eval.comparison import Comparison, Study
from eval.sections.table import Column, meaning, metrics_shown
from eval.showing import percent, without_folders


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the seeds, in percent: its mean, its standard deviation and how far it reaches."""

    mean: str
    deviation: str
    reach: str


@dataclass(frozen=True, slots=True)
class Repeated:
    """One corpus and encoder: a row a method, a column a metric."""

    title: str
    seeds: tuple[int, ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Spread, ...]], ...]


def section(study: Study) -> tuple[Repeated, ...] | None:
    """None where nothing was done twice, or nothing judged."""
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for one in study.comparisons:
        if one.dataset.judged:
            groups.setdefault((one.dataset.fingerprint, one.encoder, one.store), []).append(one)
    found = tuple(_repeated(group) for group in groups.values() if len({one.seed for one in group}) > 1)
    return found or None


def _repeated(group: Sequence[Comparison]) -> Repeated:
    first = group[0]
    metrics = [name for name in metrics_shown(first) if not name.startswith("one_doc")]
    every = [{method.label for method in one.methods} for one in group]
    labels = [method.label for method in first.methods if all(method.label in some for some in every)]
    rows = tuple((label, tuple(_spread(group, label, name) for name in metrics)) for label in labels)
    columns = tuple(Column(name.replace("_", " "), meaning(name)) for name in metrics)
    title = without_folders(f"{first.dataset.name}, encoder {first.encoder}")
    return Repeated(title, tuple(sorted({one.seed for one in group})), columns, rows)


def _spread(group: Sequence[Comparison], label: str, name: str) -> Spread:
    every = [one.method(label).metrics for one in group]
    values = [metrics[name] for metrics in every if name in metrics]
    if not values:
        return Spread("–", "", "")
    deviation = percent(statistics.stdev(values)) if len(values) > 1 else ""
    return Spread(percent(statistics.fmean(values)), deviation, f"{percent(min(values))} – {percent(max(values))}")
