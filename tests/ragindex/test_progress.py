"""Progress where standard error is no terminal: whole lines, no bar."""

import io
import threading
from contextlib import redirect_stderr

import pytest

from ragindex import progress
from ragindex.progress import progress_bar


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


@pytest.mark.parametrize(("total", "line"), [(1200, "asking: 34 of 1,200, 0 s"), (None, "asking: 0 s")])
def test_a_line_says_how_far_the_work_is(total: int | None, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.2)
    with redirect_stderr(Stream()) as stream, progress_bar("asking", total) as advance:
        advance(30)
        advance(4)
        assert stream.written.wait(10)
    assert stream.getvalue().splitlines()[0] == line
    assert "\r" not in stream.getvalue()


def test_short_work_prints_nothing() -> None:
    with redirect_stderr(io.StringIO()) as stream, progress_bar("reading files", 3) as advance:
        advance(3)
    assert stream.getvalue() == ""


def test_the_lines_end_with_the_work() -> None:
    before = threading.active_count()
    with redirect_stderr(io.StringIO()), pytest.raises(ValueError, match="broken"), progress_bar("reading", 3):
        assert threading.active_count() == before + 1
        raise ValueError("broken")
    assert threading.active_count() == before
