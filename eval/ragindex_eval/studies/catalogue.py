"""The studies that come with the package: their tables, and the settings of a run as the paper made it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, Field, TypeAdapter

from ragindex.errors import UnknownNameError
from ragindex.plugins.strict_models import Strict
from ragindex_eval.data.published import PublishedRun, PublishedSetup, PublishedTable
from ragindex_eval.run.settings import CompareSettings, given_values, make_settings, read_settings

FOLDER = Path(__file__).parent
_SOURCES_FILE = FOLDER / "sources.yaml"


class DataSource(Strict):
    """Where the data of a study are below the folder of all data, and the page that they come from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    files: tuple[str, ...] = Field(min_length=1)
    page: str
    format: str | None = None
    questions: str | None = None


@dataclass(frozen=True, slots=True)
class PrintedStudy:
    """A study: the settings of its file, its published table, and with what the paper ran it."""

    name: str
    settings: CompareSettings
    table: PublishedTable
    setup: PublishedSetup

    @property
    def data(self) -> tuple[str, ...]:
        """The names of its data sets."""
        return tuple(self.table.data)

    def require_data(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the data sets to run on, all by default. Raises UnknownNameError for one that the table lacks."""
        for name in names:
            if name not in self.data:
                raise UnknownNameError(f"{self.name} has no data set {name!r}. Available: {', '.join(self.data)}.")
        return names or self.data

    def source_of(self, data: str) -> DataSource:
        """Return where a data set is."""
        return list_data_sources()[self.setup.run_on(data).source]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all its rows that are methods, those with weights of their own last."""
        return tuple(str(method["label"]) for method in self._methods())

    def _methods(self) -> list[Mapping[str, Any]]:
        methods = self.settings.written_methods() or ()
        return [*(method for method in methods if isinstance(method, Mapping)), *self.setup.with_weights]

    def settings_on(
        self, data: str, folder: Path, given: CompareSettings, leave_out: Collection[str] = ()
    ) -> CompareSettings:
        """Return the settings of the run on a data set, whose files are below `folder`; those `given` precede.

        Methods with the labels of `leave_out` are not run. Raises UnknownNameError for a label that there is not.
        """
        for label in leave_out:
            if label not in self.labels:
                raise UnknownNameError(f"{self.name} has no row {label!r}. Available: {', '.join(self.labels)}.")
        source, run = self.source_of(data), self.setup.run_on(data)
        values: dict[str, Any] = {
            **given_values(self.settings),
            "methods": [method for method in self._methods() if method["label"] not in leave_out],
            **_list_models(run),
            "data": str(folder / source.data),
            "questions": None if source.questions is None else folder / source.questions,
            "format": source.format,
            "limit": run.limit,
            "kinds": run.kinds,
            "seeds": None if run.seeds is None else list(run.seeds),
            "published_data": data,
            "out": Path("ragindex-results", f"{self.name}-{data}"),
        }
        return given.over(make_settings({name: value for name, value in values.items() if value is not None}))


def _list_models(run: PublishedRun) -> dict[str, str | None]:
    return {"encoder": run.encoder, "llm": run.llm, "reader_llm": run.reader_llm}


@cache
def list_studies() -> tuple[str, ...]:
    """Return the names of the studies."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*-table-*.yaml")))


def load_study(name: str) -> PrintedStudy:
    """Return a study by its name. Raises UnknownNameError."""
    if name not in list_studies():
        raise UnknownNameError(f"There is no study {name!r}. Available: {', '.join(list_studies())}.")
    settings = read_settings(FOLDER / f"{name}.yaml")
    table = settings.published
    assert table is not None  # noqa: S101  # tests read every file
    assert table.setup is not None  # noqa: S101
    return PrintedStudy(name, settings, table, table.setup)


@cache
def list_data_sources() -> Mapping[str, DataSource]:
    """Return the sources of data by name."""
    value = yaml.safe_load(_SOURCES_FILE.read_text(encoding="utf-8"))
    return TypeAdapter(dict[str, DataSource]).validate_python(value)
