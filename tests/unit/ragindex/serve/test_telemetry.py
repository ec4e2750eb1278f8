"""Logs: no event waits for a reader of standard error, and a task that fails leaves no text of a document."""

import asyncio
import json
import logging
import os

import pytest

from ragindex.serve import telemetry
from ragindex.serve.app import _log_failure


def test_lines_that_nobody_reads_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(telemetry, "_MOST_LINES", 100)
    handler = telemetry._ErrorWriter(writing)
    sent = 5000  # more than the pipe and the queue hold

    def log(text: str) -> None:
        handler.emit(logging.LogRecord("x", logging.INFO, "", 0, text, None, None))

    for number in range(sent):
        log(f"{number:0100d}")
    with os.fdopen(reading) as read:
        lines = [read.readline()]
        while handler._lines.qsize() > 90:
            lines.append(read.readline())
        log("the last")
        while lines[-1] != "the last\n":
            lines.append(read.readline())
        os.close(writing)
    counts = [json.loads(line)["count"] for line in lines if line.startswith("{")]
    assert counts
    assert sum(counts) + len(lines) - len(counts) - 1 == sent


def test_all_lines_are_written_at_the_end() -> None:
    reading, writing = os.pipe()
    handler = telemetry._ErrorWriter(writing)
    for number in range(20):
        handler.emit(logging.LogRecord("x", logging.INFO, "", 0, f"line {number}", None, None))
    handler.drain()
    os.close(writing)
    with os.fdopen(reading) as read:
        assert read.read().splitlines() == [f"line {number}" for number in range(20)]


async def end_tasks() -> None:
    async def fail() -> None:
        raise ValueError("a text of a document")

    tasks = [asyncio.create_task(fail(), name="indexing into notes"), asyncio.create_task(asyncio.sleep(60))]
    for task in tasks:
        task.add_done_callback(_log_failure)
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_task_that_ends_by_an_error_is_logged_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "ragindex.serve"):
        asyncio.run(end_tasks())
    (line,) = [json.loads(record.message) for record in caplog.records]
    del line["time"]
    assert line == {
        "event": "error",
        "kind": "ValueError",
        "message": "indexing into notes has ended. Restart the server.",
    }
