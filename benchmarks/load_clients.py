"""Clients of a server: `python -m benchmarks.load_clients PORT CLIENTS SECONDS`, questions on standard input.

Questions are a JSON list. Prints the milliseconds of each request. It imports little, so that it starts at once on a
busy machine.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence

K = 5


async def ask_many(port: int, clients: int, seconds: float, questions: Sequence[str]) -> list[float]:
    """Search on `clients` connections for a time; return the milliseconds of each request that was answered."""
    taken = list[float]()
    until = time.perf_counter() + seconds

    async def search(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < until:
            start = time.perf_counter()
            writer.write(_request(questions[number % len(questions)]))
            status, size = await _read_head(reader)
            await reader.readexactly(size)
            assert status == 200, f"status {status}"
            taken.append(1e3 * (time.perf_counter() - start))
            number += clients
        writer.close()

    await asyncio.gather(*(search(number) for number in range(clients)))
    return taken


def _request(query: str) -> bytes:
    body = json.dumps({"query": query, "k": K}).encode()
    head = f"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, int]:
    """Return the status of a response and the length of its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    (length,) = [line.partition(":")[2] for line in head.split("\r\n") if line.startswith("content-length:")]
    return int(head.split()[1]), int(length)


if __name__ == "__main__":
    port, clients, seconds = sys.argv[1:]
    print(json.dumps(asyncio.run(ask_many(int(port), int(clients), float(seconds), json.load(sys.stdin)))))
