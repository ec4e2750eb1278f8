"""A real server process under attack: with few descriptors, logs that nobody reads, and hang-ups."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from served import build_index, wait_until

OLD, NEW = "old-0123456789abcdef", "new-0123456789abcdef"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(tmp_path_factory.mktemp("attacked") / "docs")


@contextlib.contextmanager
def running(folder: Path, environment: dict[str, str], **options: Any) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server process, whose standard error nobody reads after its address."""
    command = [sys.executable, "-m", "ragindex", "serve", f"docs={folder}", "--method", "bm25", "--port", "0"]
    environment = os.environ | environment
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, start_new_session=True, **options)
    assert process.stderr is not None
    try:
        address = next(line for line in process.stderr if b"Serving docs at " in line)
        url = address.decode().partition(" at ")[2].strip()
        wait_until(lambda: answers(url))
        yield process, url
    finally:
        process.kill()
        process.wait(timeout=60)
        process.stderr.close()


def answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health", timeout=20).status_code == 200
    except httpx2.TransportError:
        return False


def search(url: str, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.post(f"{url}/search", json={"query": "ferry"}, headers=headers, timeout=20).status_code


@contextlib.contextmanager
def begin_search(url: str, key: str) -> Iterator[Callable[[], bytes]]:
    """A search whose body is half there; what is yielded sends the rest and returns the answer."""
    host, port = url.removeprefix("http://").split(":")
    body = b'{"query": "ferry"}'
    header = f"POST /search HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n"
    header += "Content-Type: application/json\r\n" + (f"Authorization: Bearer {key}\r\n" if key else "")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        client.sendall(header.encode() + b"\r\n" + body[:5])
        time.sleep(0.3)

        def finish() -> bytes:
            client.sendall(body[5:])
            return client.recv(1 << 16)

        yield finish


def open_idle(url: str, number: int) -> socket.socket:
    """A connection on which nothing comes, or half a header."""
    host, port = url.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)), timeout=20)
    with contextlib.suppress(ConnectionError):  # it has been dropped
        client.sendall(b"GET /health HTTP/1.1\r\nHost: " if number % 2 else b"")
    return client


def limit_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))


def test_a_process_goes_on(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(OLD)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    environment = {"RAGINDEX_READ_KEY_FILE": str(tmp_path / "key")}
    with running(folder, environment, preexec_fn=limit_descriptors) as (process, url):
        idle = [open_idle(url, number) for number in range(1100)]
        assert search(url, OLD) == 200
        for connection in idle:
            connection.close()
        with httpx2.Client(base_url=url, timeout=20) as client:
            for _ in range(700):  # more lines than a pipe holds
                assert client.get("/health").status_code == 200
        with begin_search(url, OLD) as finish:
            (tmp_path / "key").write_text(NEW)
            process.send_signal(signal.SIGHUP)
            wait_until(lambda: search(url, NEW) == 200)
            assert finish().startswith(b"HTTP/1.1 200 OK")
        assert search(url, OLD) == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == -signal.SIGTERM


def test_the_end_of_its_terminal_stops_it(folder: Path) -> None:
    leading, terminal = os.openpty()
    with running(folder, {}, stdin=terminal, stdout=subprocess.DEVNULL) as (process, url):
        os.close(terminal)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert process.poll() is None
        with begin_search(url, "") as finish:
            os.close(leading)
            process.send_signal(signal.SIGHUP)
            wait_until(lambda: not answers(url))
            assert finish().startswith(b"HTTP/1.1 200 OK")
        assert process.wait(timeout=60) == 0
