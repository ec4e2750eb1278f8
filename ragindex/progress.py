"""Progress bars on standard error: only on a terminal, and only for work that takes more than two seconds."""

import sys
import threading
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


class _RateColumn(ProgressColumn):
    """A progress column with the number of items per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar, and yield a function that advances it by a number of items."""
    if not sys.stderr.isatty():
        yield lambda done: None
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
