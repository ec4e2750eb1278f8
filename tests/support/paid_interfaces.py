"""Every way to make ragindex pay for calls of a language model, each as a function of a desk and a budget.

A desk is a working folder with documents, questions and `w`, an index that is built for what is asked of it. What an
interface raises or prints about calls that failed is its own affair: what it paid is in the log of all runs.
"""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

from command_line import ragindex as command
from command_line import write
from mcp import Client
from served import serving, wait_until

import ragindex
from ragindex.errors import RagindexError
from ragindex.llm.answer_question import ANSWER, AnswerContext, answer_inputs
from ragindex.serve.config import ServeSettings, parse_collections
from ragindex.serve.keys import LOCAL, load_keyring
from ragindex.serve.mcp import make_mcp_server
from ragindex.serve.service import Service

Interface: TypeAlias = Callable[[Path, float | None], Mapping[str, Any] | None]
"""Pays within a budget, if there is one, and returns what its JSON says of it, if it has any."""

LLM = "openai(model=small, concurrency=2, retries=2, timeout=1.0, max_tokens=60)"
PART = "bm25(over=triples)"
"""Asks the model for each document."""
AGENT = "ircot(base=bm25)"
"""Asks the model for each question."""
QUESTION, OTHER_QUESTION = "Which hill is highest?", "What is slate?"


def build_desk(folder: Path) -> None:
    """Build the indexes of a desk; the model should behave. `u` is behind its documents, which `update` changes."""
    write(folder / "changing", {"ford.txt": "The ford is shallow.", "weir.txt": "The weir is old."})
    for documents, index in (("notes", "w"), ("changing", "u")):
        built = command("index", documents, "--index", index, "--methods", f"bm25,{PART},{AGENT}", "--llm", LLM)
        assert built.code == 0, built.err
    write(folder / "changing", {"ford.txt": "The ford is deep.", "lock.txt": "The lock is new."})


# ---------------------------------------------------------------- commands


COMMANDS: Mapping[str, tuple[str, ...]] = {
    "index": ("index", "notes", "--index", "i", "--methods", PART, "--llm", LLM),
    "add": ("add", "more", "--as", "more", "--index", "w"),
    "update": ("update", "--index", "u"),
    "compare": (
        *("compare", "notes", "--questions", "questions.csv", "--methods", AGENT, "--read"),
        *("--index", "i", "--out", "o", "--llm", LLM),
    ),
    "search": ("search", QUESTION, "--index", "w", "--method", AGENT),
    "ask": ("ask", QUESTION, "--index", "w", "--method", AGENT),
    "estimate": ("estimate", "notes", "--methods", PART, "--sample", "3", "--index", "i", "--llm", LLM),
    "judge": ("judge", "w", "questions.txt", "--methods", "bm25", "--out", "judged", "--llm", LLM),
    "recommend": (
        *("recommend", "notes", "--questions", "questions.csv", "--methods", f"bm25,{PART}"),
        *("--index", "i", "--llm", LLM),
    ),
    "gate": (
        *("gate", AGENT, "--against", "bm25", "--data", "notes", "--questions", "questions.csv"),
        *("--margin", "1", "--index", "i", "--llm", LLM),
    ),
}


def _as_interface(name: str) -> Interface:
    def pay(desk: Path, budget: float | None) -> Mapping[str, Any] | None:
        write(desk / "more", {"mill.txt": "The mill of Nether Quill grinds rye.", "ford.txt": "The ford is shallow."})
        write(
            desk / "notes", {"quill.txt": "Nether Quill is a town made of slate and rye."} if name == "update" else {}
        )
        result, limit = desk / "result.json", [] if budget is None else ["--budget", budget]
        result.unlink(missing_ok=True)
        ended = command(*COMMANDS[name], *limit, "--json", result)
        assert ended.code in (0, 6, 7, 8, 9), ended.err
        value = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
        return value.get("paid") or value.get("spent") if isinstance(value, dict) else None

    return pay


# ---------------------------------------------------------------- Python, adapters and MCP


