"""Published tables: figures of a paper, as it prints them, with the conditions under which they were measured."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from ragindex.errors import UsageError
from ragindex.plugins.strict_models import Strict

EFFICIENCY = frozenset({"TPQ", "TPER"})
"""Metrics of SiReRAG that are no shares: seconds a question (TPQ), and their growth against that of the pool (TPER)."""

_Text = Annotated[str, Field(min_length=1, max_length=200)]
_Count = Annotated[int, Field(ge=1)]


class PublishedConditions(Strict):
    """Conditions of published figures that a run can be compared with; None if the paper does not state one.

    `k` is the largest cutoff, whose hits the reader is given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder: _Text | None = None
    llm: _Text | None = None
    reader: _Text | None = None
    questions: _Count | None = None
    documents: _Count | None = None
    passages: _Count | None = None
    k: _Count | None = None


class PublishedRows(Strict):
    """Figures on one data set: by method, one for each metric of the table, None where the paper has none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    conditions: PublishedConditions = PublishedConditions()
    figures: Mapping[_Text, tuple[float | None, ...]] = Field(min_length=1)


class PublishedRun(Strict):
    """With what one data set was run: its source (`ragindex_eval.studies.sources`), and what differs from the rest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: _Text
    encoder: _Text | None = None
    llm: _Text | None = None
    reader_llm: _Text | None = None
    limit: _Count | None = None
    kinds: Mapping[_Text, _Count] | None = None
    seeds: tuple[int, ...] | None = None


class PublishedSetup(Strict):
    """With what the paper ran, as settings of a comparison; `data` has each data set, or the name of its source.

    `with_weights` are methods of rows that load a model of their own, which a comparison by rules does not have.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder: _Text
    llm: _Text
    reader_llm: _Text | None = None
    with_weights: tuple[Mapping[str, Any], ...] = ()
    data: Mapping[_Text, _Text | PublishedRun] = Field(min_length=1)

    def run_on(self, data: str) -> PublishedRun:
        """Return with what a data set was run; its own values precede those of all."""
        given = self.data[data]
        own = PublishedRun(source=given) if isinstance(given, str) else given
        shared = self.model_dump(include={"encoder", "llm", "reader_llm"})
        return own.model_copy(update={name: value for name, value in shared.items() if getattr(own, name) is None})


class PublishedTable(Strict):
    """A published table.

    `figures` are written in `unit`, as the paper prints them, but those of EFFICIENCY as they are. `baseline` names the
    row that all others are compared with, or the row for each method that has one. `unchecked` lists conditions that no
    run can tell, and `setup` is with what `ragindex study` runs the table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: _Text
    unit: Literal["percent", "fraction"]
    metrics: tuple[_Text, ...] = Field(min_length=1)
    baseline: _Text | Mapping[_Text, _Text] = Field(default={})
    conditions: PublishedConditions = PublishedConditions()
    unchecked: tuple[_Text, ...] = ()
    setup: PublishedSetup | None = None
    data: Mapping[_Text, PublishedRows] = Field(min_length=1)

    @field_validator("metrics")
    @classmethod
    def _require_different(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("the metrics must be different")
        return value

    @model_validator(mode="after")
    def _require_complete(self) -> "PublishedTable":
        most = 100.0 if self.unit == "percent" else 1.0
        for data, rows in self.data.items():
            for method, values in rows.figures.items():
                if len(values) != len(self.metrics):
                    raise ValueError(f"{data}, {method}: expected {len(self.metrics)} figures, got {len(values)}")
                shares = [value for name, value in zip(self.metrics, values, strict=True) if name not in EFFICIENCY]
                if not all(value is None or 0.0 <= value <= most for value in shares):
                    raise ValueError(f"{data}, {method}: expected figures from 0 to {most:g} ({self.unit})")
        named = {method for rows in self.data.values() for method in rows.figures}
        baselines = {self.baseline} if isinstance(self.baseline, str) else {*self.baseline, *self.baseline.values()}
        if baselines - named:
            raise ValueError(f"baseline: no data set has figures of {min(baselines - named)!r}")
        if self.setup is not None and self.setup.data.keys() != self.data.keys():
            raise ValueError(f"setup: expected the data sets {', '.join(self.data)}")
        return self

    def conditions_on(self, data: str) -> dict[str, str | int]:
        """Return the stated conditions on a data set by name; its own precede those of the table."""
        own, shared = (
            conditions.model_dump(exclude_none=True) for conditions in (self.data[data].conditions, self.conditions)
        )
        return {name: value for name in PublishedConditions.model_fields if (value := own.get(name, shared.get(name)))}

    def figures_on(self, data: str) -> dict[tuple[str, str], float]:
        """Return the figures on a data set by method and metric, shares as fractions of 1."""
        scale = 100.0 if self.unit == "percent" else 1.0
        return {
            (method, metric): value if metric in EFFICIENCY else value / scale
            for method, values in self.data[data].figures.items()
            for metric, value in zip(self.metrics, values, strict=True)
            if value is not None
        }

    def baseline_of(self, method: str) -> str | None:
        """Return the row that a method is compared with; None if there is none."""
        baseline = self.baseline if isinstance(self.baseline, str) else self.baseline.get(method)
        return None if baseline == method else baseline


def require_published_data(table: PublishedTable | None, data: str | None) -> None:
    """Check the name of a published data set. Raises UsageError, which lists the names, if the table has none such."""
    if data is None:
        return
    if table is None:
        raise UsageError(
            "--published-data names a data set of a published table. Give the table: --config FILE. To run one that "
            "comes with ragindex: ragindex studies"
        )
    if data not in table.data:
        raise UsageError(f"{table.source} has no figures on {data!r}. Available: {', '.join(table.data)}.")
