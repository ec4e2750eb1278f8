"""Servers, sync processes and repairs that are killed again and again lose no change that was acknowledged.

RAGINDEX_KILLS is the number of servers that are killed.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import httpx2
import pytest
from served import build_index

import ragindex

WRITE = "write-key-0123456789abcdef"
KILLS = int(os.environ.get("RAGINDEX_KILLS", "5"))


def free_port() -> int:
    with socket.socket() as connection:
        connection.bind(("127.0.0.1", 0))
        return int(connection.getsockname()[1])


def start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ragindex", "serve", f"docs={folder}", "--method", "bm25", "--port", str(port)]
    environment = {**os.environ, "RAGINDEX_WRITE_KEY": WRITE}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            if httpx2.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                return process
        except httpx2.TransportError:
            time.sleep(0.1)
        assert process.poll() is None, "the server has ended"
    raise AssertionError("the server did not start")


def find_sync(process: subprocess.Popen[bytes]) -> int | None:
    """Return the id of the sync process of a server."""
    file = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    children = file.read_text().split() if file.exists() else []
    return int(children[0]) if children else None


def post(
    client: httpx2.Client, texts: dict[str, str], deleted: set[str], unsure: set[str], chance: Random, number: int
) -> None:
    """Post, change or delete until the server is gone.

    `texts` and `deleted` are what it has acknowledged; `unsure` are documents whose last request got no answer.
    """
    for step in range(10_000):
        id, text = f"d{chance.randrange(60)}", f"text{number}x{step} of a document"
        if id in texts and chance.random() < 0.2:
            if client.delete(f"/documents/{id}").status_code == 202:
                del texts[id]
                deleted.add(id)
                unsure.discard(id)
        elif client.post("/documents", json={"documents": [{"id": id, "text": text}]}).status_code == 202:
            texts[id] = text
            deleted.discard(id)
            unsure.discard(id)


def kill_repair(folder: Path, seconds: float) -> int:
    """Kill a repair after some seconds; return its exit code."""
    command = [sys.executable, "-m", "ragindex", "repair", "--index", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def test_no_acknowledged_document_is_lost(tmp_path: Path) -> None:
    folder, chance = build_index(tmp_path / "docs"), Random(7)
    texts: dict[str, str] = {}
    deleted: set[str] = set()
    unsure: set[str] = set()
    repairs = list[int]()
    for number in range(KILLS):
        if number % 2:
            repairs.append(kill_repair(folder, chance.uniform(0.5, 6.0)))
        port = free_port()
        process = start(folder, port)
        sync_process = find_sync(process) if number % 3 == 2 else None
        timer_seconds = chance.uniform(0.2, 2.0)
        killer = subprocess.Popen(
            ["sh", "-c", f"sleep {timer_seconds}; kill -9 {sync_process or ''}; sleep 1; kill -9 {process.pid}"],
            stderr=subprocess.DEVNULL,
        )
        with httpx2.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {WRITE}"}, timeout=60
        ) as client:
            with pytest.raises(httpx2.TransportError) as lost:
                post(client, texts, deleted, unsure, chance, number)
            request = lost.value.request
            unsure.add(request.url.path.rpartition("/")[2] if request.method == "DELETE" else _posted_id(request))
        killer.wait()
        assert process.wait() == -signal.SIGKILL
    port = free_port()
    process = start(folder, port)
    try:
        _await_all(port)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == -signal.SIGTERM  # uvicorn raises it again after it has stopped
    repaired = subprocess.run(
        [sys.executable, "-m", "ragindex", "repair", "--index", folder], capture_output=True, text=True, check=False
    )
    assert (repaired.returncode, repaired.stdout) == (0, "No damaged files.\n")
    assert set(repairs) <= {0, -signal.SIGKILL}
    with ragindex.open(folder, read_only=True) as index:
        stored_texts = {document.id: document.text for document in index.read([f"d{number}" for number in range(60)])}
        retriever = index.retriever("bm25")
        for id, text in texts.items():
            if id not in unsure:
                assert stored_texts[id] == text
                assert [hit.doc_ids for hit in retriever.search(text.split()[0], k=1)] == [(id,)]
        assert [id for id in deleted - unsure if id in stored_texts] == []
        assert len(texts) > 10
        killed = repairs.count(-signal.SIGKILL)
        print(f"{KILLS} kills of servers, {killed} of repairs")
        print(f"{len(texts)} documents held, {len(deleted)} deleted, {len(unsure)} unsure")


def _posted_id(request: httpx2.Request) -> str:
    return str(json.loads(request.content)["documents"][0]["id"])


def _await_all(port: int) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until:
        ready = httpx2.get(f"http://127.0.0.1:{port}/ready", timeout=60).json()["collections"]["docs"]
        if ready["pending"] == 0 and ready["newest"]:
            return
        time.sleep(0.2)
    raise AssertionError("the accepted documents were not indexed in time")
