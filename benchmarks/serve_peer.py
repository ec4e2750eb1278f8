"""`ragindex serve` beside txtai's server, in turn: keyword search over the same documents by the same clients.

    .venv/bin/python -m benchmarks.serve_peer FOLDER TXTAI_PYTHON [SIZE] [SECONDS]

TXTAI_PYTHON is a Python with `pip install 'txtai[api]'`. Both search with BM25 and return texts; FOLDER keeps both
indexes. txtai answers GET /search, and ragindex POST /search.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

import ragindex
from benchmarks.serve_load import CLIENTS, TURNS, figures, run_clients, server
from ragindex_eval.data import worlds

_BUILD = """
import json, sys, time
from txtai.embeddings import Embeddings
documents = json.load(open(sys.argv[1]))
start = time.perf_counter()
embeddings = Embeddings({"keyword": True, "content": True})
embeddings.index((one["id"], {"text": one["text"]}) for one in documents)
embeddings.save(sys.argv[2])
print(f"txtai: built in {time.perf_counter() - start:.0f} s")
"""


def build(folder: Path, python: str, size: int) -> None:
    """Build both indexes, unless they are there."""
    documents = list(worlds.make_documents(size))
    if not (folder / "bm25").exists():
        start = time.perf_counter()
        with ragindex.open(folder / "bm25", encoder="lsa", create=True, chunking=None) as index:
            index.add(documents, source="served")
            index.build("bm25")
        print(f"ragindex: built in {time.perf_counter() - start:.0f} s")
    if not (folder / "txtai").exists():
        given = folder / "documents.json"
        given.write_text(json.dumps([{"id": one.id, "text": f"{one.title} {one.text}"} for one in documents]))
        subprocess.run([python, "-c", _BUILD, str(given), str(folder / "txtai")], check=True)


@contextmanager
def txtai_server(folder: Path, python: str) -> Iterator[int]:
    """Run txtai's server over the index; gives its port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    config = folder / "txtai.yml"
    config.write_text(f"path: {folder / 'txtai'}\nembeddings:\n  keyword: true\n  content: true\n")
    command = [python, "-m", "uvicorn", "txtai.api:app", "--port", str(port), "--log-level", "warning"]
    running = subprocess.Popen(command, env={**os.environ, "CONFIG": str(config)})
    try:
        while True:
            try:
                httpx2.get(f"http://127.0.0.1:{port}/count", timeout=5).raise_for_status()
                break
            except httpx2.TransportError:
                time.sleep(0.2)
        yield port
    finally:
        running.terminate()
        running.wait()


def main(given: str, python: str, size: str = "100000", seconds: str = "12") -> None:
    """Build and measure."""
    folder, limit = Path(given), float(seconds)
    folder.mkdir(parents=True, exist_ok=True)
    build(folder, python, int(size))
    with server(folder / "bm25", "bm25") as (ours, _), txtai_server(folder, python) as theirs:
        for port, form in ((ours, "ragindex"), (theirs, "txtai")):
            run_clients(port, 1, 2, form)
        for clients in CLIENTS:
            taken: dict[str, list[float]] = {"ragindex": [], "txtai": []}
            for _ in range(TURNS):
                for port, form in ((ours, "ragindex"), (theirs, "txtai")):
                    taken[form] += run_clients(port, clients, limit / TURNS, form)
            for form, one in taken.items():
                print(f"{form:10s}{clients:3d} clients  {figures(one, limit)}", flush=True)
            print(f"{'':10s}ragindex/txtai {len(taken['ragindex']) / len(taken['txtai']):.2f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
