"""Groups of comparisons that differ only in their seed, with the spread of each metric."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from ragindex_eval.results.model import RESULT_SCHEMA, Comparison, Study


@dataclass(frozen=True, slots=True)
class SeedSpread:
    """Mean, sample standard deviation and range of one metric of one method over seeds."""

    label: str
    metric: str
    mean: float
    deviation: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class SeedGroup:
    """Comparisons that differ only in their seeds, with the spread of each metric that at least two of them have."""

    dataset: str
    encoder: str
    seeds: tuple[int, ...]
    spreads: tuple[SeedSpread, ...]

    def to_json(self) -> dict[str, Any]:
        """Convert to one element of the JSON field `spread`."""
        names = ("label", "metric", "mean", "deviation", "least", "most")
        rows = [{name: getattr(spread, name) for name in names} for spread in self.spreads]
        return {"dataset": self.dataset, "encoder": self.encoder, "seeds": list(self.seeds), "figures": rows}


def group_by_seed(study: Study) -> tuple[SeedGroup, ...]:
    """Group the comparisons of a study by dataset, encoder and store; keep groups with several seeds."""
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for comparison in study.comparisons:
        groups.setdefault((comparison.dataset.fingerprint, comparison.encoder, comparison.store), []).append(comparison)
    several = [group for group in groups.values() if len({member.seed for member in group}) > 1]
    return tuple(
        SeedGroup(
            group[0].dataset.name,
            group[0].encoder,
            tuple(sorted({member.seed for member in group})),
            tuple(_compute_spreads(group)),
        )
        for group in several
    )


def _compute_spreads(group: Sequence[Comparison]) -> Iterator[SeedSpread]:
    for first in group[0].methods:
        same = [method.metrics for comparison in group for method in comparison.methods if method.label == first.label]
        for metric in first.metrics:
            values = [metrics[metric] for metrics in same if metric in metrics]
            if len(values) > 1:
                yield SeedSpread(first.label, metric, fmean(values), stdev(values), min(values), max(values))


def study_to_json(study: Study) -> dict[str, Any]:
    """Convert a study to the JSON of `--json`: one comparison, or all with their spread over seeds."""
    if len(study.comparisons) == 1:
        return study.comparisons[0].to_json()
    comparisons = [comparison.to_json() for comparison in study.comparisons]
    spread = [group.to_json() for group in group_by_seed(study)]
    return {"schema": RESULT_SCHEMA, "name": study.name, "comparisons": comparisons, "spread": spread}
