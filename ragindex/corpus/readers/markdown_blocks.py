"""Tables and code blocks of Markdown, after CommonMark 0.31 (sections 4.4, 4.5) and GitHub's pipe tables."""

import regex

from ragindex.corpus.readers.content import Blocks

_FENCE = regex.compile(
    r"""^(?<deep>[ ]{4}|\t)?+ [ \t]*+ (?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*+  # a list item may begin with a fence
        (?<mark>`{3,}+(?![^\n]*`) | ~{3,}+) [^\n]*+
        (?:\n (?![ \t]*+(?&close)) (?(deep)(?=[ ]{4}|\t|[ \t]*$)) [^\n]*+)*+
        (?:\n (?=[ \t]*+(?&close)) [^\n]*+)?+
        (?(DEFINE)(?<close>(?P=mark)[`~]*+[ \t]*$))""",
    regex.MULTILINE | regex.VERBOSE,
)
_PARAGRAPH = regex.compile(r"^[ \t]*+[^\s][^\n]*+(?:\n[ \t]*+[^\s][^\n]*+)*+", regex.MULTILINE)
_INDENTED = regex.compile(r"(?:(?:[ ]{4}|\t)[^\n]*+(?:\n|\Z))++")
_CONTAINER = (
    regex.compile(  # what an indented line below may belong to: a list, note, tab, definition, footnote or HTML
        r'^[ \t]*+(?:[-*+:][ \t]|\d{1,9}[.)][ \t]|!!!|\?\?\?|===[ ]"|\[\^|<[/!a-zA-Z])', regex.MULTILINE
    )
)
_DELIMITERS = regex.compile(
    r"\n(?=[^\n]*\|)[ \t]*+(?:\|[ \t]*+)?+:?+-++:?+[ \t]*+(?:\|[ \t]*+:?+-++:?+[ \t]*+)*+\|?+[ \t]*+(?=\n|\Z)"
)
_OTHER_BLOCK = regex.compile(r"\n(?: {0,3}(?:#{1,6}[ \t]|>)|[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t])")  # ends a table
_CELL_END = regex.compile(r"(?<!\\)\|")


def find_fences(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each fenced code block, with its fences; one that is not closed reaches the end."""
    if "```" not in text and "~~~" not in text:
        return []
    return [_strip(text, *found.span()) for found in _FENCE.finditer(text)]


def find_markdown_blocks(text: str) -> Blocks:
    """Return the start and end of fenced and indented code, and of pipe tables.

    Indented lines are code after a blank line, but not below a list item or another element that they may belong to.
    """
    blocks, start, contained, last = list[tuple[int, int]](), 0, False, -1  # last: the block that is indented code
    for first, end in (*find_fences(text), (len(text), len(text))):
        for found in _PARAGRAPH.finditer(text, start, first):
            at, stop = found.span()
            if text.startswith(("    ", "\t"), at):
                code = None if contained else _INDENTED.match(text, at, stop)
                if code is not None:
                    joined = blocks.pop()[0] if blocks and last == len(blocks) - 1 else at
                    last = len(blocks)
                    blocks.append(_strip(text, joined, code.end()))
                    at = code.end()
                    if at >= stop:
                        continue
            elif not text.startswith(" ", at):
                contained = False
            last = -1
            contained = contained or _CONTAINER.search(text, at, stop) is not None
            if "|" in text[at:stop]:
                blocks += _find_tables(text, at, stop)
        last = -1
        blocks += [(first, end)] if first < end else []
        start = end
    return tuple(blocks)


def _find_tables(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the pipe tables of a paragraph: a header row, a row of delimiters as long, and the rows below."""
    tables = list[tuple[int, int]]()
    for found in _DELIMITERS.finditer(text, start, end):
        header = max(start, text.rfind("\n", start, found.start()) + 1)
        if (tables and header < tables[-1][1]) or _count_cells(text[header : found.start()]) != _count_cells(found[0]):
            continue
        other = _OTHER_BLOCK.search(text, found.end(), end)
        tables.append(_strip(text, header, other.start() if other else end))
    return tables


def _count_cells(row: str) -> int:
    return len(_CELL_END.findall(row.strip().removeprefix("|").removesuffix("|"))) + 1


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space around its text."""
    inside = text[start:end]
    return end - len(inside.lstrip()), start + len(inside.rstrip())
