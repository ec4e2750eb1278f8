"""The pieces of a file that the meter counts the words of, and where they stand."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ragindex.counts import many

ON_PURPOSE = frozenset(("navigation", "deleted text", "contents", "header or footer"))
"""Kinds of pieces that readers leave out on purpose."""
_PLURALS = {
    "text box": "text boxes",
    "cell of code": "cells of code",
    "cell of text": "cells of text",
}
_CHECKED = 256  # pieces between two looks at the clock


class MeterStoppedError(Exception):
    """The time or the size that counting may take is used up."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A text of a file, such as a paragraph: the `kind` of place that it is in ("": the body), and which one it is.

    A text that no program can see has the estimated number of its `words`, and `place` says where it is.
    """

    kind: str
    group: int
    text: str
    words: int = 0
    place: str = ""


class TimedPieces:
    """Pieces until a time is reached, at which MeterStoppedError is raised."""

    def __init__(self, pieces: Iterator[Piece], deadline: float) -> None:
        self._pieces, self._deadline = pieces, deadline

    def __iter__(self) -> Iterator[Piece]:
        for number, piece in enumerate(self._pieces):
            if number % _CHECKED == 0 and time.monotonic() > self._deadline:
                raise MeterStoppedError
            yield piece


def pluralise(count: int, kind: str) -> str:
    """Return a number of places of one kind, as "3 text boxes"."""
    return many(count, kind, _PLURALS.get(kind, ""))
