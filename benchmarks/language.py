"""How many answers a second the language layer gets of an endpoint that takes 200 ms, and replays from its cache.

    .venv/bin/python -m benchmarks.language [CALLS [CONNECTIONS [MILLISECONDS]]]

The endpoint is another process on 127.0.0.1 that waits and then answers. The ideal is connections by seconds: no more
can be had. Replays are answered by the cache file alone.
"""

import asyncio
import contextlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from pydantic import BaseModel

from ragindex.accounting import ledger
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.settings import LLMSettings
from ragindex.llm.tasks import LLM, Task

MESSAGE = {"role": "assistant", "content": '{"triples": [["a", "is", "b"], ["b", "is", "c"]]}'}
BODY = json.dumps(
    {
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 150, "completion_tokens": 20},
    }
).encode()
PASSAGE = "The river passes the old mill and the garden behind it, where the miller's letters were found. " * 6


class Triples(BaseModel):
    triples: list[tuple[str, str, str]]


def main(calls: int, connections: int, seconds: float) -> None:
    here, there = multiprocessing.Pipe()
    endpoint = multiprocessing.Process(target=serve, args=(there, seconds), daemon=True)
    endpoint.start()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OPENAI_API_KEY"] = "none-is-needed-here"
        prompt = Path(folder) / "prompt.jinja"
        prompt.write_text("[system]\nName the triples of a passage.\n[user]\n{{ passage }}\n")
        task = Task("triples", 1, prompt, Triples)
        plugin = OpenAICompatibleChat(
            model="any", base_url=f"http://127.0.0.1:{here.recv()}/v1", concurrency=connections
        )
        language = plugin.open(LLMSettings(cache=SQLiteCache(Path(folder) / "calls.sqlite")))
        timed(language, task, range(-connections, 0))  # every connection is open
        paid = timed(language, task, range(calls))
        replayed = timed(language, task, range(calls))
    endpoint.terminate()
    ideal = connections / seconds
    print(f"{calls} calls of {seconds * 1e3:.0f} ms, {connections} connections")
    print(f"  paid      {calls / paid:8.0f} answers a second, {calls / paid / ideal:.1%} of the ideal {ideal:.0f}")
    print(f"  replayed  {calls / replayed:8.0f} answers a second")


def timed(language: LLM, task: Task[Triples], numbers: Sequence[int]) -> float:
    start = time.perf_counter()
    with ledger.record_calls() as tally:
        language.map(task, [{"passage": f"{number} {PASSAGE}"} for number in numbers])
    assert tally.calls == len(numbers)
    return time.perf_counter() - start


# ---------------------------------------------------------------- the endpoint


def serve(told: Connection, seconds: float) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):  # the client has gone
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                await asyncio.sleep(seconds)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY))

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    count, at_once, milliseconds = (*given, *(1600, 32, 200)[len(given) :])
    main(count, at_once, milliseconds / 1e3)
