"""The tools that a server of DOCUMENTS in served.py has for MCP clients, used over any transport."""

import json
from typing import Any

from mcp import Client


def structured(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    value: dict[str, Any] = result.structured_content
    assert json.loads(result.content[0].text) == value
    return value


async def use_tools(client: Client) -> None:
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["search", "fetch"]
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
    answer = structured(await client.call_tool("search", {"query": "When was the lighthouse built?", "k": 1}))
    (hit,) = answer["results"]
    assert (hit["id"], hit["title"], hit["url"]) == ("lindau", "Lindau", "https://example.org/lindau")
    assert hit["text"].startswith("The lighthouse of Lindau was built in 1856.")
    assert hit["positions"][0]["doc_id"] == "lindau"
    document = structured(await client.call_tool("fetch", {"id": "lindau"}))
    assert document["text"].endswith("It stands at the harbour of Lindau.")
    assert document["truncated"] is False
    missing = await client.call_tool("fetch", {"id": "none"})
    assert missing.is_error
