"""Readers of Markdown and of notebooks, and the structure of a Markdown text."""

import html
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import regex

from ragindex.corpus.json_reader import decode_utf8
from ragindex.corpus.readers.content import (
    Blocks,
    FileContent,
    clean_text,
    find_heading_paths,
    is_relative,
    link_metadata,
)
from ragindex.corpus.readers.front_matter import FrontMatter, split_front_matter
from ragindex.corpus.readers.text_encodings import decode_text, name_encoding
from ragindex.errors import DataError
from ragindex.types import MetadataValue

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MOST_INLINE = 100_000  # characters of a paragraph or cell whose links are looked for
_LONGEST_HEADING = 200  # characters that are kept
_BLOCKS = frozenset(("fence", "code_block", "table_open"))
_CONTAINER = regex.compile(r"^(?:!!!|\?\?\?|===|\[\^|:[ \t])", regex.MULTILINE)  # note, tab, footnote, definition
_DEEPEST_CONTAINER = 3
_HTML_HEADING = regex.compile(r"<h([1-6])\b[^<>]*+>((?s:.){1,1000}?)</h\1\s*>", regex.IGNORECASE)
_TAG = regex.compile(r"<[^<>]*+>")
_ANCHOR = regex.compile(r"(?<![ \t])[ \t]*+\{:?[ ]*+#[^{}\n]*+\}(?=[ \t#]*$)", regex.MULTILINE)

_Heading = tuple[int, int, str]
_Links = tuple[tuple[str, str], ...]

