"""The docstring and parameters of a plugin, with types, bounds and defaults in the syntax of specifications."""

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from ragindex.plugins import registry

_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_PLUGINS = {registry.scheme: "method", registry.part: "part", registry.encoder: "encoder", registry.store: "store"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a plugin. `default` is written as in a specification, None if required; `value` is its JSON."""

    name: str
    type: str
    default: str | None
    value: Any
    description: str


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
