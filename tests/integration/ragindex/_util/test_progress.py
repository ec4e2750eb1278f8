"""Progress where standard error is no terminal: whole lines, no bar."""

import io
import threading
import time
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from ragindex._util import progress
from ragindex._util.progress import progress_bar
from ragindex.index import sync
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Document


class Stream(io.StringIO):
    """Standard error that is no terminal, and says when a line has been written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if "\n" in text:
            self.written.set()
        return count


@pytest.mark.parametrize(("total", "line"), [(1200, "asking: 34 of 1,200, 0 s,"), (None, "asking: 0 s")])
def test_a_line_says_how_far_the_work_is(total: int | None, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.2)
    with redirect_stderr(Stream()) as stream, progress_bar("asking", total) as advance:
        advance(30)
        advance(4)
        assert stream.written.wait(10)
    assert stream.getvalue().splitlines()[0].startswith(line)
    assert "\r" not in stream.getvalue()


def test_short_works_in_a_row_print_lines_as_one_long_work_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.2)
    monkeypatch.setattr(progress, "_silence", progress._Silence())
    until = time.monotonic() + 10
    with redirect_stderr(Stream()) as stream:
        while not stream.written.is_set() and time.monotonic() < until:
            with progress_bar("asking", 2) as advance:
                advance(1)
                time.sleep(0.03)
    assert stream.getvalue().startswith("asking: 1 of 2, 0 s, ")
    assert stream.getvalue().count("\n") == 1


def test_silence_begins_with_the_first_work_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a short work long after another one would print a line at once."""
    monkeypatch.setattr(progress, "_LINE_SECONDS", 1000.0)
    monkeypatch.setattr(progress, "_silence", progress._Silence())
    before = time.monotonic()
    with redirect_stderr(io.StringIO()):
        with progress_bar("reading files", 3):
            since = progress._silence.since
        with progress_bar("asking", 3):
            assert progress._silence.since == since >= before


def test_interrupt_at_the_end_leaves_no_work_that_prints_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else later work would print none."""

    class InterruptedThread(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            super().join(timeout)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading, "Thread", InterruptedThread)
    before = [*progress._lines_of]
    with redirect_stderr(io.StringIO()), pytest.raises(KeyboardInterrupt), progress_bar("reading files", 3):
        pass
    assert progress._lines_of == before


def test_the_lines_end_with_the_work() -> None:
    before = threading.active_count()
    with redirect_stderr(io.StringIO()), pytest.raises(ValueError, match="broken"), progress_bar("reading", 3):
        assert threading.active_count() == before + 1
        raise ValueError("broken")
    assert threading.active_count() == before


def test_lines_are_of_the_innermost_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.05)
    with redirect_stderr(Stream()) as stream, progress_bar("topics: finishing", None):
        with progress_bar("topics: encoding", 9) as advance:
            advance(2)
            stream.written.clear()
            assert stream.written.wait(10)
            before = len(stream.getvalue().splitlines())
            while len(inner := stream.getvalue().splitlines()[before:]) < 8:
                stream.written.clear()
                assert stream.written.wait(10)
        stream.written.clear()
        assert stream.written.wait(10)
    assert {line.partition(",")[0] for line in inner} == {"topics: encoding: 2 of 9"}
    assert stream.getvalue().splitlines()[-1].startswith("topics: finishing: ")


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_bar_within_a_bar_stands_below_it_in_one_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm-256color")
    with redirect_stderr(Terminal()) as screen:
        with progress_bar("topics: finishing", None), progress_bar("topics: encoding", 9) as advance:
            advance(2)
            (display,) = set(progress._bars_of)
            waited = threading.Event()
            while [task.visible for task in display.tasks] != [True, True]:
                waited.wait(0.01)
            display.refresh()
            rows = screen.getvalue().rpartition("topics: finishing")[2].splitlines()
            assert [task.description for task in display.tasks] == ["topics: finishing", "topics: encoding"]
        assert "topics: encoding" in rows[1]
        assert "2/9" in rows[1]
    assert progress._bars_of == []
    assert "\x1b[2K" in screen.getvalue().rpartition("0:00:00")[2]  # the rows are erased after they were last drawn


def test_finishing_a_part_shows_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(sync, "progress_bar", lambda what, total: (shown.append(what), progress_bar(what, total))[1])
    with Index.open(tmp_path / "index", create=True) as index:
        index.add([Document("a", "A", "A text.")])
        index.build(registry.scheme("bm25"))
    assert shown[-2:] == ["passages: indexing", "passages: finishing"]
