"""Pictures inside of a Markdown text, as addresses of their own bytes (`data:image/png;base64,…`)."""

import html
from bisect import bisect_right
from operator import itemgetter

import regex

from ragindex.corpus.readers.content import Blocks

_PICTURE = regex.compile(
    r"""`[^`\n]++`
      | !\[(?<inline>[^\[\]]*+)\]\(\s*+<?data:[^\s)>]*+>?[^()\n]*+\)
      | !\[(?<labelled>[^\[\]]*+)\](?:\[(?<label>[^\[\]]*+)\])?+(?![\[(])
      | (?<element><img\b[^<>]*+>)
      | (?<definition>^[ ]{0,3}\[(?<name>[^\[\]\n]++)\]:[ \t]*+\n?[ \t]*+<?data:[^\s>]*+>?[^\n]*+\n?)""",
    regex.MULTILINE | regex.IGNORECASE | regex.VERBOSE,
)
_ADDRESS = regex.compile(r"\bsrc\s*+=\s*+[\"']?data:", regex.IGNORECASE)
_ALTERNATIVE = regex.compile(r"\balt\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))", regex.IGNORECASE)
_BYTES = regex.compile(r"(\bdata:[\w.+/-]{1,100}(?:;[\w=.-]{1,50})?;base64,)[A-Za-z0-9+/=%]{64,}+", regex.IGNORECASE)


def drop_pictures(text: str, code: Blocks = ()) -> str:
    """Return a Markdown text with the alternative texts of pictures that are inside of it, in their place.

    In `code`, and in other addresses, only the bytes are left out.

    Example:
        assert drop_pictures("A ![valve](data:image/png;base64,iVBORw0=) here") == "A valve here"
    """
    if "data:" not in text.lower():
        return text
    matches = [found for found in _PICTURE.finditer(text) if not _is_within(found.start(), code)]
    labels = {_fold(found["name"]) for found in matches if found["definition"]}
    pieces, above = list[str](), 0
    for found in matches:
        alternative = _read_alternative(found, labels)
        if alternative is not None:
            pieces += [text[above : found.start()], alternative]
            above = found.end()
    return str(_BYTES.sub(r"\1", "".join((*pieces, text[above:]))))


def _read_alternative(found: regex.Match[str], labels: set[str]) -> str | None:
    """Return the text that stands for what was found; None: it is no picture inside of the text."""
    if found["inline"] is not None or found["definition"]:
        return found["inline"] or ""
    if found["labelled"] is not None:
        return found["labelled"] if _fold(found["label"] or found["labelled"]) in labels else None
    if not found["element"] or not _ADDRESS.search(found["element"]):
        return None
    alternative = _ALTERNATIVE.search(found["element"])
    return html.unescape(next(filter(None, alternative.groups()), "")) if alternative else ""


def _is_within(place: int, spans: Blocks) -> bool:
    above = bisect_right(spans, place, key=itemgetter(0))
    return above > 0 and place < spans[above - 1][1]


def _fold(label: str) -> str:
    return " ".join(label.split()).casefold()
