"""A server that bills what it counts, and a working folder whose commands pay it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import make_desk
from openai_server import KEY, Answer, OpenAIServer
from rerank_server import reranking

from ragindex.llm import openai_chat

DOLLARS = {"/v1/chat/completions": 0.001, "/v1/embeddings": 0.0005, "/v1/rerank": 0.0002}
"""For a token; what a chat writes costs three times as much."""
PRICES = "models:\n  small: {input: 1000.0, output: 3000.0}\n  vectors: {input: 500.0, output: 0}\n  ranker: {input: 200.0, output: 0}\n"  # noqa: E501
PAID = ("--encoder", "openai:vectors", "--llm", "openai:small")
RERANKED = "rerank(base=dense, reranker=endpoint(model=ranker))"
METHODS = f"dense,dense(over=topics),{RERANKED}"
SAID = {"answer": "Grey Anna", "passages": [1], "found": True, "topic": "hill", "candidates": []}


class Till:
    """A server that keeps the receipts: of each answer with status 200 that says what it counted, by path."""

    def __init__(self, server: OpenAIServer) -> None:
        self.server = server
        self.receipts: list[tuple[str, int, int]] = []
        answer = server.answer

        def billed(received: Any) -> Answer | None:
            sent = answer(received)
            if sent is not None and sent.status == 200 and isinstance(sent.body, Mapping):
                counts = sent.body.get("usage") or {}
                read = counts.get("prompt_tokens") or counts.get("total_tokens") or 0
                self.receipts.append((received.path, read, counts.get("completion_tokens") or 0))
            return sent

        server.answer = billed  # type: ignore[method-assign]

    @property
    def money(self) -> float:
        return sum(DOLLARS[path] * (read + 3 * written) for path, read, written in self.receipts)

    @property
    def tokens(self) -> int:
        return sum(read + written for _, read, written in self.receipts)

    @property
    def kinds(self) -> set[str]:
        return {path for path, _, _ in self.receipts}

    def empty(self) -> None:
        self.receipts.clear()


@contextmanager
def billing() -> Iterator[Till]:
    """A server of chats, vectors and rerankings."""
    with OpenAIServer() as server:
        reranking(server)
        server.write = lambda body: json.dumps(SAID)
        yield Till(server)


def open_desk(till: Till, folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """A working folder whose commands pay the till, with prices."""
    make_desk(folder, patch)
    (folder / "prices.yaml").write_text(PRICES)
    patch.setattr(openai_chat, "_memories", {})
    patch.setenv("RAGINDEX_CONFIRM_ABOVE", "1000000")
    patch.setenv("RAGINDEX_PRICES", str(folder / "prices.yaml"))
    for name in ("OPENAI", "RERANK"):
        patch.setenv(f"{name}_API_KEY", KEY)
        patch.setenv(f"{name}_BASE_URL", till.server.url)
    return folder


def checked(till: Till, spent: Mapping[str, Any]) -> None:
    """The report has what was billed, and the till is emptied."""
    assert spent["input_tokens"] + spent["output_tokens"] == till.tokens
    assert spent["money"] == pytest.approx(till.money)
    till.empty()


def of_comparison(value: Mapping[str, Any]) -> dict[str, Any]:
    """Of all methods and of the reader's bounds."""
    every = [usage["usage"]["spent"] for usage in (*value["methods"], *value.get("bounds", ()))]
    return {name: sum(usage[name] for usage in every) for name in ("input_tokens", "output_tokens", "money")}
