"""Front matter: the metadata in YAML that a Markdown file may begin with, between two lines of three hyphens."""

import math
from collections.abc import Iterator
from datetime import date

import regex
import yaml

from ragindex.types import MetadataValue

_FRONT = regex.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", regex.DOTALL | regex.MULTILINE)
_SURROGATE = regex.compile(r"\p{Cs}")
_MOST_CHARACTERS, _MOST_KEYS = 20_000, 100
_INTEGERS_BELOW = 2**63


def split_front_matter(text: str) -> tuple[dict[str, MetadataValue], str]:
    """Return the front matter of a text and the rest; ({}, text) if it begins with none that can be read.

    Values are texts, numbers, truth values and lists of these; dates are texts, and others are left out.
    """
    found = _FRONT.match(text)
    if found is None or len(found[1]) > _MOST_CHARACTERS:
        return {}, text
    try:
        read = yaml.safe_load(found[1])
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: a date that is none
        return {}, text
    if not isinstance(read, dict) or not read:
        return {}, text
    return dict(_list_values(read)), text[found.end() :].lstrip("\n")


def _list_values(read: dict[object, object]) -> Iterator[tuple[str, MetadataValue]]:
    for key, value in list(read.items())[:_MOST_KEYS]:
        name = _make_plain(key)
        if name is None:
            continue
        if isinstance(value, list):
            yield str(name), [plain for one in value if (plain := _make_plain(one)) is not None]
        elif (single := _make_plain(value)) is not None:
            yield str(name), single


def _make_plain(value: object) -> str | int | float | bool | None:
    """Return a value that JSON and UTF-8 can hold, else None."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if abs(value) < _INTEGERS_BELOW else None
    return value if isinstance(value, str) and not _SURROGATE.search(value) else None
