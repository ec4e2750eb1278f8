"""Where the time of a retrieval goes: the encoder, the store, or the method's own work.

The framework wraps encoders and collections; a method measures nothing itself and cannot forget to.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

_current: ContextVar["TimeSplit | None"] = ContextVar("ragindex_times", default=None)


@dataclass(slots=True)
class TimeSplit:
    """Seconds spent since recording began. `total` is set when it ends; `own` is what neither engine took."""

    encoder: float = 0.0
    store: float = 0.0
    total: float = 0.0

    @property
    def own(self) -> float:
        """Seconds of the method itself."""
        return max(0.0, self.total - self.encoder - self.store)


@contextmanager
def record_times() -> Iterator[TimeSplit]:
    """Measure everything this context (and threads that copy it) does inside the block."""
    times = TimeSplit()
    token = _current.set(times)
    start = time.perf_counter()
    try:
        yield times
    finally:
        times.total = time.perf_counter() - start
        _current.reset(token)


def add_seconds(where: Literal["encoder", "store"], seconds: float) -> None:
    """Book seconds on the current recording, if there is one."""
    times = _current.get()
    if times is None:
        return
    if where == "encoder":
        times.encoder += seconds
    else:
        times.store += seconds
