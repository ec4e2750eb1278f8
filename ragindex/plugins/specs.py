"""The syntax of plugins: `name`, `name:argument`, `name(param=value, …)`, or `{"name": …, "params": {…}}`.

Values are JSON scalars, bare names, web addresses, paths with a slash, lists `[…]`, mappings `{key: value}` (so any
JSON) and nested calls, as in `hybrid(bases=[bm25, dense(over=passages)])`, `evidence(weights=./weights.json)` and
`openai(model=qwen3, extra={chat_template_kwargs: {enable_thinking: false}})`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import regex

from ragindex.errors import UsageError

SpecValue: TypeAlias = "str | int | float | bool | list[SpecValue] | dict[str, SpecValue] | Spec | None"

_NAME = regex.compile(r"[\p{L}_][\w.\-]*")
_ADDRESS = regex.compile(r"https?://[\w.~:/@!$&*+;=?%#\-]+")
_PATH = regex.compile(r"[\w.~@+\-]*/[\w.~@+:/#%\-]+")
_NUMBER = regex.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?(?![\w.])")
_STRING = regex.compile(r'"(?:[^"\\]|\\.)*"')
_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
_MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Spec:
    """A plugin's name and its parameters. `argument` is the text after `name:`."""

    name: str
    params: Mapping[str, SpecValue] = field(default_factory=dict)
    argument: str | None = None


class _Reader:
    """A recursive-descent parser with a cursor over one specification."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def error(self, expected: str) -> UsageError:
        rest = self.text[self.at : self.at + 30] or "the end"
        return UsageError(
            f"{self.text!r} cannot be read: at character {self.at + 1}, expected {expected}; found {rest!r}."
        )

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take(self, literal: str) -> bool:
        self.skip()
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def match(self, pattern: "regex.Pattern[str]") -> str | None:
        self.skip()
        match = pattern.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return str(match.group())

    def name(self, expected: str) -> str:
        name = self.match(_NAME)
        if name is None:
            raise self.error(expected)
        return name

    def call(self) -> Spec:
        name = self.name("a name")
        return Spec(name, self.parameters()) if self.take("(") else Spec(name)

    def parameters(self) -> dict[str, SpecValue]:
        return self.pairs("parameter", "=", ")")

    def pairs(self, what: str, sign: str, end: str) -> dict[str, SpecValue]:
        values: dict[str, SpecValue] = {}
        while not self.take(end):
            if values and not self.take(","):
                raise self.error(f"',' or {end!r}")
            quoted = self.match(_STRING) if what == "key" else None
            key = str(json.loads(quoted)) if quoted is not None else self.name(f"a {what}'s name")
            if key in values:
                raise self.error(f"each {what} once, but {key!r} stands twice")
            if not self.take(sign):
                raise self.error(f"{sign!r} after {key!r}")
            values[key] = self.value()
        return values

    def value(self) -> SpecValue:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error(f"at most {_MAX_DEPTH} levels of nesting")
        try:
            if self.take("{"):
                return self.pairs("key", ":", "}")
            return self.list() if self.take("[") else self.scalar()
        finally:
            self.depth -= 1

    def list(self) -> "list[SpecValue]":
        items: list[SpecValue] = []
        while not self.take("]"):
            if items and not self.take(","):
                raise self.error("',' or ']'")
            items.append(self.value())
        return items

    def scalar(self) -> SpecValue:
        if (text := self.match(_STRING)) is not None:
            return str(json.loads(text))
        if (address := self.match(_ADDRESS) or self.match(_PATH)) is not None:
            return address
        if (number := self.match(_NUMBER)) is not None:
            return json.loads(number)  # type: ignore[no-any-return]  # the pattern is a JSON number
        spec = self.call()
        if spec.params:
            return spec
        return _CONSTANTS.get(spec.name, spec.name)


def parse_spec(text: str) -> Spec:
    """Parse one specification. Raises UsageError with the position of the first error."""
    head, colon, argument = text.partition(":")
    if colon and _NAME.fullmatch(head.strip()):
        return Spec(head.strip(), argument=argument)
    reader = _Reader(text)
    spec = reader.call()
    reader.skip()
    if reader.at < len(text):
        raise reader.error("the end")
    return spec


def parse_many(text: str) -> list[Spec]:
    """Parse specifications separated by commas, as in `bm25,gear(base=hybrid)`. Raises UsageError."""
    reader = _Reader(text)
    calls = [reader.call()]
    while reader.take(","):
        calls.append(reader.call())
    reader.skip()
    if reader.at < len(text):
        raise reader.error("',' or the end")
    return calls


def render_spec(spec: Spec) -> str:
    """Format a specification as text that `parse_spec` can read, unless a nested plugin has an `argument`."""
    if spec.argument is not None:
        return f"{spec.name}:{spec.argument}"
    inner = ", ".join(f"{key}={_render_value(value)}" for key, value in spec.params.items())
    return f"{spec.name}({inner})" if inner else spec.name


def _render_value(value: SpecValue) -> str:
    if isinstance(value, Spec):
        return render_spec(value)
    if isinstance(value, list):
        return "[" + ", ".join(_render_value(item) for item in value) + "]"
    if isinstance(value, dict):
        keys = {key: key if _NAME.fullmatch(key) else json.dumps(key, ensure_ascii=False) for key in value}
        return "{" + ", ".join(f"{keys[key]}: {_render_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str) and (_NAME.fullmatch(value) or _ADDRESS.fullmatch(value)) and value not in _CONSTANTS:
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)
