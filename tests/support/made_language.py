"""A small task and languages over a loopback server, shared by the tests of the language layer."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai_server import KEY, OpenAIServer
from pydantic import BaseModel

from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import openai_chat
from ragindex.llm.cache import CachedResponse, CallSource, SQLiteCache
from ragindex.llm.client import LLMClient
from ragindex.llm.openai_compatible import OpenAICompatibleChat
from ragindex.llm.prices import Price, Prices
from ragindex.llm.rate_limits import Clock, sleep
from ragindex.llm.tasks import Task

PROMPT = Path(__file__).with_name("echo.jinja")
PRICES = Prices({"small": Price(input=1000.0, cached=500.0, output=3000.0)})  # per million: a thousandth a token
QUICK = Clock(sleep=lambda seconds: sleep(seconds / 50))


class Echo(BaseModel):
    """What the server answers where nothing is spoilt."""

    text: str


@contextmanager
def answering(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[Mapping[str, Any]], str] | None = None
) -> Iterator[OpenAIServer]:
    """A running server and the key to it; `write` says what it answers."""
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        running.write = write or running.write
        yield running


def by_rule(inputs: Mapping[str, Any]) -> Echo:
    return Echo(text=str(inputs["text"]))


ECHO = Task("echo", 1, PROMPT, Echo, rule=by_rule, max_tokens=100)


def opened(
    server: OpenAIServer, path: Path | None = None, setting: LLMSettings | None = None, **given: Any
) -> LLMClient:
    """`openai:small` at the server, keeping calls in the file `path`."""
    options = {} if path is None else {"cache": SQLiteCache(path)}
    plugin = OpenAICompatibleChat.model_validate({"model": "small", "base_url": server.url, **given})
    return plugin.open(setting or LLMSettings(prices=PRICES, clock=QUICK, **options))


def texts(count: int) -> list[dict[str, str]]:
    """Inputs of ECHO, all different, of three words each."""
    rng = random.Random(count)
    return [{"text": f"text {number} {rng.randrange(10**6)}"} for number in range(count)]


ORIGIN = CallSource("echo", 1, "openai", "small", "http://127.0.0.1/v1")
ANSWER = CachedResponse("{}", "stop", "", "schema", 10, 4, 5, False, 0.25, 1.5, 1000.0)


def key(number: int) -> str:
    return f"{number:016x}" * 4
