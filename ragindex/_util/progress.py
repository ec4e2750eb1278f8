"""Progress on standard error: a bar on a terminal, after two seconds; elsewhere a line every ten seconds.

Work within other work is a bar below the outer one; of lines, only those of the innermost work are printed. Several
short works in a row print lines as one long work does.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import inf

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

_PATIENCE = 2.0  # seconds before a bar appears
_LINE_SECONDS = 10.0


@dataclass(slots=True)
class _Silence:
    """Since when no line was printed: the last line, or the begin of work after a longer pause; when work ended last.

    Both are times of the monotonic clock.
    """

    since: float = 0.0
    ended: float = -inf


_silence = _Silence()
_lock = threading.Lock()
_lines_of: list[object] = []  # the work that prints lines, outermost first
_bars_of: list[Progress] = []  # the display of each open bar: the same one for all, for two would overwrite each other


@dataclass(slots=True)
class _Costs:
    """What is shown beside the progress: what the command has paid so far, "" if nothing."""

    describe: Callable[[], str] = lambda: ""


_costs = _Costs()


@contextmanager
def show_costs(describe: Callable[[], str]) -> Iterator[None]:
    """Show what `describe` returns beside the progress of all work inside the block."""
    before, _costs.describe = _costs.describe, describe
    try:
        yield
    finally:
        _costs.describe = before


class _CostColumn(ProgressColumn):
    """A progress column with what the command has paid."""

    def render(self, task: Task) -> Text:
        return Text(_costs.describe(), style="progress.data.speed")


class _RateColumn(ProgressColumn):
    """A progress column with the number of items per second."""

    def render(self, task: Task) -> Text:
        rate = _measure_rate(task.completed, task.elapsed)
        return Text("" if rate is None else _format_rate(rate), style="progress.data.speed")


class _TimeLeftColumn(ProgressColumn):
    """A progress column with the time left at the rate of the whole work."""

    def render(self, task: Task) -> Text:
        left = _estimate_left(task.completed, task.total, task.elapsed)
        return Text("" if left is None else f"{_format_seconds(left)} left", style="progress.remaining")


def _measure_rate(done: float, seconds: float | None) -> float | None:
    """Return the items per second since the work began.

    Rich measures over the last half minute, in which slow work may not end a single batch.
    """
    return done / seconds if done and seconds else None


def _estimate_left(done: float, total: float | None, seconds: float | None) -> float | None:
    rate = _measure_rate(done, seconds)
    return None if rate is None or total is None else max(0.0, total - done) / rate


def _format_rate(rate: float) -> str:
    return f"{rate:,.{0 if rate >= 10 else 1 if rate >= 1 else 2}f}/s"


def _format_seconds(seconds: float) -> str:
    """Format a duration with the digits that an estimate has."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def progress_bar(what: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
    """Show progress, and yield a function that advances it by a number of items; `total` is None if it is unknown.

    On a terminal this is a bar; elsewhere a line every ten seconds, as `hybrid: asking: 120 of 200, 20 s, 6.0/s, 13 s
    left`.
    """
    return (_bar if sys.stderr.isatty() else _lines)(what, total)


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    with _lock:
        bars = _bars_of[0] if _bars_of else _new_bars()
        _bars_of.append(bars)
    task = bars.add_task(what, total=total, visible=False)

    def show() -> None:
        bars.update(task, visible=True)
        bars.start()

    timer = threading.Timer(_PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done: bars.advance(task, done)
    finally:
        timer.cancel()
        timer.join()
        bars.refresh()  # a bar that is shown ends with how far the work came
        bars.remove_task(task)
        with _lock:
            _bars_of.pop()
            if not _bars_of:
                bars.stop()


def _new_bars() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _RateColumn(), TimeElapsedColumn())
    return Progress(*columns, _TimeLeftColumn(), _CostColumn(), console=Console(stderr=True), transient=True)


def _describe_pace(done: int, total: int | None, seconds: float) -> str:
    """Return how far the work came and its time, and once something is done, its rate and the time left."""
    parts = [*([] if total is None else [f"{done:,} of {total:,}"]), f"{seconds:.0f} s"]
    rate, left = _measure_rate(done, seconds), _estimate_left(done, total, seconds)
    parts += [] if rate is None or left is None else [_format_rate(rate), f"{_format_seconds(left)} left"]
    return ", ".join([*parts, *filter(None, [_costs.describe()])])


@contextmanager
def _lines(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    work, start, done, ended = object(), time.monotonic(), 0, threading.Event()

    def advance(by: int) -> None:
        nonlocal done
        with _lock:
            done += by

    def print_lines() -> None:
        while not ended.wait(_LINE_SECONDS / 20):
            with _lock:
                now = time.monotonic()
                if _lines_of[-1:] != [work] or now - _silence.since < _LINE_SECONDS:
                    continue
                _silence.since = now
            sys.stderr.write(f"{what}: {_describe_pace(done, total, time.monotonic() - start)}\n")
            sys.stderr.flush()

    with _lock:
        if not _lines_of and start - _silence.ended > _LINE_SECONDS:
            _silence.since = start
        _lines_of.append(work)
    thread = threading.Thread(target=print_lines, name="ragindex-progress", daemon=True)
    thread.start()
    try:
        yield advance
    finally:
        ended.set()
        with _lock:  # before the thread ends, which an interrupt may not wait for: later work would print no line
            _lines_of.remove(work)
            _silence.ended = time.monotonic()
        thread.join()
