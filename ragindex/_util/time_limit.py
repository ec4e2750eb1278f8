"""A limit on the time that building takes. Work ends at its next safe point, where what is built so far stays usable.

Nothing is interrupted elsewhere: work without safe points runs to its end.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ragindex.errors import RagindexError

_end: ContextVar[float | None] = ContextVar("ragindex_time_limit", default=None)
"""When the work must end, by the monotonic clock; None if it may take as long as it takes."""


class TimeLimitError(RagindexError):
    """Building ran into a limit of `limit_time`; `parts` are the labels of the parts that it took so long for."""

    parts: tuple[str, ...] = ()


@contextmanager
def limit_time(seconds: float | None) -> Iterator[None]:
    """End the work of the block, at the first safe point after so many seconds. None sets no limit.

    Raises TimeLimitError at that point.
    """
    token = _end.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _end.reset(token)


def require_time() -> None:
    """Mark a safe point. Raises TimeLimitError if the time is over."""
    end = _end.get()
    if end is not None and time.monotonic() > end:
        raise TimeLimitError("Building was stopped, because the time that it may take is over.")
