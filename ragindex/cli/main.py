"""The command line app: one module per command; other packages add commands by the entry points `ragindex.commands`."""

import inspect
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ragindex._util import distribution
from ragindex._util.distribution import entry_points, read_docstring
from ragindex._util.durable_files import expand_home
from ragindex.accounting.spending_log import name_command
from ragindex.cli.console import expect_command, handle_interrupts, print_note, run_with_exit_codes
from ragindex.errors import RagindexError

_GROUP = "ragindex.commands"
BUILT_IN = (
    *("methods", "read", "index", "update", "search", "ask", "add"),
    *("remove", "export", "parts", "repair", "cache", "use", "doctor"),
    *("serve", "mcp", "spending", "new-plugin"),
)
"""The commands of the framework."""


def point_to(command: str) -> EntryPoint:
    """Return where the function of a built-in command is: in the module of its name."""
    module = command.replace("-", "_")
    return EntryPoint(command, f"ragindex.cli.{module}:{module}", _GROUP)


class _Commands(TyperGroup):
    """The commands by name. Only the one that runs is imported; help reads the docstrings of ours from their source."""

    def __init__(self, *, commands: object, **settings: Any) -> None:
        super().__init__(**settings)
        self._points = {name: point_to(name) for name in BUILT_IN}
        for point in sorted(entry_points(group=_GROUP), key=lambda point: point.name):
            self._points.setdefault(point.name, point)
        self.commands = {name: TyperCommand(name) for name in self._points}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for name, command in list(self.commands.items()):
            try:
                described = read_docstring(self._points[name]) or inspect.getdoc(_load_function(self._points[name]))
                command.short_help = (described or "").partition("\n\n")[0]
            except RagindexError as error:
                del self.commands[name]
                print_note(f"skipped the command {name}: {error}")
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, [_expand_home(arg) for arg in args])
        command = None if name is None else _load_command(self._points[name])
        name_command(name or "")
        expect_command(name or "")
        handle_interrupts()
        return name, command, rest if command is None else _complete_values(command, rest)


app = typer.Typer(
    name="ragindex",
    cls=_Commands,
    help="Which retriever should I use on my documents? Build several, compare them, use the best.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        installed = distribution.find_distribution()
        typer.echo(f"{installed.name} {installed.version}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _expand_home(arg: str) -> str:
    """Return an argument like `--index=~/x` with the user's home folder, which Bash expands only in `--index ~/x`."""
    option, _, value = arg.partition("=")
    return f"{option}={expand_home(value)}" if option.startswith("--") and value.startswith("~") else arg


def _complete_values(command: Any, args: list[str]) -> list[str]:
    """Give an option whose value may be left out (metavar in brackets) an empty one, unless NAME=VALUE follows it."""
    optional = {option for param in command.params if _is_bracketed(param.metavar or "") for option in param.opts}
    end = args.index("--") if "--" in args else len(args)
    return [
        f"{arg}=" if at < end and arg in optional and ("=" not in following or following.startswith("-")) else arg
        for at, (arg, following) in enumerate(zip(args, [*args, ""][1:], strict=True))
    ]


def _is_bracketed(metavar: str) -> bool:
    return metavar.startswith("[") and metavar.endswith("]")


def _load_command(point: EntryPoint) -> Any:
    """Import a command and return it as typer runs it. Raises the errors of `registry.load_plugin`."""
    from ragindex.cli.option_groups import GroupedCommand  # the list of commands needs no options

    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    single.command(point.name, cls=GroupedCommand)(_load_function(point))
    return typer.main.get_command(single)


def _load_function(point: EntryPoint) -> Any:
    if point.name in BUILT_IN:
        return point.load()
    from ragindex.plugins import registry  # takes long to import

    return registry.load_plugin("commands", point.name)


def run_cli() -> None:
    """Run the command line."""
    run_with_exit_codes(app)


if __name__ == "__main__":
    run_cli()
