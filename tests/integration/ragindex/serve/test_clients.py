"""The clients that people have: OpenAI's, and MCP's over HTTP."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_tools import structured, use_tools
from served import RunningServer, build_index, serving

from ragindex.serve.keys import load_keyring

RED = "red-0123456789abcdef"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(tmp_path_factory.mktemp("clients") / "docs")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    with serving(f"docs={folder}") as running:
        yield running


@pytest.fixture(scope="module")
def secured(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    file = tmp_path_factory.mktemp("keys") / "keys.toml"
    (file.parent / "red.txt").write_text(RED)
    file.write_text('[[keys]]\nname="red"\nrights=["read"]\nfile="red.txt"\nfilter={"meta.team"="red"}\n')
    with serving(f"docs={folder}", keys=load_keyring(file, ["docs"])) as running:
        yield running


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (None, ["lindau", "vault"]),
        ({"type": "eq", "key": "team", "value": "blue"}, ["vault"]),
        ({"type": "ne", "key": "team", "value": "blue"}, ["lindau"]),
        ({"type": "in", "key": "team", "value": ["red", "green"]}, ["lindau"]),
        ({"type": "nin", "key": "team", "value": ["red", "green"]}, ["vault"]),
        ({"type": "gte", "key": "year", "value": 1856}, ["lindau"]),
        ({"type": "gt", "key": "year", "value": 1856}, []),
        ({"type": "lt", "key": "year", "value": 1857}, ["lindau"]),
        (
            {
                "type": "or",
                "filters": [
                    {"type": "eq", "key": "team", "value": "blue"},
                    {"type": "and", "filters": [{"type": "lte", "key": "year", "value": 1856}]},
                ],
            },
            ["lindau", "vault"],
        ),
    ],
)
def test_attribute_filters(server: RunningServer, filters: Any, expected: list[str]) -> None:
    body = {"query": "lighthouse", **({"filters": filters} if filters else {})}
    with server.client() as client:
        answer = client.post("/v1/vector_stores/docs/search", json=body).json()
    assert sorted(hit["file_id"] for hit in answer["data"]) == expected


def test_the_openai_client_with_a_key(secured: RunningServer) -> None:
    with openai.OpenAI(base_url=f"{secured.url}/v1", api_key=RED, max_retries=0) as client:
        page = client.vector_stores.search(
            "docs", query=["lighthouse", "map"], max_num_results=3, ranking_options={"score_threshold": 0.0}
        )
        assert [hit.file_id for hit in page] == ["lindau"]
        (result,) = page.data
        assert (result.filename, result.content[0].type) == ("Lindau", "text")
        assert result.attributes["year"] == 1856
        assert (result.attributes["start"], result.attributes["end"]) == (0, 79)
        with pytest.raises(openai.NotFoundError, match="no collection"):
            client.vector_stores.search("other", query="lighthouse")
        with pytest.raises(openai.UnprocessableEntityError):
            client.vector_stores.search("docs", query="lighthouse", max_num_results=51)


def test_a_server_without_keys_and_options_that_are_null(server: RunningServer) -> None:
    """LiteLLM sends them so."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
        assert [hit.file_id for hit in client.vector_stores.search("docs:bm25", query="ferry")] == ["ferry"]
    options = ("filters", "max_num_results", "ranking_options", "rewrite_query")
    ranking = {"ranker": None, "score_threshold": None}
    with server.client() as client:
        for body in (dict.fromkeys(options), {"ranking_options": ranking}):
            answer = client.post("/v1/vector_stores/docs/search", json={"query": "ferry", **body})
            assert [hit["file_id"] for hit in answer.json()["data"]] == ["ferry"]


def test_mcp_over_http(server: RunningServer) -> None:
    async def run() -> None:
        async with Client(f"{server.url}/mcp") as client:
            await use_tools(client)

    asyncio.run(run())


def test_the_filter_of_a_key_holds_over_mcp(secured: RunningServer) -> None:
    async def run() -> None:
        headers = {"Authorization": f"Bearer {RED}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(f"{secured.url}/mcp", http_client=http)) as client,
        ):
            for where in (None, {"meta.team": "blue"}, {"doc_ids": "vault"}):
                answer = structured(await client.call_tool("search", {"query": "secret map vault", "where": where}))
                assert [result["id"] for result in answer["results"] if result["id"] == "vault"] == []
            assert (await client.call_tool("fetch", {"id": "vault"})).is_error
            assert structured(await client.call_tool("fetch", {"id": "ferry"}))["url"].endswith(
                "/documents/ferry?collection=docs"
            )

    asyncio.run(run())


def test_mcp_answers_are_bounded(tmp_path: Path) -> None:
    import ragindex

    text = " ".join(f"Sentence {number} speaks of the lighthouse." for number in range(400))
    folder = build_index(tmp_path / "long", documents=[ragindex.Document(f"d{n}", "Long", text) for n in range(3)])

    async def run(url: str) -> None:
        async with Client(f"{url}/mcp") as client:
            answer = structured(await client.call_tool("search", {"query": "lighthouse", "k": 10, "max_tokens": 200}))
            assert answer["truncated"] is True
            assert sum(len(result["text"]) for result in answer["results"]) <= 4 * 200
            read, start = "", 0
            while start is not None:
                part = structured(await client.call_tool("fetch", {"id": "d0", "start": start, "max_tokens": 1000}))
                read, start = read + part["text"], part["next_start"]
            assert read == text

    with serving(f"long={folder}") as running:
        asyncio.run(run(running.url))
