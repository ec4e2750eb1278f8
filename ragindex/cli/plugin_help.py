"""A plugin's parameters as a person writes them: what each one is, and its default."""

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
    """`default` is as it is written, None where there is none; `value` is the default as JSON has it."""

    name: str
    type: str
    default: str | None
    value: Any
    description: str


def description(plugin: type[BaseModel]) -> str:
    """What the plugin says about itself."""
    return inspect.cleandoc(plugin.__doc__ or "")


def parameters(plugin: type[BaseModel]) -> list[Parameter]:
    """The parameters in the order of the class."""
    return [_parameter(name, field, _says(plugin, name)) for name, field in plugin.model_fields.items()]


def _says(plugin: type[BaseModel], name: str) -> str:
    """The description of a field: its own, or of the class whose default it changes."""
    fields = (one.model_fields.get(name) for one in plugin.__mro__ if issubclass(one, BaseModel))
    return next((field.description for field in fields if field and field.description), "")


def _parameter(name: str, field: FieldInfo, says: str) -> Parameter:
    kind = _kind(field.annotation, field.metadata)
    if field.is_required():
        return Parameter(name, kind, None, None, says)
    default = field.get_default(call_default_factory=True)
    return Parameter(name, kind, _written(default), _value(default), says)


def _kind(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """A type with its bounds, in words."""
    plugins = [_PLUGINS[one.func] for one in metadata if isinstance(one, BeforeValidator) and one.func in _PLUGINS]
    bounds = [f"{sign} {getattr(one, key)}" for one in metadata for key, sign in _BOUNDS.items() if hasattr(one, key)]
    return ", ".join([plugins[0] if plugins else _name(annotation), *bounds])


def _name(annotation: Any) -> str:
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _kind(inner[0], inner[1:])
    if get_origin(annotation) is Literal:
        return " | ".join(map(str, inner))
    if get_origin(annotation) in (tuple, list):
        return f"[{_name(inner[0])}, …]"
    if inner:
        return " | ".join(map(_name, inner))
    return "null" if annotation is type(None) else str(getattr(annotation, "__name__", annotation))


def _written(value: Any) -> str:
    if isinstance(value, BaseModel):
        return registry.label(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_written, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def _value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return registry.describe(value)
    return list(map(_value, value)) if isinstance(value, tuple | list) else value
