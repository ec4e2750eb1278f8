"""Many calls of a server that fails: every answer received is paid once."""

import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import openai_server
import pytest
from made_language import ECHO, Echo, opened, texts
from openai_server import KEY, OpenAIServer, Received, cut, drop, status

from ragindex.accounting import ledger
from ragindex.llm import openai_chat
from ragindex.llm.cache import SQLiteCache, summarize
from ragindex.types import Usage


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        yield running


TROUBLE = [status(429), status(429, retry_after="0"), status(500), drop, cut(40)]


def a_fifth(received: Received, earlier: int) -> openai_server.Fault | None:
    """A fifth of the inputs fail at their first request, in five ways."""
    number = zlib.crc32(received.body["messages"][1]["content"].encode())
    return TROUBLE[number // 5 % 5] if number % 5 == 0 and earlier == 0 else None


def test_a_thousand_inputs_with_a_fifth_failing(server: OpenAIServer, tmp_path: Path) -> None:
    server.choose = a_fifth
    inputs, path = texts(1000), tmp_path / "calls.sqlite"
    failing = [zlib.crc32(each["text"].encode()) for each in inputs if zlib.crc32(each["text"].encode()) % 5 == 0]
    unread = sum(TROUBLE[number // 5 % 5] is TROUBLE[4] for number in failing)
    done: list[int] = []
    with ledger.record_calls() as tally:
        answers = opened(server, path, concurrency=32).map(ECHO, inputs, progress=done.append)
    assert answers == [Echo(**each) for each in inputs]
    assert sum(done) == 1000
    assert len(failing) > 150
    assert len(server.requests) == 1000 + len(failing)
    assert (
        server.sent - unread == 1000 == tally.calls == summarize(SQLiteCache(path))[0].responses
    )  # each whole answer is paid once
    assert tally.stages == {"echo": Counter({"strict": 1000, "retried": len(failing)})}
    assert tally.spent == Usage(tally.spent.seconds, 1000 * 10, 1000 * 4, tally.spent.money)
    assert tally.spent.money == pytest.approx(1000 * (10e-3 + 4 * 3e-3))
