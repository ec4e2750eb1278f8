"""Random requests by the schema, valid and invalid: none is an error of the server, none takes too much of it.

RAGINDEX_REQUESTS is the number of requests of each operation and kind; an hour by hand, with a seed a run:

    for seed in $(seq 1 40); do RANDOM_EXAMPLES=1 RAGINDEX_REQUESTS=400 python -m pytest -s -m slow \\
        --hypothesis-seed=$seed tests/slow/ragindex/serve/test_random_requests.py; done
"""

import json
import os
import resource
import time
from collections import Counter
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, openapi
from served import RunningServer, build_index, serving

from ragindex.serve.keys import Keyring, load_keyring
from ragindex.serve.page.page_routes import PAGE_ROUTER

REQUESTS = int(os.environ.get("RAGINDEX_REQUESTS", "100"))
"""Random requests of each operation and kind."""
MOST_SECONDS, MOST_MEMORY = 30, 1 << 30
"""Of a request, and by which the process may grow, in bytes."""
ALL_RIGHTS = "all-0123456789abcdef"
KNOWN = {"collection": "docs", "vector_store_id": "docs", "document": "lindau", "id": "ferry"}
OPEN_TO_ALL = ("/", "/health", "/ready", "/metrics")
MCP_METHODS = ("initialize", "ping", "tools/list", "tools/call", "resources/read", "prompts/get", "logging/setLevel")


def page_schema() -> dict[str, Any]:
    """The schema of the page's routes, which the server's own leaves out."""
    routes = [copy(route) for route in PAGE_ROUTER.routes]
    for route in routes:
        assert isinstance(route, APIRoute)
        route.include_in_schema = True
    return get_openapi(title="page", version="1", routes=routes)


def mcp_schema() -> dict[str, Any]:
    """A schema of the requests to /mcp, which has none."""
    tool = {"type": "object", "properties": {"name": {"enum": ["search", "fetch", "other"]}, "arguments": {}}}
    arguments = {
        "query": {"type": "string"},
        "id": {"type": "string"},
        "collection": {"enum": ["docs", "other", ""]},
        "k": {"type": "integer"},
        "start": {"type": "integer"},
        "max_tokens": {"type": "integer"},
        "where": {"type": "object"},
    }
    tool["properties"]["arguments"] = {"type": "object", "properties": arguments}
    body = {
        "type": "object",
        "required": ["jsonrpc", "id", "method"],
        "properties": {
            "jsonrpc": {"enum": ["2.0"]},
            "id": {"type": ["integer", "string"]},
            "method": {"enum": list(MCP_METHODS)},
            "params": {"anyOf": [tool, {"type": "object"}]},
        },
    }
    content = {"application/json": {"schema": body}}
    post = {"requestBody": {"content": content, "required": True}, "responses": {"200": {"description": "answer"}}}
    return {"openapi": "3.1.0", "info": {"title": "mcp", "version": "1"}, "paths": {"/mcp": {"post": post}}}


@pytest.fixture
def all_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyring:
    monkeypatch.setenv("ALL_SECRET", ALL_RIGHTS)
    (tmp_path / "keys.toml").write_text(
        '[[keys]]\nname = "all"\nrights = ["read", "write", "judge"]\nvariable = "ALL_SECRET"\n'
    )
    return load_keyring(tmp_path / "keys.toml", ["docs"])


def send_at_random(server: RunningServer, operation: Any, mode: GenerationMode) -> tuple[Counter[int], float]:
    """Send requests of one operation, most of them with the key of all rights.

    Return how often each status came, and the seconds of the slowest.
    """
    statuses, slowest = Counter[int](), 0.0

    @settings(max_examples=REQUESTS, suppress_health_check=list(HealthCheck), database=None)
    @given(
        case=operation.as_strategy(generation_mode=mode),
        key=st.sampled_from([*[ALL_RIGHTS] * 8, "wrong-0123456789abcdef", ""]),
        known=st.booleans(),
    )
    def send(case: Any, key: str, known: bool) -> None:
        nonlocal slowest
        for given_values in (case.path_parameters, case.body) if known else ():
            if isinstance(given_values, dict):
                given_values.update({name: KNOWN[name] for name in KNOWN if name in given_values})
        headers = {"Origin": server.url, **({"Authorization": f"Bearer {key}"} if key else {})}
        if operation.path == "/mcp":
            headers["Accept"] = "application/json, text/event-stream"
        start = time.perf_counter()
        response = case.call(base_url=server.url, headers=headers, timeout=MOST_SECONDS)
        slowest = max(slowest, time.perf_counter() - start)
        statuses[response.status_code] += 1
        assert response.status_code < 500, response.text
        assert "Traceback" not in response.text
        if response.status_code >= 400:
            is_no_http = response.text == "Invalid HTTP request received."  # refused below the application
            assert operation.path == "/mcp" or is_no_http or set(json.loads(response.text)) == {"error"}
        elif key != ALL_RIGHTS:
            assert operation.path in OPEN_TO_ALL

    send()
    return statuses, slowest


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@pytest.mark.filterwarnings("ignore::ragindex.errors.StaleWarning")  # as in the command, which syncs by itself
def test_random_requests_by_the_schema(tmp_path: Path, all_rights: Keyring) -> None:
    """Documents are written and synced meanwhile."""
    folder = build_index(tmp_path / "docs")
    with serving(f"docs={folder}", keys=all_rights) as server, server.client(ALL_RIGHTS) as client:
        schemas = [client.get("/openapi.json").raise_for_status().json(), page_schema(), mcp_schema()]
        operations = [result.ok() for schema in schemas for result in openapi.from_dict(schema).get_all_operations()]
        before = peak_memory()
        for mode in GenerationMode:
            figures = {
                f"{operation.method.upper()} {operation.path}": send_at_random(server, operation, mode)
                for operation in operations
                if mode is GenerationMode.POSITIVE or operation.body or operation.query or operation.path_parameters
            }
            for name, (statuses, slowest) in figures.items():
                print(f"{mode.value} {name}: {dict(statuses)}, slowest {slowest:.2f} s")
            if mode is GenerationMode.POSITIVE:
                refused = {
                    name for name, (statuses, _) in figures.items() if not any(status < 400 for status in statuses)
                }
        growth = peak_memory() - before
        answer = client.post("/search", json={"query": "lighthouse of Lindau", "k": 1}).raise_for_status().json()
    print(f"memory grew by {growth / 1e6:.0f} MB")
    assert [hit["id"] for hit in answer["hits"]] == ["lindau#0"]
    assert refused == set()
    assert growth < MOST_MEMORY
