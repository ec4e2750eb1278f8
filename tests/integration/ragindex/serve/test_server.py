"""The socket that a server listens on, and what its process writes."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from served import build_index

import ragindex
from ragindex.errors import UsageError
from ragindex.serve import app, server


async def _read_delay(listening: socket.socket) -> int:
    """Return whether a connection that asyncio accepts sends at once: its TCP_NODELAY."""
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held = writer.get_extra_info("socket")
        accepted.set_result(held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(connected, sock=listening):
        _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
        found = await accepted
        writer.close()
    return found


def test_connections_send_at_once() -> None:
    """Otherwise the second part of an answer waits until the client has acknowledged the first: 40 ms on Linux."""
    assert asyncio.run(_read_delay(server._bind("127.0.0.1", 0))) == 1


def test_a_taken_port_is_refused() -> None:
    with server._bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UsageError, match=rf"^The server cannot listen on 127\.0\.0\.1:{port}: .*\. Try --port\.$"):
            server._bind("127.0.0.1", port)


@pytest.mark.parametrize("read_only", [False, True])
def test_only_a_server_without_a_sync_warns_of_parts_that_are_older(tmp_path: Path, read_only: bool) -> None:
    folder = build_index(tmp_path / "docs")
    command = [sys.executable, "-m", "ragindex", "serve", f"docs={folder}", "--method", "bm25", "--port", "0"]
    environment = {**os.environ, "RAGINDEX_WRITE_KEY": "write-0123456789abcdef"}
    command = [*command, *(["--read-only"] if read_only else [])]
    running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    try:
        address = next(line for line in running.stderr if "Serving docs at " in line).rpartition(" ")[2].strip()
        with ragindex.open(folder) as index:
            index.add([ragindex.Document("new", "", "a document that no part knows yet")], source="another")
        time.sleep(3 * app._CHECK_SECONDS)  # until the server has moved on to this state
        assert httpx2.get(f"{address}/documents/ferry", timeout=60).json()["status"] == "indexed"
        running.send_signal(signal.SIGTERM)
        said = running.communicate(timeout=60)[1]
    finally:
        running.kill()
        running.wait()
    assert ("The part passages is older than the corpus." in said) == read_only, said
