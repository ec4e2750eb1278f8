"""Tables and code blocks of reStructuredText (docutils.sourceforge.io, reStructuredText Markup Specification)."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice

import regex

from ragindex.corpus.readers.content import Blocks

_OPENING = regex.compile(
    r"""^[ \t]*+(?:
        (?<directive>\.\.[ ]++(?:code|code-block|sourcecode|parsed-literal|doctest|testcode|testoutput|prompt
            |table|csv-table|list-table)::(?=[ \t\n]|\Z))
      | (?<grid>\+(?:[-=]+\+)+[ \t]*$)
      | (?<simple>=+(?:[ ]+=+)+[ \t]*$)
      | (?<doctest>>>>[ ])
      | (?!\.\.[ ])(?<literal>[^\n]*(?<!:)::[ \t]*$) )""",
    regex.MULTILINE | regex.VERBOSE,
)
_ITEM = regex.compile(r"(?:(?:[-*+•]|\(?(?:\d+|#|\w)[.)])\s+)*")
_SIMPLE_BORDER = regex.compile(r"\s*=+(?: +=+)+\s*")


def find_rst_blocks(text: str) -> Blocks:
    """Return the start and end of literal blocks, code and table directives, doctests, and grid and simple tables."""
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    blocks, at = list[tuple[int, int]](), 0
    while (found := _OPENING.search(text, at)) is not None:
        at = found.end()
        first, end = _find_lines(found.lastgroup or "", lines, bisect_right(starts, found.start()) - 1)
        inside = text[starts[first] : starts[end]]
        if inside.strip():
            at = starts[first] + len(inside.rstrip())
            blocks.append((starts[first] + len(inside) - len(inside.lstrip()), at))
    return tuple(blocks)


def _find_lines(kind: str, lines: Sequence[str], place: int) -> tuple[int, int]:
    """Return the first line of the block that the line at `place` opens, and the line after it; equal if none."""
    if kind == "grid":
        below = _skip(lines, place, lambda line: line.lstrip().startswith(("+", "|")))
        end = next(number for number in range(below, place, -1) if lines[number - 1].lstrip().startswith("+"))
        return place, end if end - place > 2 else place
    if kind == "doctest":
        return place, _skip(lines, place, lambda line: bool(line.strip()))
    if kind == "simple":
        borders = list(_find_borders(lines, place + 1))
        return place, borders[-1] + 1 if borders else place
    item = _ITEM.match(lines[place].strip()) if kind == "literal" else None
    indent = _indent(lines[place]) + (len(item[0]) if item else 0)
    content = _skip(lines, place + 1, lambda line: not line.strip())
    end = _skip(lines, content, lambda line: not line.strip() or _indent(line) > indent)
    if content == end or kind == "directive":
        return place, end if content < end else place
    return content, end if content > place + 1 else content


def _find_borders(lines: Sequence[str], start: int) -> Iterator[int]:
    """Yield the borders of a simple table below its first: the second ends it, or the first with a blank line below."""
    borders = (number for number in range(start, len(lines)) if _SIMPLE_BORDER.fullmatch(lines[number]))
    for border in islice(borders, 2):
        yield border
        if border + 1 == len(lines) or not lines[border + 1].strip():
            return


def _skip(lines: Sequence[str], start: int, belongs: Callable[[str], bool]) -> int:
    """Return the first line from `start` on that does not belong to the block."""
    return next((number for number in range(start, len(lines)) if not belongs(lines[number])), len(lines))


def _indent(line: str) -> int:
    spread = line.expandtabs()
    return len(spread) - len(spread.lstrip())