def _build_in_python(desk: Path, budget: float | None) -> None:
    with ragindex.open(desk / "p", llm=LLM, budget=budget, create=True) as index, suppress(RagindexError):
        index.add([ragindex.Document(name, name, f"{name} is a hill of slate.") for name in ("Anna", "Bela", "Cora")])
        index.build(PART)


def _read_in_python(desk: Path, budget: float | None) -> None:
    with ragindex.open(desk / "w", read_only=True, budget=budget) as index, suppress(RagindexError):
        index.retriever(AGENT).search(QUESTION)
        index.llm.map(ANSWER, [answer_inputs(text, AnswerContext()) for text in (QUESTION, OTHER_QUESTION)])


def _search_langchain(desk: Path, budget: float | None) -> None:
    from ragindex.integrations.langchain import LangChainRetriever

    _search_each(LangChainRetriever.from_index(desk / "w", AGENT, budget=budget).invoke)


def _search_llama_index(desk: Path, budget: float | None) -> None:
    from ragindex.integrations.llama_index import LlamaIndexRetriever

    _search_each(LlamaIndexRetriever.from_index(desk / "w", AGENT, budget=budget).retrieve)


def _search_haystack(desk: Path, budget: float | None) -> None:
    from ragindex.integrations.haystack import HaystackRetriever

    _search_each(HaystackRetriever.from_index(desk / "w", AGENT, budget=budget).run)


def _search_dspy(desk: Path, budget: float | None) -> None:
    from ragindex.integrations.dspy import DSPyRetriever

    _search_each(DSPyRetriever.from_index(desk / "w", AGENT, budget=budget))


def _search_each(search: Callable[[str], object]) -> None:
    for question in (QUESTION, OTHER_QUESTION):
        with suppress(RagindexError):
            search(question)


def _use_mcp(desk: Path, budget: float | None) -> None:
    """As `ragindex mcp` does, over a connection within the process."""

    async def search(service: Service) -> None:
        async with Client(make_mcp_server(service, LOCAL)) as client:
            for question in (QUESTION, OTHER_QUESTION):
                await client.call_tool("search", {"query": question})

    service = Service(ServeSettings(parse_collections([str(desk / "w")], [AGENT]), read_only=True, budget=budget))
    try:
        asyncio.run(search(service))
    finally:
        service.close()


# ---------------------------------------------------------------- a server


_SECRET = "writer-0123456789abcdef"
_KEYS = """
[[keys]]
name = "writer"
rights = ["read", "write"]
variable = "WRITER_SECRET"
{limit}
"""


def _ask_server(desk: Path, budget: float | None) -> None:
    with (
        serving(f"docs={desk / 'w'}", methods=(AGENT,), read_only=True, budget=budget) as server,
        server.client() as client,
    ):
        for path in ("/search", "/ask"):
            client.post(path, json={"query": QUESTION})


def _write_to_server(desk: Path, budget: float | None) -> None:
    """The key of the writer has the budget. Without one there is nothing more to do: its documents have an end."""
    if budget is None:
        return
    keys, ids = desk / "keys.toml", ["Anna", "Bela"]
    keys.write_text(_KEYS.format(limit=f"budget = {budget}"))
    with (
        patch.dict(os.environ, {"WRITER_SECRET": _SECRET}),
        serving(f"docs={desk / 'w'}", methods=(PART,), keys=load_keyring(keys, ["docs"])) as server,
        server.client(_SECRET) as client,
    ):
        documents = [{"id": id, "text": f"{id} is a hill of slate."} for id in ids]
        response = client.post("/documents", json={"documents": documents})
        assert response.status_code == 202, response.text
        ingestion = server.service.ingestions["docs"]
        wait_until(
            lambda: (
                ingestion.caps
                or {state.status for state in ingestion.spool.states(ids).values()} <= {"indexed", "failed"}
            ),
            seconds=240,
        )


INTERFACES: Mapping[str, Interface] = {
    **{name: _as_interface(name) for name in COMMANDS},
    "Python, building": _build_in_python,
    "Python, reading": _read_in_python,
    "LangChain": _search_langchain,
    "LlamaIndex": _search_llama_index,
    "Haystack": _search_haystack,
    "DSPy": _search_dspy,
    "mcp": _use_mcp,
    "serve, asking": _ask_server,
    "serve, writing": _write_to_server,
}
