"""Progress on standard error: a bar on a terminal, after two seconds; elsewhere a line every ten seconds."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

_PATIENCE = 2.0  # seconds before a bar appears
_LINE_SECONDS = 10.0


class _RateColumn(ProgressColumn):
    """A progress column with the number of items per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show progress, and yield a function that advances it by a number of items; `total` is None if it is unknown.

    On a terminal this is a bar; elsewhere a line every ten seconds, as `hybrid: asking: 120 of 200, 20 s`.
    """
    if not sys.stderr.isatty():
        with _progress_lines(what, total) as advance:
            yield advance
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _RateColumn(), TimeElapsedColumn())
    progress = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = progress.add_task(what, total=total)
    timer = threading.Timer(_PATIENCE, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done: progress.advance(task, done)
    finally:
        timer.cancel()
        timer.join()
        progress.stop()


@contextmanager
def _progress_lines(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    start, done, ended, lock = time.monotonic(), 0, threading.Event(), threading.Lock()

    def advance(by: int) -> None:
        nonlocal done
        with lock:
            done += by

    def print_lines() -> None:
        while not ended.wait(_LINE_SECONDS):
            count = "" if total is None else f"{done:,} of {total:,}, "
            sys.stderr.write(f"{what}: {count}{time.monotonic() - start:.0f} s\n")
            sys.stderr.flush()

    thread = threading.Thread(target=print_lines, name="ragindex-progress", daemon=True)
    thread.start()
    try:
        yield advance
    finally:
        ended.set()
        thread.join()
