"""An endpoint in another process on 127.0.0.1 that waits before each answer, for measuring what waits for it."""

import asyncio
import contextlib
import json
import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

Answer = Callable[[dict[str, Any]], bytes]
"""Writes the body of the answer to a request's JSON object; a function of a module, so that it can be sent."""


@contextlib.contextmanager
def waiting_server(seconds: float, write_answer: Answer) -> Iterator[str]:
    """Yield the base URL of a server that answers each request after so many seconds."""
    here, there = multiprocessing.Pipe()
    endpoint = multiprocessing.Process(target=_serve, args=(there, seconds, write_answer), daemon=True)
    endpoint.start()
    yield f"http://127.0.0.1:{here.recv()}/v1"
    endpoint.terminate()


def _serve(told: Connection, seconds: float, write_answer: Answer) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):  # the client has gone
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                body = write_answer(json.loads(await reader.readexactly(int(length.partition(b":")[2]))))
                await asyncio.sleep(seconds)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())
