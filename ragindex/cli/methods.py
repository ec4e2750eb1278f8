"""The command `methods`: list the installed methods, or describe one plugin and its parameters."""

import inspect
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from ragindex._util.distribution import read_docstring
from ragindex.cli.console import escape_markup, print_note, stdout, text_table, write_result
from ragindex.cli.options import JsonOption
from ragindex.errors import UsageError
from ragindex.index.parts import require_working_default
from ragindex.plugins import registry
from ragindex.plugins.specs import Spec, parse_spec

_GROUPS: tuple[registry.PluginGroup, ...] = ("schemes", "encoders", "llms", "stores", "parts")


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A method, encoder, language model, store or part to describe.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """List the methods, or describe one method, encoder, language model, store or part with its parameters.

    Example: ragindex methods hybrid
    """
    if name is None:
        rows = list(_installed_methods())
        value = [dict(zip(("name", "summary", "distribution", "object"), row, strict=True)) for row in rows]
        cells = [(name, _add_owner(name, summary, owner)) for name, summary, owner, _ in rows]
        write_result(value, json, lambda: stdout().print(text_table(("method", "what it does"), cells)))
        return
    spec = parse_spec(name)
    described = [_describe(group, spec.name) for group in _find_groups(spec)]
    first, *others = [description.to_json() for description in described]
    write_result({**first, "others": others} if others else first, json, lambda: _show(described))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a plugin. `default` is written as in a specification, None if required; `value` is its JSON."""

    name: str
    type: str
    default: str | None
    value: Any
    description: str


@dataclass(frozen=True, slots=True)
class _Described:
    """A plugin as it is shown: its name, kind (method, encoder, …), docstring and parameters."""

    name: str
    kind: str
    doc: str
    parameters: list[Parameter]

    def to_json(self) -> dict[str, Any]:
        rows = [
            {"name": item.name, "type": item.type, "default": item.value, "description": item.description}
            for item in self.parameters
        ]
        return {"name": self.name, "kind": self.kind, "doc": self.doc, "parameters": rows}


def _describe(group: registry.PluginGroup, name: str) -> _Described:
    plugin = registry.load_plugin(group, name)
    if group == "schemes":
        require_working_default(name)
    return _Described(name, registry.kind_of(group), docstring(plugin), parameters(plugin))


def _show(described: Sequence[_Described]) -> None:
    for number, description in enumerate(described):
        kind = f" ({description.kind})" if len(described) > 1 else ""
        cells = [
            (item.name, item.type, "required" if item.default is None else item.default, item.description)
            for item in description.parameters
        ]
        before = "\n" if number else ""
        stdout().print(f"{before}[bold]{escape_markup(description.name)}[/]{kind}: {escape_markup(description.doc)}\n")
        stdout().print(text_table(("parameter", "type", "default", "description"), cells))


def _find_groups(spec: Spec) -> list[registry.PluginGroup]:
    """Return the groups of the plugins of this name; `schemes` if there is none, which then says so.

    With parameters, only those that take them. Raises UsageError if none does.
    """
    groups = [group for group in _GROUPS if spec.name in registry.plugin_names(group)] or ["schemes"]
    if not (spec.params or spec.argument):
        return groups
    fitting, errors = list[registry.PluginGroup](), list[UsageError]()
    for group in groups:
        try:
            registry.create(group, spec)
        except UsageError as error:
            errors.append(error)
        else:
            fitting.append(group)
    if not fitting:
        raise errors[0]
    return fitting


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


_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_PLUGINS = {registry.scheme: "method", registry.part: "part", registry.encoder: "encoder", registry.store: "store"}


def docstring(plugin: type[BaseModel]) -> str:
    """Return the plugin's docstring, dedented."""
    return inspect.cleandoc(plugin.__doc__ or "")


def parameters(plugin: type[BaseModel]) -> list[Parameter]:
    """Return the parameters in the order of the class's fields."""
    return [
        _build_parameter(name, field, _find_description(plugin, name)) for name, field in plugin.model_fields.items()
    ]


def _find_description(plugin: type[BaseModel], name: str) -> str:
    """Return the description of a field: its own, or the one it inherits from a base class."""
    fields = (base.model_fields.get(name) for base in plugin.__mro__ if issubclass(base, BaseModel))
    return next((field.description for field in fields if field and field.description), "")


def _build_parameter(name: str, field: FieldInfo, description: str) -> Parameter:
    kind = _format_type(field.annotation, field.metadata)
    if field.is_required():
        return Parameter(name, kind, None, None, description)
    default = field.get_default(call_default_factory=True)
    return Parameter(name, kind, _format_value(default), _to_json(default), description)


def _format_type(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """Format a type with its bounds."""
    plugins = [_PLUGINS[item.func] for item in metadata if isinstance(item, BeforeValidator) and item.func in _PLUGINS]
    bounds = [
        f"{sign} {getattr(item, key)}" for item in metadata for key, sign in _BOUNDS.items() if hasattr(item, key)
    ]
    return ", ".join([plugins[0] if plugins else _format_annotation(annotation), *bounds])


def _format_annotation(annotation: Any) -> str:
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _format_type(inner[0], inner[1:])
    if get_origin(annotation) is Literal:
        return " | ".join(map(str, inner))
    if get_origin(annotation) is dict:
        return "mapping"
    if get_origin(annotation) in (tuple, list):
        return f"[{_format_annotation(inner[0])}, …]"
    if inner:
        return " | ".join(map(_format_annotation, inner))
    return "null" if annotation is type(None) else str(getattr(annotation, "__name__", annotation))


def _format_value(value: Any) -> str:
    if isinstance(value, BaseModel):
        return registry.label(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_format_value, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def _to_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return registry.describe(value)
    return list(map(_to_json, value)) if isinstance(value, tuple | list) else value
