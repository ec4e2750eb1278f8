"""Structured logs: one line of JSON per event, on the logger `ragindex.serve`."""

import atexit
import contextlib
import json
import logging
import os
import queue
import threading
import time
from typing import Any

from ragindex._util.redaction import hide_secrets
from ragindex.errors import DataError, LLMError, RagindexError, UsageError

_logger = logging.getLogger("ragindex.serve")
_STANDARD_ERROR = 2
_MOST_LINES = 10_000
_DRAIN_SECONDS = 2.0
_GATHER_SECONDS = 0.05


def log_event(event: str, **values: Any) -> None:
    """Log an event with its values. Texts of questions and documents are no values, unless `log_texts` is set."""
    if _logger.isEnabledFor(logging.INFO):
        line = {"time": round(time.time(), 3), "event": event, **values}
        _logger.info(hide_secrets(json.dumps(line, ensure_ascii=True, default=str)))


def log_error(error: RagindexError) -> None:
    """Log an error. Messages that quote what a client or a model has written are left out."""
    quotes = isinstance(error, UsageError | DataError | LLMError)
    log_event("error", kind=type(error).__name__, **({} if quotes else {"message": str(error)}))


class _ErrorWriter(logging.Handler):
    """Writes lines to standard error in a thread of its own, so that no request waits for whoever reads them.

    Lines beyond what fits into the queue are left out, and their number is written when there is room again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str] = queue.Queue(_MOST_LINES)
        self._left_out = 0
        threading.Thread(target=self._write, name="ragindex-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put a line into the queue."""
        try:
            if self._left_out:
                self._lines.put_nowait(json.dumps({"event": "lines_left_out", "count": self._left_out}))
                self._left_out = 0
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._left_out += 1

    def drain(self) -> None:
        """Wait until all lines are written, for a few seconds at most."""
        until = time.monotonic() + _DRAIN_SECONDS
        while self._lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)

    def _write(self) -> None:
        while True:
            lines = [self._lines.get()]
            time.sleep(_GATHER_SECONDS)  # one call for many lines: requests wait while this thread has the lock
            lines += [self._lines.get() for _ in range(self._lines.qsize())]
            rest = "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
            with contextlib.suppress(OSError):  # nobody reads any more
                while rest:  # not by sys.stderr, whose lock a thread that waits here would keep when the program ends
                    rest = rest[os.write(_STANDARD_ERROR, rest) :]
            for _ in lines:
                self._lines.task_done()


def show_logs() -> None:
    """Write the events, and what uvicorn and asyncio report, to standard error, as the command does."""
    handler = _ErrorWriter()
    atexit.register(handler.drain)
    for logger in (_logger, logging.getLogger("uvicorn.error"), logging.getLogger("asyncio")):
        logger.addHandler(handler)
        logger.propagate = False
    _logger.setLevel(logging.INFO)
