"""The command `methods`: list the installed methods, or describe one plugin and its parameters."""

from collections.abc import Iterator
from typing import Annotated

import typer

from ragindex.cli.console import escape_markup, print_note, stdout, text_table, write_result
from ragindex.cli.options import JsonOption
from ragindex.cli.plugin_help import docstring, parameters
from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex.plugins.docstrings import read_docstring
from ragindex.plugins.specs import parse_spec

_GROUPS: tuple[registry.PluginGroup, ...] = ("schemes", "encoders", "stores", "parts")


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A method, encoder, store or part to describe.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """List the methods, or describe one method, encoder, store or part with its parameters.

    Example: ragindex methods hybrid
    """
    if name is None:
        rows = list(_installed_methods())
        value = [dict(zip(("name", "summary", "distribution", "object"), row, strict=True)) for row in rows]
        cells = [(name, _add_owner(name, summary, owner)) for name, summary, owner, _ in rows]
        write_result(value, json, lambda: stdout().print(text_table(("method", "what it does"), cells)))
        return
    spec = parse_spec(name)
    group, name = _find_group(spec.name), spec.name
    if spec.params or spec.argument:  # check the parameters of a full specification too
        registry.create(group, spec)
    plugin = registry.load_plugin(group, name)
    described = parameters(plugin)

    def show() -> None:
        cells = [
            (item.name, item.type, "required" if item.default is None else item.default, item.description)
            for item in described
        ]
        stdout().print(f"[bold]{escape_markup(name)}[/]: {escape_markup(docstring(plugin))}\n")
        stdout().print(text_table(("parameter", "type", "default", "description"), cells))

    rows_json = [
        {"name": item.name, "type": item.type, "default": item.value, "description": item.description}
        for item in described
    ]
    write_result({"name": name, "doc": docstring(plugin), "parameters": rows_json}, json, show)


def _installed_methods() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, summary, distribution and object of every method; skip those that fail to load, with a note."""
    for name in registry.plugin_names("schemes"):
        try:
            point = registry.entry("schemes", name)
            described = read_docstring(point) or docstring(registry.load_plugin("schemes", name))
        except UsageError as error:
            print_note(f"skipped: {error}")
        else:
            summary = " ".join(described.partition("\n\n")[0].split())
            yield name, summary, point.dist.name if point.dist else "", point.value


def _add_owner(name: str, summary: str, owner: str) -> str:
    return summary if registry.is_ours("schemes", name) else f"{summary} (from {owner})"


def _find_group(name: str) -> registry.PluginGroup:
    """Return the first plugin group that has this name; `schemes` if none has it."""
    return next((group for group in _GROUPS if name in registry.plugin_names(group)), "schemes")
