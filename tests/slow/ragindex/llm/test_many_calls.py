"""Many calls, of a server that fails, from threads and processes that die: every answer received is paid once."""

import os
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import language_child
import openai_server
import pytest
from made_language import ECHO, Echo, opened, texts
from openai_server import KEY, OpenAIServer, Received, cut, drop, slow, status

from ragindex.accounting import ledger
from ragindex.llm import openai_chat
from ragindex.llm.cache import SQLiteCache, summarize
from ragindex.types import Usage

CHILD = Path(language_child.__file__)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CHILD.parent), *sys.path]))
    with OpenAIServer() as running:
        yield running


def child(server: OpenAIServer, path: Path, count: int, concurrency: int) -> "subprocess.Popen[str]":
    """A process that has imported everything and begins when a line is written to it."""
    command = [sys.executable, str(CHILD), server.url, str(path), str(count), str(concurrency)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ended(process: "subprocess.Popen[str]") -> str:
    out, _ = process.communicate()
    return out


def ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def begin(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


# ---------------------------------------------------------------- failures among many


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


# ---------------------------------------------------------------- threads and processes


def test_killed_while_asking(server: OpenAIServer, tmp_path: Path) -> None:
    server.choose = lambda received, earlier: slow(0.02)
    path, concurrency, count = tmp_path / "calls.sqlite", 8, 300
    process = child(server, path, count, concurrency)
    ready(process)
    begin(process)
    while server.sent < 60:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    ended(process)
    while server.in_flight:
        time.sleep(0.002)
    responses, sent = summarize(SQLiteCache(path))[0].responses, server.sent
    under_way = concurrency + concurrency // 4 + 1  # on a connection, or being kept
    assert 60 - under_way <= responses < count
    assert 0 <= sent - responses <= under_way  # nothing else is lost
    with ledger.record_calls() as tally:
        assert opened(server, path, concurrency=8).map(ECHO, texts(count)) == [Echo(**each) for each in texts(count)]
    assert (tally.replayed, server.sent) == (responses, sent + count - responses)
