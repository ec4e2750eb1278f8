"""Conversion of JSON in known other forms into the form of an output type.

The known forms are: a list instead of the object that should contain it, a single item instead of a list, keys in the
singular or in another spelling, an object with numbered keys or a string instead of a list, a list of values instead
of an object, and an object nested in another object.
"""

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import regex
from pydantic import BaseModel, ValidationError

from ragindex.llm.repair_json import repair_text

_LISTS = (list, set, frozenset, Sequence)
_NUMBERED_KEY = regex.compile(r"[A-Za-z]{0,20}_?\d{1,6}")
_BULLET = regex.compile(r"^\s*(?:[-*•]|\d{1,4}[.)])\s+")
# Keys under which nothing is an answer.
_THOUGHTS = frozenset({"reasoning_content", "reasoning", "thinking", "thoughts"})
_WORD = regex.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|[^\W_]+")
_SEPARATORS = ("|", ";", "\t", ",")
_QUOTED_LIST = regex.compile(r"""\s*[\[(]\s*[\[(]?\s*["']""")
_GROUP = regex.compile(r"[(\[]([^()\[\]]{1,2000})[)\]]")
_LONGEST_WRITTEN = 10_000  # characters of a string that is read as a list


def reshape(value: Any, kind: Any) -> Any:
    """Convert `value` to the form of the type `kind` if a known form is recognized; validation refuses the rest."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return reshape(value, arguments[0])
    if origin in (Union, UnionType):
        others = [argument for argument in arguments if argument is not NoneType]
        return None if value is None and len(others) < len(arguments) else reshape(value, others[0])
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _as_object(value, kind)
    if _is_list(kind):
        return _as_list(value, arguments[0] if arguments else str)
    if origin is tuple:
        return _as_tuple(value, arguments)
    return _as_text(value) if kind is str else value


def _as_text(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 1:
        return _as_text(value[0])
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


# ---------------------------------------------------------------- objects


def _as_object(value: Any, kind: type[BaseModel]) -> Any:
    fields = {info.alias or name: info.annotation for name, info in kind.model_fields.items()}
    if isinstance(value, str):
        value = _split_values(value, len(fields)) if len(fields) > 1 else dict.fromkeys(fields, value)
    if isinstance(value, list):
        value = _convert_list(value, fields, kind)
    if not isinstance(value, Mapping):
        return value
    known = {field: item for key, item in value.items() if (field := _find_field(key, fields)) is not None}
    if not known and len(value) == 1:
        ((key, inside),) = value.items()
        nested = inside and isinstance(inside, Mapping | list) and key not in _THOUGHTS
        return _as_object(inside, kind) if nested else value
    return {key: reshape(item, fields[key]) for key, item in known.items()} if known else value


def _convert_list(value: list[Any], fields: Mapping[str, Any], kind: type[BaseModel]) -> Any:
    """Return an object with the values as its fields, or with the list as its only list field."""
    if len(value) == 1 and isinstance(value[0], Mapping) and any(_find_field(key, fields) for key in value[0]):
        return value[0]
    lists = [name for name, annotation in fields.items() if _is_list(annotation)]
    if not lists and len(value) == len(fields) > 1 and not any(isinstance(item, list | Mapping) for item in value):
        return dict(zip(fields, value, strict=True))
    if len(lists) > 1 and value:
        lists = [name for name in lists if _fits({name: reshape(value, fields[name])}, kind)]
    return {lists[0]: value} if len(lists) == 1 else value


def _fits(value: Mapping[str, Any], kind: type[BaseModel]) -> bool:
    try:
        kind.model_validate(value)
    except (ValidationError, RecursionError):
        return False
    return True


def _find_field(key: Any, fields: Mapping[str, Any]) -> str | None:
    """Return the field that a key names, ignoring case, separators and plural; None if there is not exactly one."""
    if key in fields:
        return str(key)
    same = [name for name in fields if _stem(name) == _stem(str(key))]
    return same[0] if len(same) == 1 else None


def _stem(name: str) -> str:
    joined = "_".join(_WORD.findall(name[:100])).casefold()
    if joined.endswith("ies"):
        return f"{joined[:-3]}y"
    return joined[:-1] if joined.endswith("s") and not joined.endswith("ss") else joined


# ---------------------------------------------------------------- lists


def _is_list(kind: Any) -> bool:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _is_list(arguments[0])
    return kind in _LISTS or origin in _LISTS or (origin is tuple and arguments[-1:] == (...,))


def _as_list(value: Any, kind: Any) -> Any:
    items = _list_items(value, kind)
    return [reshape(item, kind) for item in items] if isinstance(items, list) else items


def _list_items(value: Any, kind: Any) -> Any:
    if value is None:
        return []
    if isinstance(value, str):
        value = _split_list(value, kind)
    if isinstance(value, Mapping):
        numbered = value and all(_NUMBERED_KEY.fullmatch(str(key)) for key in value)
        return list(value.values()) if numbered else [value]
    if not isinstance(value, list):
        return [value]
    width = _item_width(kind)
    alone = width is not None and len(value) == width and not any(isinstance(v, list | Mapping) for v in value)
    return [value] if alone and not any(_splits(item, width) for item in value) else value


def _splits(item: Any, width: int | None) -> bool:
    return isinstance(item, str) and width is not None and isinstance(_split_values(item, width), list)


def _item_width(kind: Any) -> int | None:
    """Return the number of values in an item; None if an item is a single value or has no fixed number."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return len(kind.model_fields) if len(kind.model_fields) > 1 else None
    arguments = get_args(kind)
    return len(arguments) if get_origin(kind) is tuple and arguments[-1:] != (...,) else None


def _as_tuple(value: Any, kinds: tuple[Any, ...]) -> Any:
    if isinstance(value, str):
        value = _split_values(value, len(kinds))
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list) or len(value) != len(kinds):
        return value
    return [reshape(item, kind) for item, kind in zip(value, kinds, strict=True)]


# ---------------------------------------------------------------- lists written as strings


def _split_list(text: str, kind: Any) -> list[Any]:
    """Parse a list written as one string: as JSON, lines, or parts between separators."""
    if (inside := _parse_brackets(text)) is not None:
        return inside
    if _item_width(kind) is not None and (groups := _GROUP.findall(text)):
        return list(groups)
    text = text.strip().strip("()[]")
    lines = [stripped for line in text.split("\n") if (stripped := _BULLET.sub("", line).strip())]
    if len(lines) > 1 or _item_width(kind) is not None:
        return lines
    separator = next((mark for mark in (";", "|", ",") if mark in text), None)
    parts = text.split(separator) if separator else lines
    return [stripped for part in parts if (stripped := part.strip())]


def _split_values(text: str, count: int) -> Any:
    """Parse `count` values written as one string; return the string itself if their number differs."""
    inside = _parse_brackets(text)
    if inside is not None and len(inside) == count:
        return inside
    bare = text.strip().strip("()[]")
    for mark in _SEPARATORS if count > 1 else ():
        parts = [part.strip().strip("\"'") for part in bare.split(mark)]
        if len(parts) == count and all(parts):
            return parts
    return text


def _parse_brackets(text: str) -> list[Any] | None:
    if not _QUOTED_LIST.match(text) or len(text) > _LONGEST_WRITTEN:
        return None
    value = repair_text(f"[{text}]")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        return value[0]
    return value if isinstance(value, list) else None
