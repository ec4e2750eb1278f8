"""How many answers a second the language layer gets of an endpoint that takes 200 ms, and replays from its cache.

    .venv/bin/python -m benchmarks.language [CALLS [CONNECTIONS [MILLISECONDS]]]

The endpoint is another process on 127.0.0.1 that waits and then answers. The ideal is connections by seconds: no more
can be had. Replays are answered by the cache file alone.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from benchmarks.waiting_server import waiting_server
from ragindex.accounting import ledger
from ragindex.interfaces.llm import LLM, LLMSettings
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.tasks import Task

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


def write_answer(_: dict[str, Any]) -> bytes:
    return BODY


def main(calls: int, connections: int, seconds: float) -> None:
    with waiting_server(seconds, write_answer) as url, tempfile.TemporaryDirectory() as folder:
        os.environ["OPENAI_API_KEY"] = "none-is-needed-here"
        prompt = Path(folder) / "prompt.jinja"
        prompt.write_text("[system]\nName the triples of a passage.\n[user]\n{{ passage }}\n")
        task = Task("triples", 1, prompt, Triples)
        plugin = OpenAICompatibleChat(model="any", base_url=url, concurrency=connections)
        language = plugin.open(LLMSettings(cache=SQLiteCache(Path(folder) / "calls.sqlite")))
        timed(language, task, range(-connections, 0))  # every connection is open
        paid = timed(language, task, range(calls))
        replayed = timed(language, task, range(calls))
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


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    count, at_once, milliseconds = (*given, *(1600, 32, 200)[len(given) :])
    main(count, at_once, milliseconds / 1e3)
