"""The options of evaluation commands: made from the settings, one for each field, in the groups of the settings."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ragindex.cli.console import stdout as standard_output
from ragindex.cli.option_groups import Group, make_parameter
from ragindex.corpus.file_selection import FileSelection
from ragindex_eval.run.settings import GROUPS, CompareSettings, DataSettings, make_settings

COMMON = ("questions", "methods", "encoder", "llm", "out")
"""The settings that most comparisons name; help lists them first."""
READING = (
    *("format", "skip_bad", "include", "exclude", "encoding", "max_file_mb", "ocr", "rows"),
    *("skip_stubs", "language"),
)
"""The settings that say how documents are read."""
DataArgument = Annotated[str, typer.Argument(metavar="DATA", help=CompareSettings.model_fields["data"].description)]
QrelsOption = Annotated[
    Path | None, typer.Option("--qrels", metavar="FILE", help="The judgements: TREC qrels, .json or .csv.")
]
IgnoreOption = Annotated[
    bool, typer.Option("--ignore-identical-ids", help="Leave out hits with the question's own id, as BEIR does.")
]
OPENING = ("encoder", "llm", "budget", "store", "index", "seed")
"""The settings that an index is opened with, and what the work on it may cost."""


def settings_group(*names: str, **own: Any) -> Group:
    """Return the options of a command for these settings; `own` are annotations of options that differ from ours.

    The command gets `CompareSettings` of the given values. An option of its own whose type excludes None is required.
    """
    ordered = [name for name in ("data", *COMMON) if name in (*own, *names)]
    ordered += [name for model in GROUPS.values() for name in model.model_fields if name in (*own, *names)]
    parameters = [_make_parameter(name, own.get(name)) for name in dict.fromkeys(ordered)]
    return Group(parameters, lambda values: make_settings(select_given(values)))


def options_group(model: type[BaseModel], title: str, make: Callable[[Mapping[str, Any]], Any]) -> Group:
    """Return an option for each field of a model, under a title; `make` gets the given values."""
    parameters = [
        make_parameter(name, option_of(name, field), None, title) for name, field in model.model_fields.items()
    ]
    return Group(parameters, lambda values: make(select_given(values)))


def select_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options that were given."""
    return {name: value for name, value in values.items() if value not in (None, [])}


def option_of(name: str, field: FieldInfo) -> Any:
    """Return the annotation of the option for a field: the type of its values on the command line, and its help."""
    shown_as: Mapping[str, Any] = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    flag = f"--{name.replace('_', '-')}"
    option = typer.Option(flag, metavar=shown_as.get("metavar"), min=shown_as.get("least"), help=field.description)
    return Annotated[_written_type(field.annotation), option]


def _make_parameter(name: str, own: Any) -> Parameter:
    annotation = own or option_of(name, CompareSettings.model_fields[name])
    required = type(None) not in get_args(get_args(annotation)[0])
    title = None if own or name in COMMON else next(title for title in GROUPS if name in GROUPS[title].model_fields)
    return make_parameter(name, annotation, Parameter.empty if required else None, title)


def _written_type(annotation: Any) -> Any:
    """Return the type that typer parses: numbers, paths, flags and lists of texts as such, all else as texts."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    simple = [member for member in members if member in (bool, int, float, Path, list[str])]
    return Union[simple[0], None] if simple and str not in members else str | None  # noqa: UP007  # a value


# ---------------------------------------------------------------- the options of commands that are suggested


def list_reading_options(settings: DataSettings) -> list[str]:
    """Return the options, with their values, that say how the documents of some settings are read."""
    return write_reading_options(settings.format, settings.selected_files())


def write_reading_options(format: str | None, selection: FileSelection) -> list[str]:
    """Return the options of reading that differ from their defaults, with their values."""
    return [*(["--format", format] if format else []), *selection.flags()]


def shorten_command(arguments: Sequence[str]) -> str:
    """Return the command line, with absolute paths shortened to their last part because reports may be shared."""
    shortened = [Path(argument).name if os.path.isabs(argument) else argument for argument in arguments]
    return shlex.join(["ragindex", *shortened])


def print_text(settings: CompareSettings, text: str) -> None:
    """Print text unless JSON goes to standard output."""
    if settings.json_file != "-":
        standard_output().print(text, soft_wrap=True)
