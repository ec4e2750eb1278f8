"""Shared elements of the plots: grids, axes, the lines below a plot, and figures as text."""

from collections.abc import Sequence

from ragindex_eval.format import short
from ragindex_eval.report.plots import svg
from ragindex_eval.report.plots.axes import Axis, Figure, Scale
from ragindex_eval.report.plots.svg import WIDTH

LINE = 15.0
"""Units from one line of text to the next."""

BELOW = 52.0
"""Units that ticks and title take below a plot."""


def down(across: Scale, top: float, bottom: float) -> str:
    """Draw vertical grid lines at the ticks of a horizontal axis."""
    return "".join(svg.line(across.at(value), top, across.at(value), bottom, "grid") for value, _ in across.ticks)


def sideways(up: Scale, left: float, right: float, *, named: bool = True) -> str:
    """Draw horizontal grid lines at the ticks of a vertical axis, with tick labels if `named`."""
    lines = [svg.line(left, up.at(value), right, up.at(value), "grid") for value, _ in up.ticks]
    texts = [svg.words(left - 5, up.at(value) + 4, text, "end", "tick") for value, text in up.ticks if named]
    return "".join([*lines, *texts])


def ticks(across: Scale, y: float) -> str:
    """Draw the tick labels of a horizontal axis at height `y`."""
    return "".join(svg.words(across.at(value), y, text, "middle", "tick") for value, text in across.ticks)


def axis_below(across: Scale, axis: Axis, bottom: float) -> str:
    """Draw tick labels and title of a horizontal axis; the title ends at the right end."""
    title = svg.words(across.end, bottom + 32, svg.fitted(axis.title, WIDTH - 20), "end", "title")
    return ticks(across, bottom + 15) + title


def lines_below(named: Sequence[tuple[int, str]], missing: Sequence[str], top: float) -> tuple[list[str], float]:
    """Draw lines below a plot for methods (style, label) without a label in it, and for methods missing from it.

    Returns the elements and the y coordinate at which they end.
    """
    parts, y = [], top
    for style, label in named:
        entry = svg.words(20, y, svg.fitted(label, WIDTH - 24), full=label)
        parts += [svg.coloured(style, [svg.mark(style, 8, y - 4)]), entry]
        y += LINE
    for label in missing:
        parts.append(svg.words(0, y, svg.fitted(f"not measured: {label}", WIDTH), kind="tick", full=label))
        y += LINE
    return parts, y - LINE + 6 if y > top else top - 12


def said(figure: Figure) -> str:
    """Format a figure with its interval."""
    if figure.value is None or not figure.known:
        return "not measured"
    value, bounds = short(figure.value), figure.bounds
    return value if bounds is None else f"{value} ({short(bounds[0])} to {short(bounds[1])})"
