"""Clients that mean harm: bodies without a key, connections that say nothing, checks without end."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from served import RunningServer, build_index, serving, wait_until

from ragindex.errors import StoreError
from ragindex.serve import operations
from ragindex.serve.config import RequestLimits
from ragindex.serve.keys import Keyring, load_keyring
from ragindex.serve.web import make_protocol, quiet_config

READ, WRITE, OTHER = (f"{name}-0123456789abcdef" for name in ("reader", "writer", "other"))
KEYS = "".join(
    f'[[keys]]\nname = "{name}"\nrights = ["{name}"]\nfile = "{name}.txt"\n{more}'
    for name, more in (("read", "budget = 2.5\n"), ("write", ""))
)
LIMITS = RequestLimits(header_timeout=0.4, connections=8, bodies=300_000, documents_body=200_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(tmp_path_factory.mktemp("attacked") / "docs")


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name, secret in (("read", READ), ("write", WRITE)):
        (folder / f"{name}.txt").write_text(secret)
    (folder / "keys.toml").write_text(KEYS)
    return folder / "keys.toml"


@pytest.fixture(scope="module")
def keyring(key_file: Path) -> Keyring:
    return load_keyring(key_file, ["docs"])


@pytest.fixture(scope="module")
def server(folder: Path, keyring: Keyring) -> Iterator[RunningServer]:
    with serving(f"docs={folder}", keys=keyring, limits=LIMITS) as running:
        yield running


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def head(path: str, length: int, key: str = "", more: str = "") -> bytes:
    """The head of a request whose body is still to come."""
    allowed = f"Authorization: Bearer {key}\r\n" if key else ""
    kind = "Content-Type: application/json\r\n"
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{kind}{allowed}{more}Content-Length: {length}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("path", "key", "length", "status"),
    [
        ("/documents", "", 30_000_000, 401),
        ("/documents", "wrong-0123456789abcdef", 100_000, 401),
        ("/documents", READ, 100_000, 403),
        ("/documents", WRITE, 200_001, 413),
        ("/search", "", 1000, 401),
        ("/search", READ, 200_000, 413),
        ("/v1/vector_stores/docs/search", "", 1000, 401),
        ("/v1/vector_stores/docs/search", READ, 200_000, 413),
        ("/page/search", "", 1000, 401),
        ("/page/judgements", READ, 1000, 403),
        ("/mcp", "", 1000, 401),
        ("/mcp", READ, 200_000, 413),
        ("/health", "", 30_000_000, 405),
        ("/nothing", "", 30_000_000, 404),
    ],
)
def test_a_refusal_waits_for_no_body(server: RunningServer, path: str, key: str, length: int, status: int) -> None:
    with connect(server.url) as client:
        client.sendall(head(path, length, key))
        assert client.recv(100).startswith(b"HTTP/1.1 %d " % status)
    assert (server.service.body_budget.taken, server.service.documents_budget.taken) == (0, 0)


def test_bodies_are_bounded_together(server: RunningServer) -> None:
    budget = server.service.documents_budget
    with connect(server.url) as slow, server.client(WRITE) as writer, server.client(READ) as reader:
        slow.sendall(head("/documents", 190_000, WRITE) + b"x" * 180_000)
        while budget.taken < 180_000:
            time.sleep(0.01)
        body = json.dumps({"documents": [{"id": "big", "text": "x" * 150_000}]}).encode()
        for sent in (body, iter([body[:60_000], body[60_000:]])):
            refused = writer.post("/documents", content=sent, headers={"Content-Type": "application/json"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "bodies")
            assert refused.headers["Retry-After"] == "1"
        assert reader.post("/search", json={"query": "ferry"}).status_code == 200
    while budget.taken:
        time.sleep(0.01)
    assert budget.taken == 0


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"documents": [{"id": "a", "text": "x" * 20_000, "metadata": {"n": [1, -2.5, None, True]}}]}, 202, ""),
        ({"documents": [{"id": "a", "text": 1}] * 2000}, 422, "body.documents.0.text: Input should be a valid string"),
        ({"documents": [1] * 20_000}, 422, "body.documents.0: Input should be a valid dictionary"),
        ("[" * 20_000, 400, "There was an error parsing the body."),
        ('{"documents": [' + " " * 20_000, 422, "body.20015: JSON decode error"),
        ('{"documents": [{"id": "a", "text": "\\ud800' + "x" * 20_000 + '"}]}', 422, "UTF-8"),
        (b'{"documents": "\xff' + b" " * 20_000 + b'"}', 400, "There was an error parsing the body."),
    ],
)
def test_large_bodies_are_parsed_as_small_ones(server: RunningServer, body: Any, status: int, message: str) -> None:
    content = json.dumps(body) if isinstance(body, dict) else body
    with server.client(WRITE) as client:
        response = client.post("/documents", content=content, headers={"Content-Type": "application/json"})
    assert (response.status_code, message in response.text) == (status, True)
    if status == 202:  # other servers open the same folder, and no build may be half done then
        with server.client(READ) as reader:
            wait_until(lambda: reader.get("/documents/a").json()["status"] == "indexed")


def test_two_lengths_are_refused_and_head_is_answered(server: RunningServer) -> None:
    with connect(server.url) as client:
        hidden = b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.sendall(head("/search", 3, READ, "Transfer-Encoding: chunked\r\n") + hidden)
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1  # what follows is no request
    with server.client(READ) as client:
        for path in ("/", "/health", "/ready", "/documents/ferry"):
            assert (client.head(path).status_code, client.head(path).content) == (200, b"")
        assert client.head("/search").status_code == 405


@pytest.mark.parametrize("begin", [b"", b"GET /health HTTP/1.1\r\nX-Long: ", head("/documents", 30_000_000)])
def test_clients_that_drip_are_dropped(server: RunningServer, begin: bytes) -> None:
    """Nothing at all, a header without end, and a body that is not wanted any more."""
    with connect(server.url) as client:
        client.sendall(begin)
        received, until = b"x", time.monotonic() + 15
        client.settimeout(0.1)
        while received:
            assert time.monotonic() < until, "the connection is kept"
            try:
                received = client.recv(4096)
                client.sendall(b"x" if begin else b"")
            except TimeoutError:
                client.sendall(b"x" if begin else b"")
            except ConnectionError:
                break


def test_idle_connections_make_room(server: RunningServer) -> None:
    idle = [connect(server.url) for _ in range(60)]
    with server.client(READ) as client:
        assert client.post("/search", json={"query": "ferry"}).status_code == 200
    assert len(server.uvicorn.server_state.connections) <= LIMITS.connections
    for connection in idle:
        connection.close()


def test_an_answer_that_nobody_reads_is_dropped() -> None:
    ended = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(20):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        ended.set()

    config = quiet_config(app, lifespan="off", http=make_protocol(RequestLimits(timeout=0.3)), log_config=None)
    running = uvicorn.Server(config)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = listening.getsockname()
        thread = threading.Thread(target=running.run, args=[[listening]], daemon=True)
        thread.start()
        while not running.started:
            time.sleep(0.01)
        with socket.create_connection(address, timeout=20) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert ended.wait(20)
        running.should_exit = True
        thread.join(timeout=20)
    assert not thread.is_alive()


def test_readiness_is_searched_once_for_all_who_ask(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    searched, collection = list[Any](), server.service.collections["docs"]

    def search(state: Any) -> None:
        time.sleep(0.1)
        searched.append(state)

    def ask(number: int) -> int:
        with server.client() as client:
            return client.get("/ready").status_code

    monkeypatch.setattr(operations, "search_once", search)
    for state in (replace(collection.state), replace(collection.state)):  # a new state is searched at once
        monkeypatch.setattr(collection, "state", state)
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(ask, range(12))) == [200] * 12
        assert searched.pop() is state
        assert searched == []


def test_readiness_tells_reading_from_writing(folder: Path) -> None:
    with serving(f"docs={folder}") as server, server.client() as client:
        assert client.get("/ready").json()["collections"]["docs"]["writes"] is True

        def fail() -> int:
            raise StoreError("the disk is gone")

        server.service.ingestions["docs"].spool = SimpleNamespace(count_pending=fail)  # type: ignore[assignment]
        response = client.get("/ready")
        shown = response.json()["collections"]["docs"]
        assert (response.status_code, shown["searches"], shown["writes"], shown["pending"]) == (200, True, False, None)
        assert "cannot be read" in shown["writing_reason"]


def test_keys_are_read_again(folder: Path, key_file: Path, keyring: Keyring, tmp_path: Path) -> None:
    for path in key_file.parent.iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    file = tmp_path / "keys.toml"

    with serving(f"docs={folder}", keys=load_keyring(file, ["docs"])) as server, server.client(OTHER) as client:
        server.service._read_keys = lambda: load_keyring(file, ["docs"])
        before = server.service.settings.keys.keys[0].budget
        assert client.post("/search", json={"query": "ferry"}).status_code == 401
        (tmp_path / "read.txt").write_text(OTHER)
        file.write_text(KEYS.replace("2.5", "5"))
        server.service.reload_keys()
        assert client.post("/search", json={"query": "ferry"}).status_code == 200
        assert server.service.settings.keys.find(READ) is None
        budget = server.service.settings.keys.keys[0].budget
        assert budget is before  # what was paid still counts
        assert budget.limit == 5
        file.write_text("[[keys]]\n")
        server.service.reload_keys()
        assert client.post("/search", json={"query": "ferry"}).status_code == 200
