"""Scatter plot of one figure against another, such as quality against latency or money."""

from collections.abc import Sequence
from dataclasses import dataclass

from ragindex_eval.report.plots import frame, placing, svg
from ragindex_eval.report.plots.axes import Axis, Figure, Scale, scale
from ragindex_eval.report.plots.svg import WIDTH, Box

_LEFT, _TOP, _RIGHT, _BOTTOM = 42.0, 26.0, WIDTH - 14, 310.0
_LABELS = 150.0


@dataclass(frozen=True, slots=True)
class Point:
    """Two figures of one method. `style` is the number of the method."""

    label: str
    style: int
    x: Figure
    y: Figure


def draw_scatter(title: str, points: Sequence[Point], x: Axis, y: Axis) -> str:
    """Draw a mark per method with both intervals and a label; labels that find no room are listed below."""
    drawn = [point for point in points if point.x.known and point.y.known]
    missing = [point.label for point in points if not (point.x.known and point.y.known)]
    across = scale(x, (point.x for point in drawn), _LEFT + 8, _RIGHT - 8)
    up = scale(y, (point.y for point in drawn), _BOTTOM - 8, _TOP + 8)
    marks = [(across.at(point.x.value or 0.0), up.at(point.y.value or 0.0)) for point in drawn]
    whiskers = [_whiskers(point, mark, across, up) for point, mark in zip(drawn, marks, strict=True)]
    labels = [svg.fitted(point.label, _LABELS) for point in drawn]
    lines = [box for boxes in whiskers for box in boxes]
    places = placing.beside(labels, marks, lines, Box(_LEFT, _TOP - 8, WIDTH, _BOTTOM))
    parts = [frame.down(across, _TOP, _BOTTOM), frame.sideways(up, _LEFT, _RIGHT), frame.axis_below(across, x, _BOTTOM)]
    parts += [svg.words(0, 12, y.title, kind="title")]
    parts += [_draw_point(point, mark, boxes) for point, mark, boxes in zip(drawn, marks, whiskers, strict=True)]
    parts += [_draw_label(dot.label, text, at) for dot, text, at in zip(drawn, labels, places, strict=True) if at]
    unplaced = [(point.style, point.label) for point, at in zip(drawn, places, strict=True) if at is None]
    below, height = frame.lines_below(unplaced, missing, _BOTTOM + frame.BELOW)
    summary = "; ".join(f"{point.label}: {frame.said(point.y)} at {frame.said(point.x)}" for point in drawn)
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
    tooltip = f"{point.label}: {frame.said(point.y)}; {frame.said(point.x)}"
    return svg.coloured(point.style, [*lines, svg.mark(point.style, *mark)], tooltip)


def _draw_label(full: str, text: str, place: placing.Place) -> str:
    """Draw a label, with a leader line if it stands away from its mark."""
    leader = "" if place.leader is None else svg.line(*place.leader, "leader")
    return leader + svg.words(place.x, place.y, text, kind="label halo", full=full)
