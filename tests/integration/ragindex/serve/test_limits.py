"""Limits: bodies, time, concurrency, slow and broken clients, a graceful stop, and the socket that listens."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from served import RunningServer, build_index, serving

from ragindex.errors import UsageError
from ragindex.serve import app
from ragindex.serve.config import RequestLimits
from ragindex.types import Document, Query, Retrieval


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(tmp_path_factory.mktemp("limits") / "docs")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    with serving(f"docs={folder}", limits=RequestLimits(concurrent=2, timeout=1.5, body=5000)) as running:
        yield running


class WaitingRetriever:
    """A retriever that is slow, as one that asks a slow model."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def retrieve(self, queries: list[Query], k: int) -> list[Retrieval]:
        assert self.go_on.wait(30)
        return [Retrieval(()) for _ in queries]


def slow_down(server: RunningServer) -> WaitingRetriever:
    slow = WaitingRetriever()
    collection = server.service.collections["docs"]
    state = collection.state
    collection.state = SimpleNamespace(  # type: ignore[assignment]
        index=state.index, retrievers={"bm25": slow}, broken={}, opened_at=0.0, language="english", tokenizer=""
    )
    return slow


@pytest.fixture
def slow(server: RunningServer) -> Iterator[WaitingRetriever]:
    collection = server.service.collections["docs"]
    before = collection.state
    slow = slow_down(server)
    yield slow
    slow.go_on.set()
    collection.state = before


