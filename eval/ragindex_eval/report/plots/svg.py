"""The elements of a drawing as SVG text: marks, whiskers, labels.

Written by hand rather than by a plotting library, for three reasons. Colours are the page's own CSS variables, so that
one file is right on a light screen, on a dark one and on paper; text stays text, to be searched, copied and read aloud;
and nothing is fetched or run when the page is opened.
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
_CHARACTER = 0.62  # widths of a letter in sizes: those of a wide sans serif, so that no estimate is too small
_LONGEST_LABEL = 200


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether the two overlap."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def inside(self, other: "Box") -> bool:
        """Whether it lies in `other`."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )


def drawing(title: str, description: str, height: float, parts: Iterable[str]) -> str:
    """A drawing that scales with the page, with the name and the description that a screen reader says."""
    return (
        f'<svg class="plot" viewBox="0 0 {number(WIDTH)} {number(height)}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg">'
        f"<title>{safe(title)}</title><desc>{safe(description, 2000)}</desc>{''.join(parts)}</svg>"
    )


def number(value: float) -> str:
    """A coordinate, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def safe(text: str, longest: int = _LONGEST_LABEL) -> str:
    """Text from anywhere, bounded and escaped for elements and attributes."""
    return escape(shown(text, longest), quote=True)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line; `kind` is its class."""
    return f'<line class="{kind}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"/>'


def words(x: float, y: float, text: str, anchor: str = "start", kind: str = "label", full: str | None = None) -> str:
    """A line of text whose baseline is at `y`. `full` is shown on pointing at it, where the text had to be cut."""
    said = "" if full is None or full == text else f"<title>{safe(full)}</title>"
    return f'<text class="{kind}" x="{number(x)}" y="{number(y)}" text-anchor="{anchor}">{safe(text)}{said}</text>'


def coloured(style: int, parts: Iterable[str], tooltip: str = "") -> str:
    """Parts in the colour of a method, which say `tooltip` on pointing at them."""
    said = f"<title>{safe(tooltip, 400)}</title>" if tooltip else ""
    return f'<g class="c{colour(style)}">{said}{"".join(parts)}</g>'


def colour(style: int) -> int:
    """The colour of the style; after each round of shapes the colours are dealt anew, so that 64 styles differ."""
    return (style + style // len(_SHAPES) * 3) % COLOURS


def mark(style: int, x: float, y: float) -> str:
    """The mark of a method: one of eight shapes, filled or hollow, so that sixteen differ without any colour."""
    path = _SHAPES[style % len(_SHAPES)]
    kind = "hollow" if style // len(_SHAPES) % 2 else "filled"
    return f'<path class="{kind}" transform="translate({number(x)} {number(y)})" d="{path}"/>'


def key(style: int) -> str:
    """The mark as a little drawing of its own, for a table's row. It says nothing that the label does not."""
    return f'<svg class="key" viewBox="-7 -7 14 14" aria-hidden="true">{coloured(style, [mark(style, 0, 0)])}</svg>'


def whisker(x1: float, y1: float, x2: float, y2: float) -> str:
    """An interval, horizontal or vertical, with short caps."""
    across, down = (0.0, 3.0) if y1 == y2 else (3.0, 0.0)
    caps = [line(x - across, y - down, x + across, y + down, "whisker") for x, y in ((x1, y1), (x2, y2))]
    return line(x1, y1, x2, y2, "whisker") + "".join(caps)


def width(text: str, size: float = SIZE) -> float:
    """About how wide a text is drawn."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return size * (_CHARACTER * len(text) + (1.05 - _CHARACTER) * wide)


def fitted(text: str, units: float, size: float = SIZE) -> str:
    """The text, its middle left out where it is wider than `units`: labels of variants differ in their ends."""
    text = shown(text, _LONGEST_LABEL)
    if width(text, size) <= units:
        return text
    kept = len(text)
    while kept > 1 and width(_without_middle(text, kept), size) > units:
        kept -= 1
    return _without_middle(text, kept)


def _without_middle(text: str, kept: int) -> str:
    head = math.ceil(kept / 2)
    return f"{text[:head].rstrip()}…{text[len(text) - (kept - head) :].lstrip()}"


# ---------------------------------------------------------------- shapes


def _polygon(corners: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in corners) + "Z"


def _regular(count: int, turn: float, radii: Sequence[float]) -> str:
    """Corners around the middle, the first `turn` degrees from the right, their distances taking turns."""
    angles = [math.radians(turn + 360 * number / count) for number in range(count)]
    return _polygon(
        [
            (radii[number % len(radii)] * math.cos(angle), radii[number % len(radii)] * math.sin(angle))
            for number, angle in enumerate(angles)
        ]
    )


def _cross(arm: float, half: float, turn: float) -> str:
    quarter = [(arm, -half), (arm, half), (half, half)]
    corners = [_turned(x, y, turn + 90 * number) for number in range(4) for x, y in quarter]
    return _polygon(corners)


def _turned(x: float, y: float, degrees: float) -> tuple[float, float]:
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return x * cosine - y * sine, x * sine + y * cosine


_R = _RADIUS
_SHAPES = (
    f"M{-_R} 0A{_R} {_R} 0 1 1 {_R} 0A{_R} {_R} 0 1 1 {-_R} 0Z",  # a circle
    _regular(4, 45, [_R * 1.25]),  # a square
    _regular(3, -90, [_R * 1.35]),  # a triangle
    _regular(4, 0, [_R * 1.35]),  # a diamond
    _cross(_R * 1.2, _R * 0.42, 0),  # a plus
    _regular(3, 90, [_R * 1.35]),  # a triangle on its head
    _cross(_R * 1.25, _R * 0.42, 45),  # an x
    _regular(10, -90, [_R * 1.45, _R * 0.6]),  # a star
)
