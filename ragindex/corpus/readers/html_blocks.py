"""Which tables and preformatted texts of an HTML page are blocks that chunking must not break."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

BLOCK_ELEMENTS = frozenset(("pre", "table"))
HEADER_PARTS = frozenset(("caption", "th"))
_LAYOUT_SHARE = 0.5  # of the page's text, above which a table without header cells is its layout


@dataclass(slots=True)
class _Element:
    """A table or preformatted text: its first piece of text, the headings before it, and whether it has a header."""

    name: str
    start: int
    headings: int
    has_header: bool = False


@dataclass(slots=True)
class BlockElements:
    """The tables and preformatted texts of a page, in pieces of its visible text."""

    opened: list[_Element] = field(default_factory=list)
    closed: list[tuple[int, int, bool]] = field(default_factory=list)  # first piece, end, whether it may be the layout

    def open(self, name: str, pieces: int, headings: int) -> None:
        """Open an element after so many pieces and headings."""
        self.opened.append(_Element(name, pieces, headings))

    def add_header(self) -> None:
        """Record a header cell or caption of the innermost element."""
        if self.opened:
            self.opened[-1].has_header = True

    def close(self, name: str, pieces: int, headings: int) -> None:
        """Close the innermost element of this name and all inside it; a table is not closed from within by `</pre>`."""
        if name == "pre" and (not self.opened or self.opened[-1].name != name):
            return
        while self.opened:
            element = self.opened.pop()
            if headings == element.headings and pieces > element.start:
                self.closed.append((element.start, pieces, element.name == "table" and not element.has_header))
            if element.name == name:
                break

    def choose(self, pieces: Sequence[str], headings: int) -> list[tuple[int, int]]:
        """Return the first piece and the last piece with text of each block, the outermost of nested ones.

        An element that holds a heading is no block, for its sections are chunked on their own; neither is a table
        without header cells or caption that holds more than half of the page's text, for it lays out the page. What
        is inside of them may be.
        """
        while self.opened:  # HTML5 closes open elements at the end of the page
            self.close(self.opened[-1].name, len(pieces), headings)
        if not self.closed:
            return []
        sizes = list(accumulate(map(len, pieces), initial=0))
        chosen, after = list[tuple[int, int]](), 0
        for start, end, maybe_layout in sorted(self.closed, key=lambda element: (element[0], -element[1])):
            if start < after or (maybe_layout and sizes[end] - sizes[start] > _LAYOUT_SHARE * sizes[-1]):
                continue
            after = end
            shown = [piece for piece in range(start, end) if not pieces[piece].isspace() and pieces[piece]]
            if shown:
                chosen.append((shown[0], shown[-1]))
        return chosen
