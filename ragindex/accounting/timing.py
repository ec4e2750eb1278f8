"""Split of a retrieval's time into encoder, vector store, and the method's own work.

The framework measures by wrapping encoders and collections, so methods contain no timing code.
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
    """Seconds spent since recording began. `total` is set at the end; `own` excludes encoder and store.

    `replayed` are the seconds that the encoder first took for vectors that it has not made again; no other figure has
    them.
    """

    encoder: float = 0.0
    store: float = 0.0
    replayed: float = 0.0
    total: float = 0.0

    @property
    def own(self) -> float:
        """Seconds spent in the method itself."""
        return max(0.0, self.total - self.encoder - self.store)


@contextmanager
def record_times() -> Iterator[TimeSplit]:
    """Measure the work of this context, and of threads that copy it, inside the block."""
    times = TimeSplit()
    token = _current.set(times)
    start = time.perf_counter()
    try:
        yield times
    finally:
        times.total = time.perf_counter() - start
        _current.reset(token)


def add_seconds(where: Literal["encoder", "store", "replayed"], seconds: float) -> None:
    """Add seconds to the current recording, if there is one."""
    times = _current.get()
    if times is None:
        return
    if where == "encoder":
        times.encoder += seconds
    elif where == "replayed":
        times.replayed += seconds
    else:
        times.store += seconds
