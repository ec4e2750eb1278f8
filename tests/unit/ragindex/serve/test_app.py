"""Tasks of the server that end by an unexpected error."""

import asyncio
import json

import pytest

from ragindex.serve.app import _log_failure


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
