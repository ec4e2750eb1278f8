"""`ragindex mcp`, a process that MCP clients start themselves."""

import asyncio
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp_tools import use_tools
from served import build_index


def test_mcp_over_stdio(tmp_path: Path) -> None:
    folder = build_index(tmp_path / "docs")

    async def run() -> None:
        command = ["-m", "ragindex", "mcp", f"docs={folder}", "--method", "bm25"]
        async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
            await use_tools(client)

    asyncio.run(run())
