"""Groups of options: one parameter of a command that stands for several options.

    @with_groups
    def read(data: DataArgument, reading: Annotated[ReadingOptions, group_of(ReadingOptions, "Documents")]) -> None: ...

typer sees a parameter for each option, and the command gets one value for each group. Help has a panel for each group,
after that of the options that have none.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from io import StringIO
from typing import Annotated, Any, get_args, get_type_hints

from rich.box import ASCII, ROUNDED
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

_NAME_WIDTH = 30
"""The most columns of the terminal for the names of options."""


@dataclass(frozen=True, slots=True)
class Group:
    """Annotates a parameter of a command: its options, as typer reads them, and what makes its value of theirs."""

    parameters: Sequence[Parameter]
    make: Callable[[Mapping[str, Any]], Any]


def make_parameter(name: str, annotation: Any, default: Any = None, title: str | None = None) -> Parameter:
    """Return the parameter of an option; `annotation` has the option, which help lists under the title."""
    kind, option = get_args(annotation)
    titled = copy(option)
    titled.rich_help_panel = title
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, titled])


def group_of(options: type[Any], title: str | None = None) -> Group:
    """Return the group of a dataclass whose fields are annotated as options."""
    hints = get_type_hints(options, include_extras=True)
    parameters = [make_parameter(field.name, hints[field.name], field.default, title) for field in fields(options)]
    return Group(parameters, lambda values: options(**values))


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command as typer runs it: with a parameter for each option of its groups."""
    hints = get_type_hints(command, include_extras=True)
    annotated = {name: get_args(hint) for name, hint in hints.items()}
    groups = {name: arg for name, args in annotated.items() for arg in args if isinstance(arg, Group)}
    parameters = list[Parameter]()
    for parameter in signature(command).parameters.values():
        if parameter.name in groups:
            parameters += groups[parameter.name].parameters
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))

    @wraps(command)
    def run(**values: Any) -> None:
        grouped = {
            name: group.make({parameter.name: values.pop(parameter.name) for parameter in group.parameters})
            for name, group in groups.items()
        }
        command(**values, **grouped)

    del run.__wrapped__  # it has another signature
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # inspect reads it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


class GroupedCommand(TyperCommand):
    """A command whose help has a panel of arguments, one of options without a group, and one for each group."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the parameters, panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            title = (
                "Arguments" if parameter.param_type_name == "argument" else getattr(parameter, "rich_help_panel", None)
            )
            record = parameter.get_help_record(ctx)
            if record is not None:
                panels.setdefault(title or "Options", []).append(record)
        console = Console(width=formatter.width, file=StringIO(), force_terminal=sys.stdout.isatty(), highlight=False)
        for title, records in panels.items():
            if records:
                console.print(_make_panel(title, records))
        formatter.write(f"\n{console.file.getvalue()}")  # type: ignore[attr-defined]  # a StringIO


def _make_panel(title: str, records: Sequence[tuple[str, str]]) -> Panel:
    """Return the names and texts of options in a frame; they are plain text, not markup."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(style="bold", max_width=_NAME_WIDTH, overflow="fold")
    table.add_column(ratio=1)
    for name, text in records:
        table.add_row(Text(name), Text(text))
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return Panel(table, box=ROUNDED if is_unicode else ASCII, title=title, title_align="left", border_style="dim")
