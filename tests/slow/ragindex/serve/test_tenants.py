"""Two tenants in one index: no search of one, through any method and interface, shows a document of the other.

TENANT_SEARCHES sets the number of searches, about; by hand 2,500 are worth their time.
"""

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from served import RunningServer, build_index, serving

import ragindex
from ragindex.plugins import registry
from ragindex.serve.keys import Keyring, load_keyring
from ragindex_eval.data import worlds

SEARCHES = int(os.environ.get("TENANT_SEARCHES", "240"))
TENANTS = ("tenred", "tenblue")
FACES = ("search", "ask", "store", "mcp", "page", "export")
SIZE = 60


def secret_of(tenant: str) -> str:
    return f"{tenant}-0123456789abcdef"


def mark_of(tenant: str, number: int) -> str:
    """The word that only this document has."""
    return f"zq{tenant}{number:04d}"


def make_documents() -> list[ragindex.Document]:
    """A world's documents, of the tenants in turn, so that graphs and trees join those of both."""
    documents = []
    for number, source in enumerate(worlds.make_documents(SIZE)):
        tenant = TENANTS[number % 2]
        mark = mark_of(tenant, number)
        text = f"{source.text} Mark {mark}."
        metadata: dict[str, Any] = {"team": tenant, "number": number, "tags": [tenant, f"t{number % 3}"]}
        documents.append(ragindex.Document(f"{tenant}-{number}", f"{source.title} {mark}", text, metadata))
    return documents


def load_keys(folder: Path, collections: list[str]) -> Keyring:
    entries = [
        f'[[keys]]\nname = "{name}"\nrights = ["read"]\nfile = "{name}.txt"\nfilter = {{ "meta.team" = "{name}" }}\n'
        for name in TENANTS
    ]
    (folder / "keys.toml").write_text("\n".join(entries))
    for tenant in TENANTS:
        (folder / f"{tenant}.txt").write_text(secret_of(tenant))
    return load_keyring(folder / "keys.toml", collections)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("tenants")
    schemes = tuple(name for name in registry.plugin_names("schemes") if name != "http")
    build_index(folder / "index", schemes, make_documents())
    with ragindex.open(folder / "index", read_only=True) as index:
        index.export("hybrid", folder / "export", pack=True)
    places = (f"live={folder}/index", f"{folder}/export.ragindex")
    methods = tuple(f"live={scheme}" for scheme in schemes)
    with serving(*places, methods=methods, keys=load_keys(folder, ["live", "export"])) as running:
        yield running


def make_where(rng: random.Random, other: str) -> dict[str, Any] | None:
    """A filter of REST that tries to reach the other tenant."""
    values: dict[str, Any] = {
        "meta.team": rng.choice([other, list(TENANTS), [other, "x"]]),
        "meta.number": {"gte": rng.randrange(SIZE)},
        "meta.tags": [other, "t1"],
        "doc_ids": [f"{other}-{number}" for number in range(SIZE)],
    }
    chosen = rng.sample(sorted(values), rng.randrange(3))
    return {field: values[field] for field in chosen} or None


def make_attributes(rng: random.Random, tenant: str, other: str, depth: int = 3) -> dict[str, Any]:
    """A filter of OpenAI's API, nested, with negations and lists."""
    if depth and rng.random() < 0.6:
        inner = [make_attributes(rng, tenant, other, depth - 1) for _ in range(rng.randrange(1, 3))]
        return {"type": rng.choice(["and", "or"]), "filters": inner}
    return rng.choice(
        [
            {"type": "ne", "key": "team", "value": tenant},
            {"type": "eq", "key": "team", "value": other},
            {"type": "nin", "key": "team", "value": [tenant, "x"]},
            {"type": "in", "key": "tags", "value": [other, "t2"]},
            {"type": "ne", "key": "none", "value": "x"},
            {"type": "gte", "key": "number", "value": rng.randrange(SIZE)},
        ]
    )


def search(client: Any, interface: str, method: str, tenant: str, other: str, rng: random.Random, query: str) -> str:
    """Search through an interface of HTTP; return all that the client reads."""
    where = make_where(rng, other)
    if interface == "store":
        filters = make_attributes(rng, tenant, other)
        body = {"query": query, "filters": filters, "max_num_results": 50}
        return str(client.post(f"/v1/vector_stores/live:{method}/search", json=body).raise_for_status().text)
    collection, named = ("export", "") if interface == "export" else ("live", method)
    body = {"query": query, "collection": collection, "method": named, "k": 50}
    path = {"ask": "/ask", "page": "/page/search"}.get(interface, "/search")
    if interface != "page":
        body["where"] = where
    if interface in ("search", "export"):
        body["trace"] = True
    return str(client.post(path, json=body).raise_for_status().text)


async def search_mcp(url: str, tenant: str, calls: list[dict[str, Any]]) -> list[str]:
    headers = {"Authorization": f"Bearer {secret_of(tenant)}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        results = [await client.call_tool("search", call) for call in calls]
        assert not any(result.is_error for result in results), results
        return [str(result.content) for result in results]


@pytest.mark.parametrize("tenant", TENANTS)
def test_no_search_shows_a_document_of_another_tenant(server: RunningServer, tenant: str) -> None:
    (other,) = set(TENANTS) - {tenant}
    rng, methods = random.Random(tenant), server.service.collections["live"].methods
    rounds = max(1, SEARCHES // (len(TENANTS) * len(FACES) * len(methods)))
    answers = dict[str, list[str]]()
    foreign = [document.title.rpartition(" ")[0] for document in make_documents() if document.id.startswith(other)]

    def ask() -> str:
        return f"Mark of {rng.choice(foreign)}"

    with server.client(secret_of(tenant)) as client:
        for method in methods * rounds:
            for interface in FACES:
                if interface != "mcp":
                    answers.setdefault(interface, []).append(
                        search(client, interface, method, tenant, other, rng, ask())
                    )
    calls = [
        {"query": ask(), "collection": "live", "method": method, "k": 50, "where": make_where(rng, other)}
        for method in methods * rounds
    ]
    answers["mcp"] = asyncio.run(search_mcp(server.url, tenant, calls))
    for interface, texts in answers.items():
        assert not [text for text in texts if f"zq{other}" in text or f"{other}-" in text], interface
        assert any(f"zq{tenant}" in text for text in texts), interface  # the searches find something at all
