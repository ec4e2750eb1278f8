"""Front matter: the metadata that a Markdown file may begin with, in YAML, TOML or JSON."""

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, time
from typing import Any, NamedTuple

import regex
import yaml

from ragindex.corpus.readers.text_encodings import ENCODING
from ragindex.types import HYPERLINKS, MetadataValue

_FRONT = regex.compile(
    r"---[ \t]*\n(?<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z) | \+\+\+[ \t]*\n(?<toml>.*?)^\+\+\+[ \t]*(?:\n|\Z)",
    regex.DOTALL | regex.MULTILINE | regex.VERBOSE,
)
_JSON = regex.compile(r"\{\s*+\"")
_SURROGATE = regex.compile(r"\p{Cs}")
_MOST_CHARACTERS, _MOST_KEYS = 20_000, 100
_INTEGERS_BELOW = 2**63
_OURS = {"source": "author_source", "modified": "author_modified"}  # keys of each document of a folder


class FrontMatter(NamedTuple):
    """The title of a text ("": it has none), its metadata, the rest of it, and what of it could not be read."""

    title: str
    metadata: Mapping[str, MetadataValue]
    text: str
    notes: tuple[str, ...] = ()


def split_front_matter(text: str) -> FrontMatter:
    """Return the front matter of a text and the rest. What cannot be read is no front matter; a note says why.

    Example:
        assert split_front_matter("+++\\ntitle = 'Tides'\\n+++\\nEly") == ("Tides", {}, "Ely", ())
    """
    try:
        fields, title, end = _read_fields(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: JSON, TOML, a date that is none
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())[:120]
        return FrontMatter("", {}, text, (f"its front matter cannot be read and stays in the text: {reason}",))
    if not fields:
        return FrontMatter("", {}, text)
    return FrontMatter(" ".join(title.split()), make_metadata(fields), text[end:].lstrip("\n"))


def make_metadata(fields: Mapping[Any, Any]) -> dict[str, MetadataValue]:
    """Return metadata of an author's fields except `title`: texts, numbers, truth values and lists of these.

    Dates are texts, and other values are left out. `source` and `modified`, which are the file's, are written
    `author_source` and `author_modified`.
    """
    values = {_OURS.get(name, name): value for name, value in _list_values(fields)}
    return {name: value for name, value in values.items() if name not in ("title", HYPERLINKS, ENCODING)}


def _read_fields(text: str) -> tuple[dict[Any, Any], str, int]:
    """Return the fields (none: no front matter), the title as it is written, and the end of the front matter."""
    if _JSON.match(text):
        fields, end = json.JSONDecoder().raw_decode(text[:_MOST_CHARACTERS])
        return fields, _write_scalar(fields.get("title")), end
    match = _FRONT.match(text)
    if match is None:
        return {}, "", 0
    source = match["yaml"] if match["toml"] is None else match["toml"]
    if len(source) > _MOST_CHARACTERS:
        raise ValueError(f"it has more than {_MOST_CHARACTERS:,} characters")
    if match["toml"] is not None:
        fields = tomllib.loads(source)
        return fields, _write_scalar(fields.get("title")), match.end()
    fields = yaml.safe_load(source)
    if not isinstance(fields, dict):  # a rule, and text up to the next one
        return {}, "", 0
    title = fields.get("title")
    if title is not None and not isinstance(title, str):
        title = yaml.BaseLoader(source).get_single_data()["title"]  # as it is written: 3.10 is not 3.1
    return fields, _write_scalar(title), match.end()


def _write_scalar(value: object) -> str:
    plain = _make_plain(value)
    return "" if plain is None else str(plain)


def _list_values(fields: Mapping[Any, Any]) -> Iterator[tuple[str, MetadataValue]]:
    for key, value in list(fields.items())[:_MOST_KEYS]:
        name = _make_plain(key)
        if name is None:
            continue
        if isinstance(value, list):
            yield str(name), [plain for item in value if (plain := _make_plain(item)) is not None]
        elif (single := _make_plain(value)) is not None:
            yield str(name), single


def _make_plain(value: object) -> str | int | float | bool | None:
    """Return a value that JSON and UTF-8 can hold, else None."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if abs(value) < _INTEGERS_BELOW else None
    return value if isinstance(value, str) and not _SURROGATE.search(value) else None
