"""`ragindex mcp`, a process that MCP clients start themselves."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp_tools import use_tools
from served import DOCUMENTS, build_index
from till import billing, open_desk

import ragindex


def test_mcp_over_stdio(tmp_path: Path) -> None:
    folder = build_index(tmp_path / "docs")

    async def run() -> None:
        command = ["-m", "ragindex", "mcp", f"docs={folder}", "--method", "bm25"]
        async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
            await use_tools(client)

    asyncio.run(run())


def test_mcp_pays_once_within_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def search(questions: list[str], *options: str) -> list[bool]:
        command = ["-m", "ragindex", "mcp", f"docs={folder}", "--method", "dense", *options]
        parameters = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
        async with Client(parameters) as client:
            answers = [await client.call_tool("search", {"query": question}) for question in questions]
        return [bool(answer.is_error) for answer in answers]

    with billing() as till:
        open_desk(till, tmp_path, monkeypatch)
        folder = tmp_path / "docs"
        with ragindex.open(folder, encoder="openai(model=vectors, dimensions=48)", create=True) as index:
            index.add(DOCUMENTS)
            index.build("dense")
        till.empty()
        cached = ("--cache", str(tmp_path / "answers.sqlite"))
        assert asyncio.run(search(["Who built the lighthouse?"] * 3, *cached)) == [False] * 3
        assert len(till.receipts) == 1
        limited = ("--budget", "0.0001")
        questions = ["Who built the lighthouse?", "How long does bread keep?"]
        assert asyncio.run(search(questions, *cached, *limited)) == [False, True]
        assert len(till.receipts) == 1
