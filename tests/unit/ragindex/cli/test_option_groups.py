"""Groups of options: one parameter of a command for several options, and help by group."""

import ast
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from ragindex._util.distribution import entry_points
from ragindex.cli.main import BUILT_IN, point_to
from ragindex.cli.option_groups import GroupedCommand, group_of, with_groups


@dataclass(frozen=True)
class Reading:
    format: Annotated[str | None, typer.Option("--format", metavar="F", help="The format.")] = None
    pages: Annotated[int, typer.Option("--pages", min=1, help="The pages.")] = 3


def run(*arguments: str, charset: str = "utf-8") -> tuple[int, str]:
    app, seen = typer.Typer(rich_markup_mode=None), list[object]()

    @with_groups
    def show(
        data: Annotated[str, typer.Argument(help="The data.")],
        reading: Annotated[Reading, group_of(Reading, "Documents")],
        loud: Annotated[bool, typer.Option("--loud", help="Loudly.")] = False,
    ) -> None:
        """Show."""
        seen.append((data, reading, loud))
        typer.echo(repr(seen[0]))

    app.command(cls=GroupedCommand)(show)
    result = CliRunner(charset=charset).invoke(app, list(arguments))
    return result.exit_code, result.output


def test_command_gets_one_value_for_each_group() -> None:
    assert run("x", "--pages", "7", "--loud") == (0, "('x', Reading(format=None, pages=7), True)\n")
    assert run("x") == (0, "('x', Reading(format=None, pages=3), False)\n")
    code, output = run("x", "--pages", "0")
    assert (code, "--pages" in output) == (2, True)


def test_help_has_a_panel_for_each_group() -> None:
    _, output = run("--help")
    assert re.findall("╭─ (.+?) ─", output) == ["Arguments", "Options", "Documents"]
    own, grouped = output.split("─ Options ─")[1].split("─ Documents ─")
    assert ("--loud" in own, "--help" in own, "--format" in own) == (True, True, False)
    assert ("--format F" in grouped, "--pages" in grouped) == (True, True)


def test_help_draws_its_panels_in_ascii_where_the_output_is_no_utf_8() -> None:
    _, output = run("--help", charset="ascii")
    assert output.isascii()
    assert "+- Documents -" in output
    assert "| --format F" in output


def functions() -> list[tuple[str, ast.FunctionDef]]:
    """The functions of all commands."""
    places = [(point.module, point.attr) for point in entry_points(group="ragindex.commands")]
    places += [(point.module, point.attr) for point in map(point_to, BUILT_IN)]
    functions_by_place = []
    for module, name in places:
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                functions_by_place.append((f"{module}:{name}", node))
    assert len(functions_by_place) == len(places)
    return functions_by_place


@pytest.mark.parametrize(("place", "function"), functions())
def test_no_command_has_more_than_ten_parameters_or_reads_its_variables(place: str, function: ast.FunctionDef) -> None:
    arguments = function.args
    assert len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]) <= 10, place
    assert (arguments.vararg, arguments.kwarg) == (None, None), place
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    assert names.isdisjoint({"locals", "vars", "Context"}), place
