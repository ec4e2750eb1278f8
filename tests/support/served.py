"""A real server on a loopback port, in a thread of the test's process, over small indexes."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import one_ssl_context  # noqa: F401  # quick clients
import uvicorn

import ragindex
from ragindex.serve.app import make_uvicorn
from ragindex.serve.config import ServeSettings, parse_collections
from ragindex.serve.service import Service

DOCUMENTS = [
    ragindex.Document(
        "lindau",
        "Lindau",
        "The lighthouse of Lindau was built in 1856. It stands at the harbour of Lindau.",
        {"team": "red", "year": 1856, "url": "https://example.org/lindau"},
    ),
    ragindex.Document("ferry", "Ferry", "The ferry from Lindau to Bregenz takes twenty minutes.", {"team": "red"}),
    ragindex.Document("vault", "Vault", "The vault below the lighthouse holds a secret map.", {"team": "blue"}),
    ragindex.Document("notes/bread", "Bread", "Rye bread keeps for a week. Wheat bread does not.", {"team": "blue"}),
]


@dataclass(frozen=True)
class RunningServer:
    service: Service
    url: str
    uvicorn: uvicorn.Server

    def client(self, key: str | None = None, **options: Any) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=60, **options)


def build_index(folder: Path, methods: tuple[str, ...] = ("bm25",), documents: Any = None) -> Path:
    with ragindex.open(folder, encoder="lsa", create=True) as index:
        index.add(DOCUMENTS if documents is None else documents, source="served")
        index.build(*methods)
    return folder


@contextmanager
def serving(*collections: str, methods: tuple[str, ...] = ("bm25",), **settings: Any) -> Iterator[RunningServer]:
    service = Service(ServeSettings(parse_collections(collections, methods), **settings))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        port = listening.getsockname()[1]
        server = make_uvicorn(service)
        thread = threading.Thread(target=server.run, args=[[listening]], daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield RunningServer(service, f"http://127.0.0.1:{port}", server)
        finally:
            server.should_exit = True
            thread.join(timeout=30)
            assert not thread.is_alive()


def wait_until(holds: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.1)  # every look is a request, which costs more than waiting