@pytest.mark.parametrize("stated", [True, False])
def test_large_bodies_are_refused(server: RunningServer, stated: bool) -> None:
    body = b'{"query": "' + b"x" * 6000 + b'"}'
    with server.client() as client:
        sent: Any = body if stated else iter([body[:100], body[100:]])
        response = client.post("/search", content=sent, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (413, "body_size")


def test_beyond_the_cap_requests_are_told_to_come_again(server: RunningServer, slow: WaitingRetriever) -> None:
    def ask() -> int:
        with server.client() as client:
            return client.post("/search", json={"query": "x"}).status_code

    with ThreadPoolExecutor(2) as pool, server.client() as client:
        waiting = [pool.submit(ask) for _ in range(2)]
        while server.service.slots.taken < 2:
            time.sleep(0.01)
        refused = client.post("/search", json={"query": "x"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert client.get("/health").status_code == 200  # busy, not broken
        slow.go_on.set()
        assert [future.result() for future in waiting] == [200, 200]
        assert client.post("/search", json={"query": "x"}).status_code == 200


def test_hanging_work_keeps_its_slot(server: RunningServer, slow: WaitingRetriever) -> None:
    with server.client() as client:
        for _ in range(2):
            late = client.post("/search", json={"query": "x"})
            assert (late.status_code, late.json()["error"]["code"]) == (503, "timeout")
        assert client.post("/search", json={"query": "x"}).json()["error"]["code"] == "overloaded"
        assert client.get("/health").status_code == 503
        slow.go_on.set()
        while server.service.slots.taken:
            time.sleep(0.01)
        assert client.get("/health").status_code == 200


def test_a_slow_sender_is_cut_off_and_others_are_served(server: RunningServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as slow, server.client() as client:
        slow.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert client.post("/search", json={"query": "ferry"}).status_code == 200
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n"
        + b"[" * 2000,
        b"GET /documents/..%2f..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /documents/a%0d%0aX-Evil:%201 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET //evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"NONSENSE\r\n\r\n",
    ],
)
def test_broken_requests_get_a_client_error(server: RunningServer, sent: bytes) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(sent)
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 4")
    assert b"X-Evil:" not in answer.partition(b"\r\n\r\n")[0]
    assert b"Traceback" not in answer


SURROGATES = (
    *('{"meta.a": "\\ud800"}', '{"meta.\\udfff": "a"}', '{"doc_ids": ["\\ud800"]}'),
    '{"meta.a": {"gte": "\\ud800"}}',
)


def test_deep_and_endless_values_and_lone_surrogates_are_refused(server: RunningServer) -> None:
    deep = "[" * 900 + "]" * 900
    with server.client() as client:
        for where in (f'{{"meta.a": {deep}}}', '{"meta.a": {"gte": 1e999}}', '{"meta.a": [[1]]}'):
            body = f'{{"query": "x", "where": {where}}}'
            response = client.post("/search", content=body, headers={"Content-Type": "application/json"})
            assert (where[:20], response.status_code) in ((where[:20], 400), (where[:20], 422))
        for where in SURROGATES:
            body = f'{{"query": "x", "where": {where}}}'
            response = client.post("/search", content=body, headers={"Content-Type": "application/json"})
            assert 400 <= response.status_code < 500
            assert "UTF-8" in response.json()["error"]["message"]
        nested: Any = {"type": "eq", "key": "a", "value": 1}
        for _ in range(20):
            nested = {"type": "and", "filters": [nested]}
        response = client.post("/v1/vector_stores/docs/search", json={"query": "x", "filters": nested})
        assert response.status_code == 400


def test_long_values_are_quoted_in_part(server: RunningServer) -> None:
    long = "://u:p/@" * 400
    with server.client() as client:
        for where in ({long: 1}, {"meta.a": {long: 1}}, {"meta.a": {"gte": 1, "lte": long}}, {f"meta.{long}": None}):
            error = client.post("/search", json={"query": "x", "where": where}).json()["error"]
            assert len(error["message"]) < 1000
        assert len(client.post("/search", json={"query": "x", long: 1}).json()["error"]["message"]) < 1000


def test_answers_are_bounded(tmp_path: Path) -> None:
    documents = [Document(f"d{number}", "Long", f"ferry {'x' * 60}") for number in range(3)]
    folder = build_index(tmp_path / "docs", documents=documents)
    with serving(f"docs={folder}", limits=RequestLimits(text=100)) as running, running.client() as client:
        answer = client.post("/search", json={"query": "ferry"}).json()
        assert [len(hit["text"]) for hit in answer["hits"]] == [66, 26, 0]
        assert [hit["shortened"] for hit in answer["hits"]] == [False, True, True]
        assert answer["truncated"] is True
        page = client.post("/v1/vector_stores/docs/search", json={"query": "ferry"}).json()["data"]
        assert sum(len(hit["content"][0]["text"]) for hit in page) <= 100
        assert len(client.post("/page/search", json={"query": "ferry"}).text.split("x" * 50)) == 2


def test_a_stop_waits_for_requests_in_progress(folder: Path) -> None:
    with serving(f"docs={folder}", limits=RequestLimits(timeout=20)) as server:
        slow, answered = slow_down(server), list[int]()

        def ask() -> None:
            with server.client() as client:
                answered.append(client.post("/search", json={"query": "x"}).status_code)

        thread = threading.Thread(target=ask)
        thread.start()
        while server.service.slots.taken < 1:
            time.sleep(0.01)
        server.uvicorn.should_exit = True
        time.sleep(0.3)
        slow.go_on.set()
        thread.join()
    assert answered == [200]


async def _read_delay(listening: socket.socket) -> int:
    """Return whether a connection that asyncio accepts sends at once: its TCP_NODELAY."""
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = writer.get_extra_info("socket")
        accepted.set_result(info.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(connected, sock=listening):
        _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
        delay = await accepted
        writer.close()
    return delay


def test_connections_send_at_once() -> None:
    """Otherwise the second part of an answer waits until the client has acknowledged the first: 40 ms on Linux."""
    assert asyncio.run(_read_delay(app.bind_address("127.0.0.1", 0))) == 1


def test_a_taken_port_is_refused() -> None:
    with app.bind_address("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UsageError, match=rf"^The server cannot listen on 127\.0\.0\.1:{port}: .*\. Try --port\.$"):
            app.bind_address("127.0.0.1", port)
