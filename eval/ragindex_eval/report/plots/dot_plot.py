"""Methods down, figures across."""

from collections.abc import Sequence
from dataclasses import dataclass

from ragindex_eval.format import shown
from ragindex_eval.report.plots import frame, svg
from ragindex_eval.report.plots.axes import Axis, Figure, Scale, scale
from ragindex_eval.report.plots.svg import WIDTH

_LABELS = 142.0  # units for labels beside a plot; longer ones lose their middle
_ROW, _LOW_ROW, _TALL_ROW, _HEADING = 21.0, 16.0, 34.0, 26.0
_MANY_ROWS = 24  # with more, rows stand closer
_TALL = 420.0  # a plot higher than this has its axis at the top too


@dataclass(frozen=True, slots=True)
class Dot:
    """One method's figure. `style` is the method's number: its mark and colour are the same in every plot."""

    label: str
    style: int
    figure: Figure


@dataclass(frozen=True, slots=True)
class DotGroup:
    """Dots under one heading, such as the questions of two hops; "" where there is but one group."""

    heading: str
    dots: tuple[Dot, ...]


def draw_dots(title: str, groups: Sequence[DotGroup], axis: Axis) -> str:
    """A row a method, with intervals; one group below the other on the same axis.

    Labels stand beside their rows; above them, where more than a third would have to lose their middle.
    """
    every = [dot for group in groups for dot in group.dots]
    widths = [svg.width(shown(dot.label)) for dot in every]
    above = 3 * sum(width > _LABELS for width in widths) > len(widths)
    row = _TALL_ROW if above else _ROW if len(every) <= _MANY_ROWS else _LOW_ROW
    left = 12.0 if above else min(_LABELS, max(widths, default=0.0)) + 32.0
    rows = sum(bool(group.heading) for group in groups) * _HEADING + len(every) * row
    y = top = 26.0 if rows > _TALL else 4.0
    across = scale(axis, (dot.figure for dot in every), left, WIDTH - 16)
    parts = [frame.down(across, top - 4, top + rows), frame.axis_below(across, axis, top + rows)]
    parts += [frame.ticks(across, 16)] if rows > _TALL else []
    for group in groups:
        if group.heading:
            parts.append(svg.words(0, y + 18, svg.fitted(group.heading, WIDTH), kind="heading", full=group.heading))
            y += _HEADING
        for dot in group.dots:
            parts.append(_row(dot, across, y, row, above))
            y += row
    said = "; ".join(f"{dot.label}: {frame.said(dot.figure)}" for dot in every)
    return svg.drawing(title, said, top + rows + 40, parts)


def _row(dot: Dot, across: Scale, top: float, height: float, above: bool) -> str:
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
