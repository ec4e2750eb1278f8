"""The socket that a server listens on."""

import asyncio
import socket

import pytest

from ragindex.errors import UsageError
from ragindex.serve import app


async def _read_delay(listening: socket.socket) -> int:
    """Return whether a connection that asyncio accepts sends at once: its TCP_NODELAY."""
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = writer.get_extra_info("socket")
        accepted.set_result(info.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(connected, sock=listening):
        _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
        delay = await accepted
        writer.close()
    return delay


def test_connections_send_at_once() -> None:
    """Otherwise the second part of an answer waits until the client has acknowledged the first: 40 ms on Linux."""
    assert asyncio.run(_read_delay(app.bind_address("127.0.0.1", 0))) == 1


def test_a_taken_port_is_refused() -> None:
    with app.bind_address("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UsageError, match=rf"^The server cannot listen on 127\.0\.0\.1:{port}: .*\. Try --port\.$"):
            app.bind_address("127.0.0.1", port)
