"""Dot plot with one row per method."""

from collections.abc import Sequence
from dataclasses import dataclass

from ragindex_eval.format import shown
from ragindex_eval.report.plots import frame, svg
from ragindex_eval.report.plots.axes import Axis, Figure, Scale, scale
from ragindex_eval.report.plots.svg import WIDTH

_LABELS = 142.0  # units for labels beside a plot; longer labels lose their middle
_ROW, _LOW_ROW, _TALL_ROW, _HEADING = 21.0, 16.0, 34.0, 26.0
_MANY_ROWS = 24  # with more rows, they are set closer together
_TALL_PLOT = 420.0  # a higher plot also has its ticks at the top


@dataclass(frozen=True, slots=True)
class Dot:
    """Figure of one method. `style` is the number of the method, which sets its mark and colour in every plot."""

    label: str
    style: int
    figure: Figure


@dataclass(frozen=True, slots=True)
class DotGroup:
    """Dots under one heading, for example for questions of two hops; the heading is "" for a single group."""

    heading: str
    dots: tuple[Dot, ...]


def draw_dots(title: str, groups: Sequence[DotGroup], axis: Axis) -> str:
    """Draw one row per method with its interval, and the groups below each other on the same axis.

    Labels stand beside their rows, or above them if more than a third would have to be shortened.
    """
    every = [dot for group in groups for dot in group.dots]
    widths = [svg.width(shown(dot.label)) for dot in every]
    above = 3 * sum(width > _LABELS for width in widths) > len(widths)
    row = _TALL_ROW if above else _ROW if len(every) <= _MANY_ROWS else _LOW_ROW
    left = 12.0 if above else min(_LABELS, max(widths, default=0.0)) + 32.0
    rows = sum(bool(group.heading) for group in groups) * _HEADING + len(every) * row
    y = top = 26.0 if rows > _TALL_PLOT else 4.0
    across = scale(axis, (dot.figure for dot in every), left, WIDTH - 16)
    parts = [frame.down(across, top - 4, top + rows), frame.axis_below(across, axis, top + rows)]
    parts += [frame.ticks(across, 16)] if rows > _TALL_PLOT else []
    for group in groups:
        if group.heading:
            parts.append(svg.words(0, y + 18, svg.fitted(group.heading, WIDTH), kind="heading", full=group.heading))
            y += _HEADING
        for dot in group.dots:
            parts.append(_draw_row(dot, across, y, row, above))
            y += row
    summary = "; ".join(f"{dot.label}: {frame.said(dot.figure)}" for dot in every)
    return svg.drawing(title, summary, top + rows + 40, parts)


def _draw_row(dot: Dot, across: Scale, top: float, height: float, above: bool) -> str:
    middle = top + (height - 10 if above else height / 2)
    x, y = (18.0, top + 14) if above else (20.0, middle + 4)
    label = svg.words(x, y, svg.fitted(dot.label, WIDTH - 24 if above else _LABELS), full=dot.label)
    key = svg.coloured(dot.style, [svg.mark(dot.style, x - 10, y - 4)])
    if not dot.figure.known:
        return key + label + svg.words(across.start, middle + 4, "not measured", kind="tick")
    place = svg.mark(dot.style, across.at(dot.figure.value or 0.0), middle)
    bounds = dot.figure.bounds
    drawn = "" if bounds is None else svg.whisker(across.at(bounds[0]), middle, across.at(bounds[1]), middle)
    figure = svg.coloured(dot.style, [drawn, place], f"{dot.label}: {frame.said(dot.figure)}")
    return key + label + svg.line(across.start, middle, across.end, middle, "row") + figure
