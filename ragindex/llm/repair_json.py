"""Repair of broken JSON, in bounded time."""

from typing import Any, SupportsIndex

import json_repair
import regex

_LONGEST = 65_536  # characters; what is longer was never one answer
_DEEPEST = 64  # levels of brackets
_MOST_LOOKS = 1_000_000
_LOOK = 64  # characters seen at one look
_SLIP = regex.compile(r"""\"(?:[^"\\]|\\.)*+(?:"|\Z)|[()]|,(?=\s*+[\])}])""", regex.DOTALL)
_MENDED = {"(": "[", ")": "]", ",": ""}
_NO_VALUE = regex.compile(r"""["']\s*+:\s*+(?:[,}\])]|\Z)""")
_BRACKET = regex.compile(r"[\[({]|[\])}]")


def repair_text(text: str) -> Any:
    """What json_repair makes of a text that begins with a bracket.

    None where that would take long, and where a key has no value: an empty one would be made up.
    """
    if len(text) > _LONGEST or _NO_VALUE.search(text) or _depth(text) > _DEEPEST:
        return None
    try:
        return json_repair.loads(_Metered(text), skip_json_loads=True)
    except (ValueError, RecursionError, _TooMuchError):
        return None


def normalize_brackets(text: str) -> str:
    """The text with tuples in parentheses as lists and without commas before a closing bracket, strings untouched."""
    return _SLIP.sub(lambda slip: _MENDED.get(slip.group(), slip.group()), text)


class _TooMuchError(Exception):
    """Repairing takes too long."""


class _Metered(str):
    """A text that lets itself be looked at a million times: json_repair takes quadratic time for some."""

    left = _MOST_LOOKS

    def __getitem__(self, index: SupportsIndex | slice) -> str:
        seen = super().__getitem__(index)
        self.left -= 1 + len(seen) // _LOOK
        if self.left < 0:
            raise _TooMuchError
        return seen


def _depth(text: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.finditer(text):
        depth = depth + 1 if bracket.group() in "[({" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest
