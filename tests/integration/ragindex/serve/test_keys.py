"""Keys: rights, collections, and filters that no request of any API escapes; Host and Origin."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
import pytest
from command_line import ragindex
from hypothesis import given, settings
from hypothesis import strategies as st
from served import RunningServer, build_index, serving

from examples import examples
from ragindex.errors import UsageError
from ragindex.filters import Terms
from ragindex.serve import app, telemetry
from ragindex.serve.config import ServeSettings, parse_collections
from ragindex.serve.keys import Keyring, load_keyring
from ragindex.serve.mcp import make_mcp_server
from ragindex.serve.service import Service
from ragindex.serve.spool import open_spool
from ragindex.types import Document

SECRETS = [f"{name}-0123456789abcdef" for name in ("admin", "red", "writer", "judge", "all-red")]
ADMIN, RED, WRITER, JUDGE, ALL_RED = SECRETS
KEYS = """
[[keys]]
name = "admin"
rights = ["read", "write"]
variable = "ADMIN_SECRET"

[[keys]]
name = "red"
rights = ["read"]
variable = "RED_SECRET"
collections = ["docs"]
filter = { "meta.team" = "red" }

[[keys]]
name = "writer"
rights = ["write"]
file = "writer.txt"
filter = { "meta.team" = "red" }

[[keys]]
name = "judge"
rights = ["judge"]
variable = "JUDGE_SECRET"

[[keys]]
name = "all-red"
rights = ["read", "write", "judge"]
variable = "ALL_RED_SECRET"
filter = { "meta.team" = "red" }
"""


@pytest.fixture(scope="module")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "keys.toml").write_text(KEYS)
    (folder / "writer.txt").write_text(f"{WRITER}\n")
    with pytest.MonkeyPatch.context() as patch:
        for name, secret in (("ADMIN", ADMIN), ("RED", RED), ("JUDGE", JUDGE), ("ALL_RED", ALL_RED)):
            patch.setenv(f"{name}_SECRET", secret)
        return load_keyring(folder / "keys.toml", ["docs", "other"])


@pytest.fixture(scope="module")
def server(keyring: Keyring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = build_index(tmp_path_factory.mktemp("secured") / "docs", ("bm25", "hybrid"))
    other = build_index(tmp_path_factory.mktemp("secured") / "other")
    with serving(
        f"docs={folder}", f"other={other}", methods=("bm25", "docs=hybrid"), keys=keyring, log_texts=True
    ) as running:
        yield running


def test_keys_are_read_and_their_secrets_are_not_kept(keyring: Keyring) -> None:
    assert [key.name for key in keyring.keys] == ["admin", "red", "writer", "judge", "all-red"]
    red = keyring.find(RED)
    assert (red.rights, red.collections) == ({"read"}, {"docs"})
    assert "filters" not in repr(red) or Terms("meta.team", ("red",)) in red.where.filters  # type: ignore[union-attr]
    assert keyring.find(RED + "x") is None
    for secret in SECRETS:
        assert secret not in repr(keyring)


@pytest.mark.parametrize(
    ("method", "path", "key", "status"),
    [
        ("POST", "/search", None, 401),
        ("POST", "/search", "wrong-0123456789abcdef", 401),
        ("POST", "/search", RED, 200),
        ("POST", "/search", WRITER, 403),
        ("POST", "/search", JUDGE, 403),
        ("POST", "/ask", None, 401),
        ("POST", "/ask", JUDGE, 403),
        ("POST", "/documents", RED, 403),
        ("POST", "/documents", None, 401),
        ("DELETE", "/documents/lindau", RED, 403),
        ("GET", "/documents/lindau", JUDGE, 403),
        ("GET", "/documents/lindau", None, 401),
        ("POST", "/v1/vector_stores/docs/search", None, 401),
        ("POST", "/v1/vector_stores/docs/search", JUDGE, 403),
        ("POST", "/v1/vector_stores/other/search", RED, 404),
        ("POST", "/mcp", None, 401),
        ("POST", "/mcp", WRITER, 403),
    ],
)
def test_rights(server: RunningServer, method: str, path: str, key: str | None, status: int) -> None:
    body: dict[str, Any] = {"documents": [{"id": "x", "text": "x"}]} if path == "/documents" else {"query": "ferry"}
    with server.client(key) as client:
        response = client.request(method, path, json=body if method == "POST" else None)
    assert response.status_code == status
    assert ("WWW-Authenticate" in response.headers) == (status == 401)
    with server.client() as client:
        basic = client.request(method, path, json=body, headers={"Authorization": f"Basic {ADMIN}"})
    assert basic.status_code == 401


def seen(server: RunningServer, body: dict[str, Any], path: str = "/search") -> str:
    """Everything that a client with the key `red` reads from a response."""
    with server.client(RED) as client:
        return client.post(path, json=body).text


VALUES = st.one_of(
    st.sampled_from(["red", "blue", "", "*"]),
    st.booleans(),
    st.integers(-3, 2000),
    st.floats(allow_nan=False, allow_infinity=False),
)
WHERE = st.dictionaries(
    st.sampled_from(["meta.team", "meta.year", "doc_ids", "passage_ids", "meta.x"]),
    st.one_of(VALUES, st.lists(VALUES, max_size=3), st.sampled_from(["vault", ["vault", "notes/bread"], ["vault#0"]])),
    max_size=3,
)
COMPARISONS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"]),
        "key": st.sampled_from(["team", "x"]),
        "value": VALUES,
    }
)
COMPOUND = st.recursive(
    COMPARISONS,
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["and", "or"]), "filters": st.lists(inner, max_size=3)}
    ),
    max_leaves=6,
)


@settings(max_examples=examples(30))
@given(where=WHERE, method=st.sampled_from(["", "hybrid"]))
def test_no_filter_of_a_client_widens_that_of_its_key(server: RunningServer, where: Any, method: str) -> None:
    text = seen(server, {"query": "secret map vault bread", "where": where, "method": method, "k": 100})
    assert "holds a secret" not in text
    assert "keeps for a week" not in text


@settings(max_examples=examples(30))
@given(filters=COMPOUND)
def test_no_attribute_filter_widens_that_of_its_key(server: RunningServer, filters: Any) -> None:
    text = seen(server, {"query": "secret map vault bread", "filters": filters}, "/v1/vector_stores/docs/search")
    assert "holds a secret" not in text
    assert "keeps for a week" not in text


def test_a_writer_with_a_filter_changes_only_what_passes_it(server: RunningServer) -> None:
    with server.client(WRITER) as client:
        post = {"id": "mine", "text": "mine", "metadata": {"team": "blue"}}
        assert client.post("/documents", json={"documents": [post]}).status_code == 403
        taken = {"id": "vault", "text": "mine now", "metadata": {"team": "red"}}
        assert client.post("/documents", json={"documents": [taken]}).status_code == 409
        assert client.delete("/documents/vault").status_code == 404
        both = [{"id": "fine", "text": "fine", "metadata": {"team": "red"}}, post]
        assert client.post("/documents", json={"documents": both}).status_code == 403
        assert client.get("/documents/fine").status_code == 404  # all or none


def test_a_limited_key_learns_nothing_of_what_it_may_not_see(server: RunningServer) -> None:
    """Neither other collections, nor how many documents others have, nor what they spend or wait for."""
    with server.client(RED) as red, server.client(ADMIN) as admin:
        ready = red.get("/ready").json()["collections"]
        assert set(ready) == {"docs"}
        assert ready["docs"].keys().isdisjoint({"documents", "pending", "sync_failure", "reason"})
        assert set(admin.get("/ready").json()["collections"]) == {"docs", "other"}
        assert (red.get("/metrics").status_code, admin.get("/metrics").status_code) == (403, 200)
        assert red.get("/page/collections").json()["collections"] == [
            {"name": "docs", "methods": ["bm25", "hybrid"], "documents": None}
        ]
    assert "other" not in str(make_mcp_server(server.service).instructions)


def test_reasons_name_no_document_of_others(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reason, ingestion = "document 'vault': it cannot be indexed", server.service.ingestions["docs"]
    monkeypatch.setattr(ingestion, "spool", open_spool(tmp_path))
    monkeypatch.setattr(ingestion, "failure", reason)
    with ingestion.spool.writing() as changes:
        changes.accept([(id, Document(id, "", id, {"team": "red"})) for id in ("waits", "fails")])
    ingestion.spool.finish(ingestion.spool.pending(2)[1:], {"fails": reason})
    with server.client(WRITER) as writer, server.client(ADMIN) as admin:
        for id, status in (("waits", "accepted"), ("fails", "failed")):
            answers = [client.get(f"/documents/{id}").json() for client in (writer, admin)]
            assert [answer["status"] for answer in answers] == [status] * 2
            assert "vault" not in answers[0]["reason"]
            assert answers[0]["reason"]
            assert answers[1]["reason"] == reason


ROUTES: dict[str, tuple[str, str, Any]] = {
    "read": ("GET", "/documents/{id}", None),
    "read in": ("GET", "/documents/{id}?collection=docs", None),
    "delete": ("DELETE", "/documents/{id}", None),
    "judge": ("POST", "/page/judgements", {"query": "map", "document": "{id}", "grade": 2}),
    "search": ("POST", "/search", {"query": "map", "where": {"doc_ids": "{id}"}}),
    "ask": ("POST", "/ask", {"query": "map", "where": {"doc_ids": "{id}"}}),
    "judged": ("POST", "/page/judged", {"query": "map"}),
    "fetch": (
        "POST",
        "/mcp",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "fetch", "arguments": {"id": "{id}"}},
        },
    ),
}


@pytest.mark.parametrize("route", ROUTES)
def test_document_of_others_is_answered_like_none(route: str, server: RunningServer) -> None:
    method, path, body = ROUTES[route]
    headers = {"Accept": "application/json, text/event-stream", "Origin": server.url}

    def ask(client: httpx2.Client, id: str) -> tuple[int, str]:
        sent = None if body is None else json.loads(json.dumps(body).replace("{id}", id))
        answer = client.request(method, path.replace("{id}", id), json=sent, headers=headers)
        return answer.status_code, re.sub(r'"(id|seconds|ms)": ?"?[\d.e-]+', "", answer.text.replace(id, "ID"))

    with server.client(ALL_RED) as client:
        hidden, missing = ask(client, "vault"), ask(client, "nowhere")
        assert hidden == missing
        assert "secret map" not in hidden[1]
        if "{id}" in path or route == "judge":
            assert hidden[0] == 404


FOREIGN_HOST, FOREIGN_ORIGIN = {"Host": "evil.example"}, {"Origin": "http://evil.example"}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/search", FOREIGN_HOST, 421),
        ("/search", {"Host": "evil.example:80"}, 421),
        ("/search", {"Host": "127.0.0.1@evil.example"}, 421),
        ("/search", {"Host": ""}, 421),
        ("/search", {"Host": "localhost:1"}, 200),
        ("/search", FOREIGN_ORIGIN, 403),
        ("/search", {"Origin": "null"}, 403),
        ("/search", {"Host": "localhost:81", "Origin": "http://localhost:80"}, 403),
        ("/search", {"Host": "localhost:81", "Origin": "http://localhost:81"}, 200),
        ("/mcp", FOREIGN_HOST, 421),
        ("/mcp", FOREIGN_ORIGIN, 403),
        ("/mcp", {}, 200),
        ("/v1/vector_stores/docs/search", FOREIGN_HOST, 421),
        ("/v1/vector_stores/docs/search", FOREIGN_ORIGIN, 403),
        ("/v1/vector_stores/docs/search", {}, 200),
    ],
)
def test_host_and_origin(server: RunningServer, path: str, headers: dict[str, str], status: int) -> None:
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with server.client(RED) as client:
        body = initialize if path == "/mcp" else {"query": "ferry"}
        accept = {"Accept": "application/json, text/event-stream"}
        assert client.post(path, json=body, headers=headers | accept).status_code == status


def test_pages_of_allowed_origins_can_use_the_server(server: RunningServer, keyring: Keyring, tmp_path: Path) -> None:
    folder = shutil.copytree(server.service.collections["docs"].spec.folder, tmp_path / "docs")
    page, foreign = {"Origin": "https://app.example"}, {"Origin": "http://evil.example"}
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    with (
        serving(f"docs={folder}", keys=keyring, allowed_origins=("https://app.example",)) as running,
        running.client() as browser,
    ):
        preflight = browser.options("/search", headers=page | asks)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        assert "POST" in preflight.headers["access-control-allow-methods"]
        assert "access-control-allow-origin" not in browser.options("/search", headers=foreign | asks).headers
        for secret, status in ((RED, 200), ("wrong", 401)):  # refusals can be read too
            headers = page | {"Authorization": f"Bearer {secret}"}
            answer = browser.post("/search", json={"query": "ferry"}, headers=headers)
            assert (answer.status_code, answer.headers.get("access-control-allow-origin")) == (status, page["Origin"])
        assert browser.post("/search", json={"query": "ferry"}, headers=foreign).status_code == 403


def test_an_exposed_server_needs_a_key(keyring: Keyring, tmp_path: Path) -> None:
    specs = parse_collections([f"docs={tmp_path}"], [])
    for open_to in ({"host": "0.0.0.0"}, {"host": "192.0.2.1"}, {"allowed_hosts": ("rag.example",)}):
        with pytest.raises(UsageError, match="without a key"):
            ServeSettings(specs, **open_to)  # type: ignore[arg-type]
        assert ServeSettings(specs, keys=keyring, **open_to).exposed  # type: ignore[arg-type]
    assert ServeSettings(specs, host="::1").exposed is False


def test_metrics_and_descriptions_of_an_exposed_server_need_a_key(
    server: RunningServer, keyring: Keyring, tmp_path: Path
) -> None:
    folder = shutil.copytree(server.service.collections["docs"].spec.folder, tmp_path / "docs")
    with (
        serving(f"docs={folder}", keys=keyring, allowed_hosts=("rag.example",)) as running,
        running.client() as stranger,
        running.client(JUDGE) as known,
    ):
        for path in ("/metrics", "/openapi.json"):
            assert (stranger.get(path).status_code, known.get(path).status_code) == (401, 200)
        assert stranger.get("/ready").json() == {"status": "ready", "collections": {}}
        assert "documents" in known.get("/ready").json()["collections"]["docs"]
        assert stranger.get("/health", headers={"Host": "rag.example"}).status_code == 200


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('name = "a"\nrights = ["read"]\nvariable = "SHORT"', "at least 16"),
        ('name = "a"\nrights = ["read"]\nvariable = "UNSET"', "which is not set"),
        ('name = "a"\nrights = ["all"]\nvariable = "LONG"', "rights"),
        ('name = "a"\nrights = ["read"]', "'variable'"),
        ('name = "a"\nrights = ["read"]\nvariable = "LONG"\ncollections = ["b"]', "Available: docs"),
        ('name = "a"\nrights = ["read"]\nvariable = "LONG"\nfilter = {passage_ids = "b"}', "passage_ids"),
        ('name = "a"\nrights = ["read"]\nvariable = "LONG"\nfilter = {team = "b"}', "meta.KEY"),
        ('name = "a"\nrights = ["read"]\nvariable = "LONG"\nid_prefix = "red"', "id_prefix"),
        ('name = "a"\nrights = ["read"]\nvariable = "LONG"\nmetadata_keys = -1', "metadata_keys"),
        ('name = "a"\nrights = ["read"]\nfile = "none.txt"', "none.txt"),
    ],
)
def test_wrong_files_of_keys(entry: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHORT", "tooshort")
    monkeypatch.setenv("LONG", "long-0123456789abcdef")
    (tmp_path / "keys.toml").write_text(f"[[keys]]\n{entry}\n")
    with pytest.raises(UsageError, match=message) as raised:
        load_keyring(tmp_path / "keys.toml", ["docs"])
    assert "tooshort" not in str(raised.value)
    assert "long-0123456789abcdef" not in str(raised.value)


def test_no_secret_is_logged(server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "ragindex.serve"), server.client(RED) as client:
        client.post("/search", json={"query": "ferry"})
        client.post("/search", json={"query": "ferry"}, headers={"Authorization": "Bearer wrong-0123456789abcdef"})
    lines = [json.loads(record.message) for record in caplog.records]
    assert [(line["status"], line.get("key")) for line in lines if line["event"] == "request"] == [
        (200, "red"),
        (401, None),
    ]
    assert RED not in caplog.text
    assert "wrong-0123456789abcdef" not in caplog.text


def test_a_filter_by_metadata_that_no_document_has_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, for keys that read, with what documents have; and in the log when keys are read again."""
    folder = build_index(tmp_path / "docs", ("bm25", "hybrid"))
    other = build_index(tmp_path / "other", documents=[Document("a", "A", "Some text.", {"tema": 1})])
    file, served = tmp_path / "keys.toml", list[Service]()
    file.write_text(KEYS.replace("meta.team", "meta.tema"))
    (tmp_path / "writer.txt").write_text(f"{WRITER}\n")
    for name, secret in (("ADMIN", ADMIN), ("RED", RED), ("JUDGE", JUDGE), ("ALL_RED", ALL_RED)):
        monkeypatch.setenv(f"{name}_SECRET", secret)
    monkeypatch.setattr(app, "run_server", lambda service, announce: served.append(service))
    monkeypatch.setattr(telemetry, "show_logs", lambda: None)  # it changes the process's loggers
    done = ragindex("serve", f"docs={folder}", f"other={other}", "--method", "bm25", "--keys", file)
    warnings = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        f"warning: The key {name!r} finds nothing in docs: its filter names the metadata key 'tema', which no document "
        "has. Available: team, url, year."
        for name in ("red", "all-red")
    ]
    (service,) = served
    file.write_text(KEYS.replace('name = "red"\nrights = ["read"]', 'name = "red"\nrights = ["judge"]'))
    state = type(service.collections["docs"].state)
    with patch.object(state, "list_metadata_keys", autospec=True, side_effect=state.list_metadata_keys) as listing:
        assert list(service.describe_unknown_fields()) == [line.removeprefix("warning: ") for line in warnings]
    assert listing.call_count == 2, "once for each collection, though two keys filter docs"
    service.reload_keys()
    assert list(service.describe_unknown_fields()) == [
        "The key 'all-red' finds nothing in other: its filter names the metadata key 'team', which no document has. "
        "Available: tema."
    ]
    service.close()
