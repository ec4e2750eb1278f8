"""Readers of Markdown, reStructuredText and notebooks: texts with headings."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import regex

from ragindex.corpus.json_reader import decode_utf8
from ragindex.corpus.readers.content import FileContent, clean_text, find_heading_paths
from ragindex.corpus.readers.front_matter import split_front_matter
from ragindex.corpus.readers.markdown_blocks import find_fences, find_markdown_blocks
from ragindex.corpus.readers.rst_blocks import find_rst_blocks
from ragindex.corpus.readers.text_encodings import ENCODING, decode_text, name_encoding
from ragindex.errors import DataError
from ragindex.types import HYPERLINKS, Section

_HEADING = regex.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_UNDERLINE = regex.compile(r" {0,3}(?:(=+)|-+)[ \t]*")
_ITEM = regex.compile(r"\s*(?:[-*+>]|\d+[.)])(?:\s|$)")  # a line below is no underline of it
_ANCHOR = regex.compile(r"[ \t]*\{#[^{}\n]*\}[ \t]*$")
_COMMENT = regex.compile(  # or code, which the first group matches
    r"""(^[ ]{0,3}(`{3,}|~{3,})[^\n]*+ (?:\n(?![ ]{0,3}\2)[^\n]*+)*+ (?:\n[ ]{0,3}\2[^\n]*+)?+ | `[^`\n]++`)
        | <!--(?s:.*?)-->""",
    regex.MULTILINE | regex.VERBOSE,
)
_LINK = regex.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_RST_UNDERLINE = regex.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*")  # a line of one repeated mark
_SHORTEST_UNDERLINE = 4  # docutils takes shorter ones only below titles as short
_LONGEST_HEADING = 200  # characters that are kept

_Heading = tuple[int, int, str]  # start in the text, level, text


def read_markdown(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read Markdown: front matter becomes metadata; comments and the anchors of headings (`{#id}`) are no text."""
    decoded, found = decode_text(raw, path, encoding)
    front, text = split_front_matter(clean_text(decoded))
    text = _drop_anchors(_drop_comments(text))
    sections, first = _find_sections(list(find_markdown_headings(text)))
    title = front.pop("title", None)
    own = {key: value for key, value in front.items() if key not in (HYPERLINKS, ENCODING)}
    named = title.strip() if isinstance(title, str) and title.strip() else first
    return FileContent(named, text, sections, {**own, **name_encoding(found)}, find_markdown_blocks(text))


def read_restructured_text(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read reStructuredText. The level of a heading is the place of its underline's mark, in order of appearance."""
    decoded, found = decode_text(raw, path, encoding)
    text = clean_text(decoded)
    sections, first = _find_sections(list(_find_rst_headings(text)))
    return FileContent(first, text, sections, name_encoding(found), find_rst_blocks(text))


def read_notebook(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read the cells of a Jupyter notebook: Markdown as it is, code between fences, and no outputs.

    Raises DataError if the file is not a notebook.
    """
    try:
        notebook = json.loads(decode_utf8(raw, path))
    except (ValueError, RecursionError) as error:
        raise DataError("a notebook (JSON)", str(error)[:80], path=path) from error
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise DataError("a notebook with the key 'cells'", "none", path=path)
    blocks = [block for cell in cells if isinstance(cell, dict) and (block := _read_cell(cell))]
    text = _drop_anchors(clean_text("\n\n".join(blocks)))
    sections, first = _find_sections(list(find_markdown_headings(text)))
    return FileContent(first, text.encode("utf-8", "replace").decode(), sections, blocks=find_markdown_blocks(text))


def _read_cell(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str) or not source.strip():
        return ""
    if cell.get("cell_type") != "code":
        return source.strip()
    fence = "`" * max(3, 1 + max(map(len, regex.findall("`{3,}", source)), default=0))  # longer than those inside
    return f"{fence}\n{source.strip()}\n{fence}"


def find_markdown_headings(text: str) -> Iterator[_Heading]:
    """Yield start, level and text of each heading of a Markdown text, outside of fenced code."""
    start = 0
    for first, end in (*find_fences(text), (len(text), len(text))):
        before = ""
        for line in text[start:first].split("\n"):
            if (heading := _HEADING.fullmatch(line)) and heading[2].strip():
                yield start, len(heading[1]), _plain(heading[2])
            elif before.strip() and not _ITEM.match(before) and (under := _UNDERLINE.fullmatch(line)):
                yield start - len(before) - 1, 1 if under[1] else 2, _plain(before)
            before = line
            start += len(line) + 1
        start = end


def _find_rst_headings(text: str) -> Iterator[_Heading]:
    lines, start, marks = text.split("\n"), 0, list[str]()
    for place, line in enumerate(lines):
        under = lines[place + 1] if place + 1 < len(lines) else ""
        over = lines[place - 1] if place else ""
        titled = bool(line.strip()) and not _RST_UNDERLINE.fullmatch(line) and _RST_UNDERLINE.fullmatch(under)
        if titled and len(under.rstrip()) >= min(_SHORTEST_UNDERLINE, len(line.rstrip())):
            mark = under[0] + ("o" if over.rstrip() == under.rstrip() else "")
            if mark not in marks:
                marks.append(mark)
            yield start, marks.index(mark) + 1, _plain(line)
        start += len(line) + 1


def _find_sections(headings: list[_Heading]) -> tuple[tuple[Section, ...], str]:
    """Return the sections, and the text of the first heading ("": none)."""
    return find_heading_paths(headings), headings[0][2] if headings else ""


def _plain(heading: str) -> str:
    """Return the text of a heading without anchor, and with the visible text of its hyperlinks."""
    return str(_LINK.sub(r"\1", _ANCHOR.sub("", heading)).strip())[:_LONGEST_HEADING]


def _drop_anchors(text: str) -> str:
    """Remove the anchors of headings, outside of fenced code."""
    kept = text
    for start, _, _ in reversed(list(find_markdown_headings(text))):
        end = text.find("\n", start)
        line = text[start : end if end >= 0 else len(text)]
        kept = kept[:start] + _ANCHOR.sub("", line) + kept[start + len(line) :]
    return kept


def _drop_comments(text: str) -> str:
    """Remove HTML comments outside of code."""
    return str(_COMMENT.sub(lambda found: found[0] if found[1] else "", text))
