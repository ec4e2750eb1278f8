"""Placement of labels in a plot without overlaps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragindex_eval.report.plots import svg
from ragindex_eval.report.plots.svg import SIZE, Box

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
    """Move the wanted positions at least `least` apart, and keep them between `low` and `high` if there is room."""
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
