"""The command line app: one module per command; other packages add commands by the entry points `ragindex.commands`."""

from typing import Annotated

import typer

from ragindex import distribution
from ragindex.cli.add import add
from ragindex.cli.ask import ask
from ragindex.cli.cache import cache
from ragindex.cli.console import print_note, run_with_exit_codes
from ragindex.cli.doctor import doctor
from ragindex.cli.index import index
from ragindex.cli.methods import methods
from ragindex.cli.parts import parts
from ragindex.cli.remove import remove
from ragindex.cli.repair import repair
from ragindex.cli.search import search
from ragindex.errors import RagindexError
from ragindex.plugins import registry

app = typer.Typer(
    name="ragindex",
    help="Which retriever should I use on my documents? Build several, compare them, use the best.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        found = distribution.find_distribution()
        typer.echo(f"{found.name} {found.version}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for command in (methods, index, search, ask, add, remove, parts, repair, cache, doctor):
    app.command(command.__name__)(command)


def register_commands(to: typer.Typer) -> None:
    """Add the commands of installed packages; skip those that fail to load, with a note."""
    known = {command.name for command in to.registered_commands}
    for name in registry.plugin_names("commands"):
        if name in known:
            continue
        try:
            to.command(name)(registry.load_plugin("commands", name))
        except RagindexError as error:
            print_note(f"skipped the command {name}: {error}")


def run_cli() -> None:
    """Run the command line."""
    run_with_exit_codes(_start)


def _start() -> None:
    register_commands(app)
    app()


if __name__ == "__main__":
    run_cli()
