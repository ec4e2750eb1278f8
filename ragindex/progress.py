"""Progress bars on standard error: only on a terminal, and only for what takes more than two seconds."""

import sys
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


class _Rate(ProgressColumn):
    """Items a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yields a function that says how many more items are done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeElapsedColumn())
    progress = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = progress.add_task(what, total=total)
    started, shown = time.monotonic(), False

    def advance(done: int) -> None:
        nonlocal shown
        progress.advance(task, done)
        if not shown and time.monotonic() - started > _PATIENCE:
            progress.start()
            shown = True

    try:
        yield advance
    finally:
        if shown:
            progress.stop()
