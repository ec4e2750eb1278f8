"""Repair of broken JSON in bounded time."""

from typing import Any, SupportsIndex

import json_repair
import regex

_MAX_LENGTH = 65_536  # characters; longer texts are not a single answer
_MAX_DEPTH = 64  # nested brackets
_MAX_LOOKUPS = 1_000_000
_LOOKUP_LENGTH = 64  # characters that count as one look
_SYNTAX_SLIP = regex.compile(r"""\"(?:[^"\\]|\\.)*+(?:"|\Z)|[()]|,(?=\s*+[\])}])""", regex.DOTALL)
_REPLACEMENTS = {"(": "[", ")": "]", ",": ""}
_NO_VALUE = regex.compile(r"""["']\s*+:\s*+(?:[,}\])]|\Z)""")
_BRACKET = regex.compile(r"[\[({]|[\])}]")


def repair_text(text: str) -> Any:
    """Return the value that json_repair reads from a text that begins with a bracket.

    Return None if the repair fails or would take too long, or if a key has no value, which json_repair would invent.
    """
    if len(text) > _MAX_LENGTH or _NO_VALUE.search(text) or _measure_depth(text) > _MAX_DEPTH:
        return None
    try:
        return json_repair.loads(_MeteredText(text), skip_json_loads=True)
    except (ValueError, RecursionError, _TooMuchError):
        return None


def normalize_brackets(text: str) -> str:
    """Replace parentheses by square brackets and remove trailing commas, except inside strings."""
    return _SYNTAX_SLIP.sub(lambda slip: _REPLACEMENTS.get(slip.group(), slip.group()), text)


class _TooMuchError(Exception):
    """The repair takes too long."""


class _MeteredText(str):
    """String that allows a million lookups, because json_repair takes quadratic time for some texts."""

    left = _MAX_LOOKUPS

    def __getitem__(self, index: SupportsIndex | slice) -> str:
        seen = super().__getitem__(index)
        self.left -= 1 + len(seen) // _LOOKUP_LENGTH
        if self.left < 0:
            raise _TooMuchError
        return seen


def _measure_depth(text: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.finditer(text):
        depth = depth + 1 if bracket.group() in "[({" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest
