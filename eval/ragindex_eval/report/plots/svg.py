"""Elements of a drawing as SVG text: marks, whiskers, labels.

The SVG is written without a plotting library for three reasons. Colours are CSS variables of the page, so that one file
works on light and dark screens and on paper. Text stays text that can be searched, copied and read aloud. And nothing
is fetched or run when the page is opened.
"""

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from ragindex_eval.format import shown

WIDTH = 400.0
"""Units across a drawing. A phone shows them at about 0.85 pixels, which leaves text at ten pixels."""

SIZE = 12.0
"""The size of text, in units."""

COLOURS = 8
"""The page defines --mark-0 … --mark-7."""

_RADIUS = 4.6
_LETTER_WIDTH = 0.62  # width of a letter per text size, that of a wide sans serif so that no estimate is too small
_LONGEST_LABEL = 200


@dataclass(frozen=True, slots=True)
class Box:
    """Rectangle in the units of a drawing."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Return whether two boxes overlap."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def inside(self, other: "Box") -> bool:
        """Return whether the box lies within `other`."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )


def drawing(title: str, description: str, height: float, parts: Iterable[str]) -> str:
    """Return an SVG drawing that scales with the page, with title and description for screen readers."""
    return (
        f'<svg class="plot" viewBox="0 0 {number(WIDTH)} {number(height)}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg">'
        f"<title>{safe(title)}</title><desc>{safe(description, 2000)}</desc>{''.join(parts)}</svg>"
    )


def number(value: float) -> str:
    """Format a coordinate, rounded to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def safe(text: str, longest: int = _LONGEST_LABEL) -> str:
    """Limit the length of an untrusted text, and escape it for elements and attributes."""
    return escape(shown(text, longest), quote=True)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Draw a straight line; `kind` is its CSS class."""
    return f'<line class="{kind}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"/>'


def words(x: float, y: float, text: str, anchor: str = "start", kind: str = "label", full: str | None = None) -> str:
    """Draw a line of text with its baseline at `y`. `full` becomes the tooltip if it differs from `text`."""
    tooltip = "" if full is None or full == text else f"<title>{safe(full)}</title>"
    return f'<text class="{kind}" x="{number(x)}" y="{number(y)}" text-anchor="{anchor}">{safe(text)}{tooltip}</text>'


def coloured(style: int, parts: Iterable[str], tooltip: str = "") -> str:
    """Group parts in the colour of a method, with a tooltip."""
    tooltip_markup = f"<title>{safe(tooltip, 400)}</title>" if tooltip else ""
    return f'<g class="c{colour(style)}">{tooltip_markup}{"".join(parts)}</g>'


def colour(style: int) -> int:
    """Return the colour number of a style.

    The colours are shifted after each round of shapes, so that 64 styles differ.
    """
    return (style + style // len(_SHAPES) * 3) % COLOURS


def mark(style: int, x: float, y: float) -> str:
    """Draw the mark of a method: one of eight shapes, filled or hollow, so that 16 methods differ without colour."""
    path = _SHAPES[style % len(_SHAPES)]
    kind = "hollow" if style // len(_SHAPES) % 2 else "filled"
    return f'<path class="{kind}" transform="translate({number(x)} {number(y)})" d="{path}"/>'


def key(style: int) -> str:
    """Draw a mark as a small SVG for a table row, hidden from screen readers because the label says the same."""
    return f'<svg class="key" viewBox="-7 -7 14 14" aria-hidden="true">{coloured(style, [mark(style, 0, 0)])}</svg>'


def whisker(x1: float, y1: float, x2: float, y2: float) -> str:
    """Draw a horizontal or vertical interval with short caps."""
    across, down = (0.0, 3.0) if y1 == y2 else (3.0, 0.0)
    caps = [line(x - across, y - down, x + across, y + down, "whisker") for x, y in ((x1, y1), (x2, y2))]
    return line(x1, y1, x2, y2, "whisker") + "".join(caps)


def width(text: str, size: float = SIZE) -> float:
    """Estimate the width of a text in units."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return size * (_LETTER_WIDTH * len(text) + (1.05 - _LETTER_WIDTH) * wide)


def fitted(text: str, units: float, size: float = SIZE) -> str:
    """Shorten a text in the middle to at most `units`, because labels of variants differ at their ends."""
    text = shown(text, _LONGEST_LABEL)
    if width(text, size) <= units:
        return text
    letters = len(text)
    while letters > 1 and width(_cut_middle(text, letters), size) > units:
        letters -= 1
    return _cut_middle(text, letters)


def _cut_middle(text: str, letters: int) -> str:
    head = math.ceil(letters / 2)
    return f"{text[:head].rstrip()}…{text[len(text) - (letters - head) :].lstrip()}"


# ---------------------------------------------------------------- shapes


def _polygon(corners: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in corners) + "Z"


def _regular_shape(count: int, turn: float, radii: Sequence[float]) -> str:
    """Return a shape of `count` corners around the centre, the first at `turn` degrees, with alternating radii."""
    angles = [math.radians(turn + 360 * number / count) for number in range(count)]
    return _polygon(
        [
            (radii[number % len(radii)] * math.cos(angle), radii[number % len(radii)] * math.sin(angle))
            for number, angle in enumerate(angles)
        ]
    )


def _cross(arm: float, half: float, turn: float) -> str:
    quarter = [(arm, -half), (arm, half), (half, half)]
    corners = [_rotate(x, y, turn + 90 * number) for number in range(4) for x, y in quarter]
    return _polygon(corners)


def _rotate(x: float, y: float, degrees: float) -> tuple[float, float]:
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return x * cosine - y * sine, x * sine + y * cosine


_R = _RADIUS
_SHAPES = (
    f"M{-_R} 0A{_R} {_R} 0 1 1 {_R} 0A{_R} {_R} 0 1 1 {-_R} 0Z",  # a circle
    _regular_shape(4, 45, [_R * 1.25]),  # a square
    _regular_shape(3, -90, [_R * 1.35]),  # a triangle
    _regular_shape(4, 0, [_R * 1.35]),  # a diamond
    _cross(_R * 1.2, _R * 0.42, 0),  # a plus
    _regular_shape(3, 90, [_R * 1.35]),  # a triangle on its head
    _cross(_R * 1.25, _R * 0.42, 45),  # an x
    _regular_shape(10, -90, [_R * 1.45, _R * 0.6]),  # a star
)
