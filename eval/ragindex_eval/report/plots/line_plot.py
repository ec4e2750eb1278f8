"""Line plot of figures over k or over iterations, in one plot or, for many methods, in one panel per method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragindex_eval.report.plots import frame, placing, svg
from ragindex_eval.report.plots.axes import Axis, Figure, Scale, at_values, scale
from ragindex_eval.report.plots.svg import WIDTH

_MAX_TOGETHER = 7
_END_LABELS = 118.0  # units for labels at the ends of lines
_LEFT, _TOP = 38.0, 26.0
_COLUMNS, _GAP = 3, 12.0
_PANEL, _PANEL_TITLE = 96.0, 18.0


@dataclass(frozen=True, slots=True)
class Curve:
    """Figures of one method by k or by iteration. `style` is the number of the method."""

    label: str
    style: int
    figures: Mapping[int, Figure]

    @property
    def known(self) -> Mapping[int, Figure]:
        """The figures that can be drawn, by ascending k."""
        return {k: figure for k, figure in sorted(self.figures.items()) if figure.known}


def draw_curves(title: str, series: Sequence[Curve], x: Axis, y: Axis) -> str:
    """Draw up to seven methods in one plot, with labels at the ends of the lines; more get one panel per method."""
    drawn = [curve for curve in series if curve.known]
    missing = [curve.label for curve in series if not curve.known]
    ks = sorted({k for curve in drawn for k in curve.known}) or [1]
    make = _draw_together if len(drawn) <= _MAX_TOGETHER else _draw_panels
    parts, bottom = make(drawn, ks, x, y)
    below, height = frame.lines_below([], missing, bottom + frame.BELOW)
    return svg.drawing(
        title, "; ".join(map(_describe_curve, drawn)), height, [svg.words(0, 12, y.title, kind="title"), *parts, *below]
    )


def _describe_curve(curve: Curve) -> str:
    return f"{curve.label}: " + ", ".join(f"{frame.said(figure)} at {k}" for k, figure in curve.known.items())


# ---------------------------------------------------------------- one plot


def _draw_together(drawn: Sequence[Curve], ks: Sequence[int], x: Axis, y: Axis) -> tuple[list[str], float]:
    """Draw all curves in one plot; return the elements and the y coordinate of its bottom."""
    labels = [svg.fitted(curve.label, _END_LABELS) for curve in drawn]
    right = WIDTH - 22 - max(map(svg.width, labels), default=0.0)
    bottom = 280.0
    step = _whisker_distance(at_values(ks, _LEFT, right, 0), ks, len(drawn))
    aside = step * max(0, len(drawn) - 1) / 2
    across = at_values(ks, _LEFT + 8 + aside, right - 8 - aside, 22)
    up = _vertical_scale(drawn, y, bottom, _TOP)
    parts = [frame.down(across, _TOP, bottom), frame.sideways(up, _LEFT, right), frame.axis_below(across, x, bottom)]
    shifts = [number * step - aside for number in range(len(drawn))]
    parts += [_draw_curve(curve, across, up, shift, x) for curve, shift in zip(drawn, shifts, strict=True)]
    last = [
        (across.at(max(curve.known)) + shift, up.at(curve.known[max(curve.known)].value or 0.0))
        for curve, shift in zip(drawn, shifts, strict=True)
    ]
    ends = placing.apart([at for _, at in last], frame.LINE, _TOP + 8, bottom - 4)
    for curve, text, (from_x, from_y), end in zip(drawn, labels, last, ends, strict=True):
        parts.append(svg.line(from_x + 7, from_y, right + 10, end, "leader"))
        parts.append(svg.words(right + 13, end + 4, text, full=curve.label))
    return parts, bottom


def _vertical_scale(drawn: Sequence[Curve], y: Axis, bottom: float, top: float, ticks: int = 5) -> Scale:
    return scale(y, (figure for curve in drawn for figure in curve.known.values()), bottom - 8, top + 8, ticks)


def _whisker_distance(across: Scale, ks: Sequence[int], count: int) -> float:
    """Return the distance between the whiskers of neighbouring methods at one k."""
    places = [across.at(k) for k in ks]
    gap = min((b - a for a, b in pairwise(places)), default=across.end - across.start)
    return min(6.0, 0.6 * gap / max(1, count))


def _draw_curve(curve: Curve, across: Scale, up: Scale, aside: float, axis: Axis) -> str:
    """Draw a line with its marks; their tooltips name the axis by its title up to the first comma."""
    parts, called = [_draw_line(curve, across, up, aside)], axis.title.partition(",")[0]
    for k, figure in curve.known.items():
        x, y, bounds = across.at(k) + aside, up.at(figure.value or 0.0), figure.bounds
        drawn = "" if bounds is None else svg.whisker(x, up.at(bounds[1]), x, up.at(bounds[0]))
        tooltip = svg.safe(f"{curve.label}, {called} = {k}: {frame.said(figure)}", 400)
        parts.append(f"<g><title>{tooltip}</title>{drawn}{svg.mark(curve.style, x, y)}</g>")
    return svg.coloured(curve.style, parts)


def _draw_line(curve: Curve, across: Scale, up: Scale, aside: float = 0.0) -> str:
    places = [(across.at(k) + aside, up.at(figure.value or 0.0)) for k, figure in curve.known.items()]
    corners = " ".join(f"{svg.number(x)},{svg.number(y)}" for x, y in places)
    return f'<polyline class="curve" points="{corners}"/>'


# ---------------------------------------------------------------- panels


def _draw_panels(drawn: Sequence[Curve], ks: Sequence[int], x: Axis, y: Axis) -> tuple[list[str], float]:
    """Draw a panel per method, with the other lines in grey; return the elements and the y coordinate of the bottom."""
    wide = (WIDTH - _LEFT - 8 - (_COLUMNS - 1) * _GAP) / _COLUMNS
    rows = -(-len(drawn) // _COLUMNS)
    parts, bottom = [], 0.0
    for number, curve in enumerate(drawn):
        row, column = divmod(number, _COLUMNS)
        left, top = _LEFT + column * (wide + _GAP), _TOP + row * (_PANEL + _PANEL_TITLE) + _PANEL_TITLE
        bottom = top + _PANEL - 10
        across, up = at_values(ks, left + 10, left + wide - 10, 24), _vertical_scale(drawn, y, bottom, top, 3)
        others = "".join(_draw_line(other, across, up) for other in drawn if other is not curve)
        label = svg.words(left, top - 2, svg.fitted(curve.label, wide), full=curve.label)
        grid = frame.sideways(up, left, left + wide, named=column == 0)
        parts += [label, grid, f'<g class="others">{others}</g>', _draw_curve(curve, across, up, 0.0, x)]
        if number + _COLUMNS >= len(drawn):
            parts.append(frame.ticks(across, bottom + 15))
    bottom = _TOP + rows * (_PANEL + _PANEL_TITLE) - 10
    return [*parts, svg.words(WIDTH - 8, bottom + 32, x.title, "end", "title")], bottom
