"""Random requests by the schema: none is an error of the server."""

import json
import os
from collections import Counter
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import openapi
from served import RunningServer, build_index, serving

from ragindex.serve.keys import Keyring, load_keyring
from ragindex.serve.page.page_routes import PAGE_ROUTER

REQUESTS = int(os.environ.get("RAGINDEX_REQUESTS", "100"))
"""Random requests for each operation of the schema."""
ALL_RIGHTS = "all-0123456789abcdef"
KNOWN = {"collection": "docs", "vector_store_id": "docs", "document": "lindau", "id": "ferry"}
OPEN_TO_ALL = ("/", "/health", "/ready", "/metrics")


def page_schema() -> dict[str, Any]:
    """The schema of the page's routes, which the server's own leaves out."""
    routes = [copy(route) for route in PAGE_ROUTER.routes]
    for route in routes:
        assert isinstance(route, APIRoute)
        route.include_in_schema = True
    return get_openapi(title="page", version="1", routes=routes)


@pytest.fixture
def all_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyring:
    monkeypatch.setenv("ALL_SECRET", ALL_RIGHTS)
    (tmp_path / "keys.toml").write_text(
        '[[keys]]\nname = "all"\nrights = ["read", "write", "judge"]\nvariable = "ALL_SECRET"\n'
    )
    return load_keyring(tmp_path / "keys.toml", ["docs"])


def ask_at_random(server: RunningServer, operation: Any) -> Counter[int]:
    """Send requests of one operation, most of them with the key of all rights; return how often each status came."""
    statuses = Counter[int]()

    @settings(max_examples=REQUESTS, suppress_health_check=list(HealthCheck), database=None)
    @given(
        case=operation.as_strategy(),
        key=st.sampled_from([*[ALL_RIGHTS] * 8, "wrong-0123456789abcdef", ""]),
        known=st.booleans(),
    )
    def ask(case: Any, key: str, known: bool) -> None:
        for given_values in (case.path_parameters, case.body) if known else ():
            if isinstance(given_values, dict):
                given_values.update({name: KNOWN[name] for name in KNOWN if name in given_values})
        headers = {"Origin": server.url, **({"Authorization": f"Bearer {key}"} if key else {})}
        response = case.call(base_url=server.url, headers=headers, timeout=30)
        statuses[response.status_code] += 1
        assert response.status_code < 500, response.text
        assert "Traceback" not in response.text
        if response.status_code >= 400:
            assert set(json.loads(response.text)) == {"error"}
        elif key != ALL_RIGHTS:
            assert operation.path in OPEN_TO_ALL

    ask()
    return statuses


@pytest.mark.filterwarnings("ignore::ragindex.errors.StaleWarning")  # as in the command, which syncs by itself
def test_random_requests_by_the_schema(tmp_path: Path, all_rights: Keyring) -> None:
    """Documents are written and synced meanwhile."""
    folder = build_index(tmp_path / "docs")
    with serving(f"docs={folder}", keys=all_rights) as server, server.client(ALL_RIGHTS) as client:
        schemas = [client.get("/openapi.json").raise_for_status().json(), page_schema()]
        operations = [found.ok() for one in schemas for found in openapi.from_dict(one).get_all_operations()]
        statuses = {f"{one.method.upper()} {one.path}": ask_at_random(server, one) for one in operations}
        found = client.post("/search", json={"query": "lighthouse of Lindau", "k": 1}).raise_for_status().json()
    print(sum(statuses.values(), Counter[int]()).total(), "requests", statuses)
    assert [hit["id"] for hit in found["hits"]] == ["lindau#0"]
    assert {name for name, counts in statuses.items() if not any(status < 400 for status in counts)} == set()
