"""What of a Markdown text is not shown: comments, and pictures as addresses of their own bytes (`data:image/png;…`)."""

import html
from bisect import bisect_right
from operator import itemgetter

import regex

from ragindex.corpus.readers.content import Blocks

_HIDDEN = regex.compile(
    r"""`[^`\n]++`
      | (?<comment><!--)
      | !\[(?<inline>[^\[\]]*+)\]\(\s*+<?data:[^\s)>]*+>?[^()\n]*+\)
      | !\[(?<labelled>[^\[\]]*+)\](?:\[(?<label>[^\[\]]*+)\])?+(?![\[(])
      | (?<element><img\b(?=[^<>]*?\bsrc\s*+=\s*+["']?data:)[^<>]*+>)
      | (?<definition>^[ ]{0,3}\[(?<name>[^\[\]\n]++)\]:[ \t]*+\n?[ \t]*+<?data:[^\s>]*+>?[^\n]*+\n?)""",
    regex.MULTILINE | regex.IGNORECASE | regex.VERBOSE,
)
_ALTERNATIVE = regex.compile(r"\balt\s*+=\s*+(?|\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))", regex.IGNORECASE)
_BYTES = regex.compile(r"(\bdata:[\w.+/-]{1,100}(?:;[\w=.-]{1,50})?;base64,)[A-Za-z0-9+/=%]{64,}+", regex.IGNORECASE)


def drop_hidden(text: str, code: Blocks = ()) -> str:
    """Return a Markdown text without comments, and with the alternative texts of pictures inside of it in their place.

    In `code`, and in other addresses, only the bytes are left out. A comment that is never closed is text.

    Example:
        assert drop_hidden("A ![valve](data:image/png;base64,iVBORw0=) here") == "A valve here"
    """
    labels = {_fold(match["name"]) for match in _HIDDEN.finditer(text) if match["definition"]}
    pieces, above, place = list[str](), 0, 0
    while match := _HIDDEN.search(text, place):
        block = code[bisect_right(code, match.start(), key=itemgetter(0)) - 1] if code else (0, 0)
        place = match.end()
        if block[0] <= match.start() < block[1]:
            place = max(place, block[1])
            continue
        shown = _show(match, labels)
        if match["comment"]:
            place = text.find("-->", place) + len("-->")
            if place < match.end():
                break
        if shown is not None:
            pieces += [text[above : match.start()], shown]
            above = place
    return str(_BYTES.sub(r"\1", "".join((*pieces, text[above:]))))


def _show(match: regex.Match[str], labels: set[str]) -> str | None:
    """Return what stands for what was found; None: it is shown."""
    if match["labelled"] is not None:
        return match["labelled"] if _fold(match["label"] or match["labelled"]) in labels else None
    if match["element"]:
        alternative = _ALTERNATIVE.search(match["element"])
        return html.unescape(alternative[1]) if alternative else ""
    return match["inline"] or "" if match.lastgroup else None


def _fold(label: str) -> str:
    return " ".join(label.split()).casefold()
