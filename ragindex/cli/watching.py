"""Waiting for files of sources to change, for `ragindex update --watch`."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragindex._util.distribution import require_module
from ragindex.errors import UsageError

_TICK_SECONDS = 0.5  # a signal is seen so soon


class Watcher:
    """Notes that files below some paths have changed, from when it is made: also while a round is running.

    Hidden files are not watched. Raises MissingExtraError, and UsageError if none of the paths is there.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = require_module("watchfiles", "watchfiles", "--watch")
        self._paths = [path for path in paths if os.path.exists(path)]
        if not self._paths:
            raise UsageError("--watch needs sources that are folders or files. Use --every TIME.")
        self._changed, self._stopped = threading.Event(), threading.Event()
        self._failure = ""
        threading.Thread(target=self._watch, daemon=True).start()

    def wait(self, seconds: float | None = None) -> None:
        """Return after the next change, or one since the last call; after `seconds` at the latest. Raises UsageError.

        A change is over when no file has changed for a moment.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while not self._changed.wait(_TICK_SECONDS):
            if self._failure:
                raise UsageError(f"The files cannot be watched: {self._failure}. Use --every TIME.")
            if end is not None and time.monotonic() >= end:
                break
        self._changed.clear()

    def close(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def _watch(self) -> None:
        try:
            for _ in self._files.watch(
                *self._paths, watch_filter=self._is_visible, stop_event=self._stopped, raise_interrupt=False
            ):
                self._changed.set()
        except (OSError, RuntimeError) as error:  # too many folders for the system, or a folder that is gone
            self._failure = str(error)

    def _is_visible(self, change: Any, path: str) -> bool:
        tops = (top for top in self._paths if Path(path).is_relative_to(top))
        inner = [Path(path).relative_to(top).parts for top in tops]
        return any(not any(part.startswith(".") for part in parts) for parts in inner)
