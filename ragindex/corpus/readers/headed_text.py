"""Reader of AsciiDoc, Org and TeX: texts as they are, with headings."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import regex

from ragindex.corpus.readers.content import FileContent, clean_text, find_heading_paths
from ragindex.corpus.readers.text_encodings import decode_text, name_encoding


class _Markup(NamedTuple):
    """Patterns of one language.

    `heading` has the groups `level`, a run of marks or a name of `levels`, and `text`. `block` matches a table, or the
    first line of code or a table with the group `mark`, which ends with the line or command `end`.
    """

    heading: regex.Pattern[str]
    block: regex.Pattern[str]
    end: str
    title: regex.Pattern[str]
    levels: tuple[str, ...] = ()


def _compile(heading: str, block: str, end: str, title: str, levels: tuple[str, ...] = ()) -> _Markup:
    heads, blocks, titles = (regex.compile(pattern, regex.MULTILINE) for pattern in (heading, block, title))
    return _Markup(heads, blocks, end, titles, levels)


_TEX_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
_TEX_ARGUMENT = r"\{(?<text>(?:[^{}\\]|\\.|\{[^{}]*+\})*+)\}"
_ASCIIDOC = _compile(
    r"^(?<level>={1,6})[ \t]++(?<text>\S[^\n]*+)$",
    r"^(?<mark>-{4,}|\.{4,}|\|===)[ \t]*+$",
    r"^{mark}[ \t]*+$",
    r"\A\s*+=[ \t]++(?<text>\S[^\n]*+)",
)
_ORG = _compile(
    r"^(?<level>\*++)[ \t]++(?<text>\S[^\n]*+)$",
    r"^[ \t]*+(?:#\+(?i:begin)_(?<mark>\w++)[^\n]*+|\|[^\n]*+(?:\n[ \t]*+\|[^\n]*+)*+)",
    r"^[ \t]*+#\+(?i:end_{mark})\b",
    r"^#\+(?i:title):[ \t]*+(?<text>\S[^\n]*+)",
)
_TEX = _compile(
    rf"^[ \t]*+\\(?<level>{'|'.join(_TEX_LEVELS)})\b\*?(?:\[[^\]\n]*+\])?{_TEX_ARGUMENT}",
    r"\\begin\{(?<mark>(?:verbatim|lstlisting|minted|tabular|longtable)\*?)\}",
    r"\\end\{{{mark}\}}",
    rf"\\title(?:\[[^\]\n]*+\])?{_TEX_ARGUMENT}",
    _TEX_LEVELS,
)
_MARKUPS: Mapping[str, _Markup] = {".adoc": _ASCIIDOC, ".asciidoc": _ASCIIDOC, ".org": _ORG, ".tex": _TEX}


def read_headed_text(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a text as it is; its headings are those outside of code and tables, which are its blocks."""
    decoded, detected = decode_text(raw, path, encoding)
    text, markup = clean_text(decoded), _MARKUPS[path.suffix.lower()]
    blocks, headings, place = list[tuple[int, int]](), list[tuple[int, int, str]](), 0
    for start, end in (*_find_blocks(text, markup), (len(text), len(text))):
        for found in markup.heading.finditer(text, place, start):
            level = markup.levels.index(found["level"]) + 1 if markup.levels else len(found["level"])
            headings.append((found.start(), level, " ".join(found["text"].split())))
        blocks += [(start, end)] if start < end else []
        place = end
    title = markup.title.search(text)
    top = headings[0][2] if headings and not text[: headings[0][0]].strip() else ""
    return FileContent(
        " ".join(title["text"].split()) if title else top,
        text,
        find_heading_paths(headings),
        name_encoding(detected),
        tuple(blocks),
    )


def _find_blocks(text: str, markup: _Markup) -> Iterator[tuple[int, int]]:
    place, unclosed = 0, set[str]()
    while opening := markup.block.search(text, place):
        place, mark = opening.end(), opening["mark"]
        if mark is None:
            yield opening.end() - len(opening[0].lstrip()), place
        elif mark not in unclosed:
            pattern = markup.end.format(mark=regex.escape(mark))
            if end := regex.compile(pattern, regex.MULTILINE).search(text, place):
                place = end.end()
                yield (
                    opening.end() - len(opening[0].lstrip()),
                    opening.end() + len(text[opening.end() : place].rstrip()),
                )
            else:
                unclosed.add(mark)
