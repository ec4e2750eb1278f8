"""Charts: dots with intervals, a scatter plot, and curves, with their axes, legends and labels."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragindex_eval.format import short, shown
from ragindex_eval.report.plots import svg
from ragindex_eval.report.plots.axes import Axis, Figure, Scale, at_values, scale
from ragindex_eval.report.plots.svg import SIZE, WIDTH, Box

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


def write_figure(figure: Figure) -> str:
    """Format a figure with its interval."""
    if figure.value is None or not figure.known:
        return "not measured"
    value, bounds = short(figure.value), figure.bounds
    return value if bounds is None else f"{value} ({short(bounds[0])} to {short(bounds[1])})"


# ---------------------------------------------------------------- labels beside marks

_MARK = 7.0  # half the side of the square around a mark that stays free
_RINGS = (9.0, 16.0, 26.0, 38.0, 52.0)  # distances from the middle of the mark to the near side of the label
_DIRECTIONS = (0, 180, 270, 90, 315, 45, 225, 135)  # degrees, clockwise from the right; the preferred ones first
_LEADERLESS_DISTANCE = 16.0


@dataclass(frozen=True, slots=True)
class Place:
    """Left end of the baseline of a label, and the leader line to it if the label is not beside its mark."""

    x: float
    y: float
    leader: tuple[float, float, float, float] | None


def beside(
    labels: Sequence[str], marks: Sequence[tuple[float, float]], lines: Sequence[Box], frame: Box
) -> list[Place | None]:
    """Find a place for each label near its mark; None if there is none.

    A label covers no mark and no other label, and few of the `lines`.
    """
    taken = [_mark_box(mark) for mark in marks]
    places: list[Place | None] = [None] * len(labels)
    for number in sorted(range(len(labels)), key=lambda at: (marks[at][1], marks[at][0])):
        choices = [
            (ring + 12 * sum(box.meets(_widen(line)) for line in lines), box)
            for ring, box in _candidates(labels[number], marks[number])
            if box.inside(frame) and not any(box.meets(other) for other in taken)
        ]
        if not choices:
            continue
        _, box = min(choices, key=lambda choice: choice[0])
        taken.append(box)
        places[number] = Place(box.left, box.bottom - 3.5, _leader_line(marks[number], box))
    return places


def apart(wanted: Sequence[float], least: float, low: float, high: float) -> list[float]:
    """Move the wanted positions at least `least` apart, and keep them between `low` and `high` if they fit."""
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    places = [wanted[at] for at in order]
    for number in range(len(places)):
        least_here = low if number == 0 else places[number - 1] + least
        places[number] = max(places[number], least_here)
    for number in reversed(range(len(places))):
        most_here = high if number == len(places) - 1 else places[number + 1] - least
        places[number] = min(places[number], most_here)
    heights = [0.0] * len(wanted)
    for at, place in zip(order, places, strict=True):
        heights[at] = place
    return heights


def _candidates(label: str, mark: tuple[float, float]) -> Iterator[tuple[float, Box]]:
    """Yield boxes around the mark with their distances, near ones first."""
    wide, high = svg.width(label), SIZE + 2
    for ring in _RINGS:
        for rank, direction in enumerate(_DIRECTIONS):
            across, down = math.cos(math.radians(direction)), math.sin(math.radians(direction))
            x = mark[0] + across * ring + (wide / 2) * (_sign(across))
            y = mark[1] + down * ring + (high / 2) * (_sign(down))
            yield ring + rank / 2, Box(x - wide / 2, y - high / 2, x + wide / 2, y + high / 2)


def _sign(value: float) -> int:
    return (value > 0.1) - (value < -0.1)


def _mark_box(mark: tuple[float, float]) -> Box:
    return Box(mark[0] - _MARK, mark[1] - _MARK, mark[0] + _MARK, mark[1] + _MARK)


def _widen(line: Box) -> Box:
    """Widen a line to the width of its caps."""
    return Box(line.left - 1, line.top - 1, line.right + 1, line.bottom + 1)


def _leader_line(mark: tuple[float, float], box: Box) -> tuple[float, float, float, float] | None:
    """Return a line from the edge of the mark to the nearest point of the label; None if they are close."""
    x, y = min(max(mark[0], box.left), box.right), min(max(mark[1], box.top), box.bottom)
    away = math.hypot(x - mark[0], y - mark[1])
    if away <= _LEADERLESS_DISTANCE:
        return None
    start = _MARK / away
    return mark[0] + (x - mark[0]) * start, mark[1] + (y - mark[1]) * start, x, y


# ---------------------------------------------------------------- dots

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
    parts = [down(across, top - 4, top + rows), axis_below(across, axis, top + rows)]
    parts += [ticks(across, 16)] if rows > _TALL_PLOT else []
    for group in groups:
        if group.heading:
            parts.append(svg.words(0, y + 18, svg.fitted(group.heading, WIDTH), kind="heading", full=group.heading))
            y += _HEADING
        for dot in group.dots:
            parts.append(_draw_row(dot, across, y, row, above))
            y += row
    summary = "; ".join(f"{dot.label}: {write_figure(dot.figure)}" for dot in every)
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
    figure = svg.coloured(dot.style, [drawn, place], f"{dot.label}: {write_figure(dot.figure)}")
    return key + label + svg.line(across.start, middle, across.end, middle, "row") + figure


# ---------------------------------------------------------------- scatter plot

_SCATTER_LEFT, _SCATTER_TOP, _SCATTER_RIGHT, _SCATTER_BOTTOM = 42.0, 26.0, WIDTH - 14, 310.0
_POINT_LABELS = 150.0


@dataclass(frozen=True, slots=True)
class Point:
    """Two figures of one method. `style` is the number of the method."""

    label: str
    style: int
    x: Figure
    y: Figure


def draw_scatter(title: str, points: Sequence[Point], x: Axis, y: Axis) -> str:
    """Draw a mark per method with both intervals and a label; labels without a free place are listed below."""
    drawn = [point for point in points if point.x.known and point.y.known]
    missing = [point.label for point in points if not (point.x.known and point.y.known)]
    across = scale(x, (point.x for point in drawn), _SCATTER_LEFT + 8, _SCATTER_RIGHT - 8)
    up = scale(y, (point.y for point in drawn), _SCATTER_BOTTOM - 8, _SCATTER_TOP + 8)
    marks = [(across.at(point.x.value or 0.0), up.at(point.y.value or 0.0)) for point in drawn]
    whiskers = [_whiskers(point, mark, across, up) for point, mark in zip(drawn, marks, strict=True)]
    labels = [svg.fitted(point.label, _POINT_LABELS) for point in drawn]
    lines = [box for boxes in whiskers for box in boxes]
    places = beside(labels, marks, lines, Box(_SCATTER_LEFT, _SCATTER_TOP - 8, WIDTH, _SCATTER_BOTTOM))
    parts = [
        down(across, _SCATTER_TOP, _SCATTER_BOTTOM),
        sideways(up, _SCATTER_LEFT, _SCATTER_RIGHT),
        axis_below(across, x, _SCATTER_BOTTOM),
    ]
    parts += [svg.words(0, 12, y.title, kind="title")]
    parts += [_draw_point(point, mark, boxes) for point, mark, boxes in zip(drawn, marks, whiskers, strict=True)]
    parts += [_draw_label(dot.label, text, at) for dot, text, at in zip(drawn, labels, places, strict=True) if at]
    unplaced = [(point.style, point.label) for point, at in zip(drawn, places, strict=True) if at is None]
    below, height = lines_below(unplaced, missing, _SCATTER_BOTTOM + BELOW)
    summary = "; ".join(f"{point.label}: {write_figure(point.y)} at {write_figure(point.x)}" for point in drawn)
    return svg.drawing(title, summary, height, [*parts, *below])


def _whiskers(point: Point, mark: tuple[float, float], across: Scale, up: Scale) -> list[Box]:
    """Return the whiskers of a point as boxes without width or height."""
    x, y = mark
    boxes = []
    if point.x.bounds is not None:
        low, high = point.x.bounds
        boxes.append(Box(across.at(low), y, across.at(high), y))
    if point.y.bounds is not None:
        low, high = point.y.bounds
        boxes.append(Box(x, up.at(high), x, up.at(low)))
    return boxes


def _draw_point(point: Point, mark: tuple[float, float], boxes: Sequence[Box]) -> str:
    lines = [svg.whisker(box.left, box.top, box.right, box.bottom) for box in boxes]
    tooltip = f"{point.label}: {write_figure(point.y)}; {write_figure(point.x)}"
    return svg.coloured(point.style, [*lines, svg.mark(point.style, *mark)], tooltip)


def _draw_label(full: str, text: str, place: Place) -> str:
    """Draw a label, with a leader line if it stands away from its mark."""
    leader = "" if place.leader is None else svg.line(*place.leader, "leader")
    return leader + svg.words(place.x, place.y, text, kind="label halo", full=full)


# ---------------------------------------------------------------- curves

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
    below, height = lines_below([], missing, bottom + BELOW)
    return svg.drawing(
        title, "; ".join(map(_describe_curve, drawn)), height, [svg.words(0, 12, y.title, kind="title"), *parts, *below]
    )


def _describe_curve(curve: Curve) -> str:
    return f"{curve.label}: " + ", ".join(f"{write_figure(figure)} at {k}" for k, figure in curve.known.items())


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
    parts = [down(across, _TOP, bottom), sideways(up, _LEFT, right), axis_below(across, x, bottom)]
    shifts = [number * step - aside for number in range(len(drawn))]
    parts += [_draw_curve(curve, across, up, shift, x) for curve, shift in zip(drawn, shifts, strict=True)]
    last = [
        (across.at(max(curve.known)) + shift, up.at(curve.known[max(curve.known)].value or 0.0))
        for curve, shift in zip(drawn, shifts, strict=True)
    ]
    ends = apart([at for _, at in last], LINE, _TOP + 8, bottom - 4)
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
        tooltip = svg.safe(f"{curve.label}, {called} = {k}: {write_figure(figure)}", 400)
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
        grid = sideways(up, left, left + wide, named=column == 0)
        parts += [label, grid, f'<g class="others">{others}</g>', _draw_curve(curve, across, up, 0.0, x)]
        if number + _COLUMNS >= len(drawn):
            parts.append(ticks(across, bottom + 15))
    bottom = _TOP + rows * (_PANEL + _PANEL_TITLE) - 10
    return [*parts, svg.words(WIDTH - 8, bottom + 32, x.title, "end", "title")], bottom