# What is not shown: comments, scripts, style sheets, and pictures as addresses of their own bytes (`data:image/png;…`).
_HIDDEN = regex.compile(
    r"""`[^`\n]++`
      | (?<comment><!--)
      | <(?<unseen>script|style)\b[^<>]*+>
      | !\[(?<inline>[^\[\]]*+)\]\(\s*+<?data:[^\s)>]*+>?[^()\n]*+\)
      | !\[(?<labelled>[^\[\]]*+)\](?:\[(?<label>[^\[\]]*+)\])?+(?![\[(])
      | (?<element><img\b(?=[^<>]*?\bsrc\s*+=\s*+["']?data:)[^<>]*+>)
      | (?<definition>^[ ]{0,3}\[(?<name>[^\[\]\n]++)\]:[ \t]*+\n?[ \t]*+<?data:[^\s>]*+>?[^\n]*+\n?)""",
    regex.MULTILINE | regex.IGNORECASE | regex.VERBOSE,
)
_MAY_HIDE = regex.compile(r"<!--|<script|<style|data:", regex.IGNORECASE)
_CLOSING = {name: regex.compile(rf"</{name}\s*+>", regex.IGNORECASE) for name in ("script", "style")}
_ALTERNATIVE = regex.compile(r"\balt\s*+=\s*+(?|\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))", regex.IGNORECASE)
_BYTES = regex.compile(r"(\bdata:[\w.+/-]{1,100}(?:;[\w=.-]{1,50})?;base64,)[A-Za-z0-9+/=%]{64,}+", regex.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MarkdownStructure:
    """What stands where in a Markdown text.

    `headings` are start, level and visible text, without those in lists and quotations; `title` is the first one if
    only pictures precede it ("": none). `blocks` are the start and end of fenced and indented code and of tables.
    `links` are visible text and relative address of hyperlinks, and `references` those of them whose address does not
    stand beside the text (`[text][label]`).
    """

    headings: tuple[_Heading, ...]
    title: str
    blocks: Blocks
    links: _Links
    references: _Links


def parse_markdown(text: str) -> MarkdownStructure:
    r"""Return the structure of a Markdown text: CommonMark with pipe tables, and lines that end in \n.

    Example:
        structure = parse_markdown("# Tides\n\n```\nls\n```\n\nSee [Ely](ely.md).")
        assert structure.headings == ((0, 1, "Tides"),) and structure.blocks == ((9, 19),)
        assert structure.title == "Tides" and structure.links == (("Ely", "ely.md"),)
    """
    environment: dict[str, Any] = {}
    tokens = _load_parser().parse(text, environment)
    starts = _list_line_starts(text)
    headings = tuple(_find_headings(tokens, starts, environment))
    links = list(_find_links(tokens, environment))
    blocks = (_strip(text, starts[first], starts[end]) for first, end in _find_blocks(tokens))
    return MarkdownStructure(
        headings,
        headings[0][2] if headings and _is_blank_above(headings[0][0], tokens, starts, environment) else "",
        tuple(block for block in blocks if block[0] < block[1]),  # code may be blank: a tab and a form feed
        tuple(dict.fromkeys((shown, address) for shown, address, _ in links)),
        tuple(dict.fromkeys((shown, address) for shown, address, labelled in links if labelled)),
    )


def read_markdown(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read Markdown as it is, without front matter, comments, scripts, style sheets, pictures in base64 and `{#id}`.

    Braces are the anchors of headings.
    """
    decoded, detected = decode_text(raw, path, encoding)
    front = split_front_matter(clean_text(decoded))
    return _make_content(front, name_encoding(detected))


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
    text = "\n\n".join(block for cell in cells if isinstance(cell, dict) and (block := _read_cell(cell)))
    fields = notebook.get("metadata")
    title = fields.get("title") if isinstance(fields, dict) else None
    text = clean_text(text).encode("utf-8", "replace").decode()
    return _make_content(FrontMatter(title if isinstance(title, str) else "", {}, text), {})


def _make_content(front: FrontMatter, encoding: Mapping[str, MetadataValue]) -> FileContent:
    text = front.text
    if _MAY_HIDE.search(text):
        starts = _list_line_starts(text)
        code = [
            token.map for token in _load_parser().parse(text) if token.type in ("fence", "code_block") and token.map
        ]
        text = drop_hidden(text, tuple(_strip(text, starts[first], starts[end]) for first, end in code))
    structure = parse_markdown(text)
    if any(_ANCHOR.search(heading) for _, _, heading in structure.headings):
        text = _drop_anchors(text, structure.headings)
        structure = parse_markdown(text)
    return FileContent(
        front.title or ("" if front.notes else structure.title),
        text,
        find_heading_paths(structure.headings),
        {**front.metadata, **link_metadata(structure.references), **encoding},
        structure.blocks,
        front.notes,
    )


@cache
def _load_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # takes 90 ms

    parser = MarkdownIt("commonmark", {"store_labels": True}).enable("table")
    parser.core.ruler.disable(["inline", "text_join"])  # the slow half is done where headings and links may be
    return parser


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


def _find_headings(tokens: Sequence["Token"], starts: Sequence[int], environment: dict[str, Any]) -> Iterator[_Heading]:
    """Yield headings, those of blocks of HTML among them."""
    for opening, token in zip([None, *tokens], tokens, strict=False):
        if opening is not None and opening.type == "heading_open" and opening.level == 0 and opening.map:
            shown = _show(_parse_inlines(token.content, environment))
            headings = [(starts[opening.map[0]], int(opening.tag[1:]), shown)]
        elif token.type == "html_block" and token.level == 0 and token.map:
            above = starts[token.map[0]]
            matches = _HTML_HEADING.finditer(token.content)
            headings = [(above + match.start(), int(match[1]), _TAG.sub("", match[2])) for match in matches]
        else:
            continue
        for start, level, shown in headings:
            if heading := " ".join(shown.split())[:_LONGEST_HEADING].strip():
                yield start, level, heading


def _is_blank_above(start: int, tokens: Sequence["Token"], starts: Sequence[int], environment: dict[str, Any]) -> bool:
    """Return whether nothing but pictures and tags stands above a place."""
    for token in tokens:
        if token.map and starts[token.map[0]] >= start:
            break
        if token.type == "html_block" and token.map:
            shown = _TAG.sub("", token.content[: start - starts[token.map[0]]])
        else:
            shown = _show(_parse_inlines(token.content, environment), pictures=False)
        if shown.strip() or token.type in _BLOCKS:
            return False
    return True


def _find_blocks(tokens: Sequence["Token"], above: int = 0, depth: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the first line and the line after it of each block.

    Indented lines below a note, a tab and the like (`!!! note`) are its text and no code; what is a block in them is.
    """
    contained = False
    for token in tokens:
        if token.type == "inline" and token.level == 1:
            contained = _CONTAINER.search(token.content) is not None
        elif token.type in _BLOCKS and token.map:
            if contained and token.type == "code_block":
                if depth < _DEEPEST_CONTAINER:
                    yield from _find_blocks(_load_parser().parse(token.content), above + token.map[0], depth + 1)
            else:
                yield above + token.map[0], above + token.map[1]


def _find_links(tokens: Sequence["Token"], environment: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield visible text, relative address, and whether the address stands elsewhere, of each hyperlink."""
    for token in tokens:
        if token.type != "inline" or "]" not in token.content or len(token.content) > _MOST_INLINE:
            continue
        link, first, inlines = None, 0, _parse_inlines(token.content, environment)
        for place, inline in enumerate(inlines):
            if inline.type == "link_open":
                link, first = inline, place
            elif inline.type == "link_close" and link is not None:
                link_text, address = " ".join(_show(inlines[first:place]).split()), str(link.attrs.get("href", ""))
                if link_text and is_relative(address):
                    yield link_text, address, "label" in link.meta


def _parse_inlines(text: str, environment: dict[str, Any]) -> list["Token"]:
    inlines = list["Token"]()
    parser = _load_parser()
    parser.inline.parse(text[:_MOST_INLINE], parser, environment, inlines)
    return inlines


def _show(inlines: Sequence["Token"], pictures: bool = True) -> str:
    """Return the visible text of inline elements, of pictures their alternative text."""
    hidden = ("html_inline",) if pictures else ("html_inline", "image")
    return "".join(
        " " if inline.type in ("softbreak", "hardbreak") else inline.content
        for inline in inlines
        if inline.type not in hidden
    )


def _drop_anchors(text: str, headings: Sequence[_Heading]) -> str:
    """Remove the anchors in the first line of headings."""
    pieces, position = list[str](), 0
    for start, _, _ in headings:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        pieces += [text[position:start], _ANCHOR.sub("", text[start:end])]
        position = end
    return "".join((*pieces, text[position:]))


def _list_line_starts(text: str) -> list[int]:
    return list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space around its text."""
    inside = text[start:end]
    return min(end, len(text)) - len(inside.lstrip()), start + len(inside.rstrip())


def drop_hidden(text: str, code: Blocks = ()) -> str:
    """Return a Markdown text without comments, scripts and style sheets, and with alternative texts of pictures in it.

    In `code`, and in other addresses, only the bytes are left out. A comment or script that is never closed is text.

    Example:
        assert drop_hidden("A ![valve](data:image/png;base64,iVBORw0=) here") == "A valve here"
    """
    labels = {_fold(match["name"]) for match in _HIDDEN.finditer(text) if match["definition"]}
    pieces, above, place, open_ended = list[str](), 0, 0, set[str]()
    while match := _HIDDEN.search(text, place):
        block = code[bisect_right(code, match.start(), key=itemgetter(0)) - 1] if code else (0, 0)
        place = match.end()
        if block[0] <= match.start() < block[1]:
            place = max(place, block[1])
            continue
        visible = _find_shown(match, labels)
        if match["comment"]:
            place = text.find("-->", place) + len("-->")
            if place < match.end():
                break
        elif match["unseen"]:
            name = match["unseen"].lower()
            closing = None if name in open_ended else _CLOSING[name].search(text, place)
            if closing is None:
                open_ended.add(name)
                continue
            place = closing.end()
        if visible is not None:
            pieces += [text[above : match.start()], visible]
            above = place
    return str(_BYTES.sub(r"\1", "".join((*pieces, text[above:]))))


def _find_shown(match: regex.Match[str], labels: set[str]) -> str | None:
    """Return what stands for what was found; None: it is shown."""
    if match["labelled"] is not None:
        return match["labelled"] if _fold(match["label"] or match["labelled"]) in labels else None
    if match["element"]:
        alternative = _ALTERNATIVE.search(match["element"])
        return html.unescape(alternative[1]) if alternative else ""
    return match["inline"] or "" if match.lastgroup else None


def _fold(label: str) -> str:
    return " ".join(label.split()).casefold()
