"""Building, asking and adding one document over 1,000, 10,000 and 100,000 passages; each method in its own process.

    .venv/bin/python -m benchmarks.scale [SIZE …]

Passages and questions are those of worlds; vectors are random with 384 dimensions: the encoder costs next to nothing.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import alone
from benchmarks.peers import K, peers
from benchmarks.synthetic import RandomVectors
from ragindex.accounting.timing import record_times
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_eval.data import worlds

METHODS = ("bm25", "dense", "hybrid", "composed", "links")


def measure_method(method: str, size: int, folder: Path) -> dict[str, float]:
    """The figures of one method, from an empty folder; run in a process of its own."""
    scheme = registry.scheme(method)
    index = Index.open(folder, encoder=RandomVectors(), chunking=None, create=True)
    start = time.perf_counter()
    index.add(worlds.make_documents(size))
    added = time.perf_counter()
    index.build(scheme)
    synced = time.perf_counter()
    parts = [index.figures(part) for part in index.all_parts(scheme)]
    building = peak()
    retriever = scheme.open(index)
    queries = [[Query(str(number), text)] for number, text in enumerate(questions(size))]
    taken = []
    for number, query in enumerate(queries):
        with record_times() as times:
            retriever.retrieve(query, K)
        if number >= 20:  # the first warm up
            taken.append((times.total - times.encoder) * 1e3)
    figures = {
        "documents_s": added - start,
        "sync_s": synced - added,
        "built_alone_s": sum(part.seconds for part in parts),
        "mb": sum(part.bytes for part in parts) / 1e6,
        "peak_build_mb": building,
        "peak_mb": peak(),
        "p50_ms": float(np.percentile(taken, 50)),
        "p95_ms": float(np.percentile(taken, 95)),
    }
    del retriever  # the writer holds no index in memory while the new reader opens its own
    index.close()
    return figures | one_more(index, method)


def questions(size: int) -> list[str]:
    """Fifty of each kind, mixed; in a small world fewer."""
    texts = [question.text for question in worlds.make_questions(size, per_kind=50)]
    return [texts[number] for number in np.random.default_rng(0).permutation(len(texts))]


def one_more(index: Index, method: str) -> dict[str, float]:
    """One document added: until its batches are committed, and until a newly opened reader finds it."""
    scheme = registry.scheme(method)
    start = time.perf_counter()
    index.add([Document("new", "Quixotry", "quixotry quixotry")])
    added = time.perf_counter()
    synced = index.build(scheme)
    finished = time.perf_counter()
    reader = Index.open(index.folder, encoder=RandomVectors(), create=True)
    hits = scheme.open(reader).retrieve([Query("q", "Quixotry\nquixotry quixotry")], K)[0].hits
    assert "new" in [hit.id for hit in hits], "the added document is not found"
    return {
        "add_s": added - start,
        "batch_s": synced.batches_seconds,
        "visible_s": synced.finish_seconds + time.perf_counter() - finished,
    }


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main(sizes: list[int]) -> None:
    names = "documents_s sync_s built_alone_s mb peak_mb p50_ms p95_ms add_s batch_s visible_s"
    columns = names.split()
    print("\nworlds, random vectors of 384 dimensions, k = 20, without the encoder's time; LanceDB, 1 GiB")
    print(f"  {'method':9s}{'passages':>9s}" + "".join(f"{name:>{len(name) + 2}s}" for name in columns))
    for size in sizes:
        for method in METHODS:
            figures = in_a_process(method, size)
            row = "".join(f"{figures[name]:{len(name) + 2}.2f}" for name in columns)
            print(f"  {method:9s}{size:9d}{row}", flush=True)
        for peer, (p50, p95) in in_a_process("peers", size).items():
            print(f"  {peer:28s}{size:9d}   p50 {p50:.2f} ms   p95 {p95:.2f} ms", flush=True)


def in_a_process(method: str, size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = alone.command("benchmarks.scale", "--one", method, str(size), folder)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        method, size, folder = sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
        measured = (
            peers(list(worlds.make_documents(size)), questions(size)[:100], folder)
            if method == "peers"
            else measure_method(method, size, folder / "w")
        )
        print(json.dumps(measured))
    else:
        main([int(size) for size in sys.argv[1:]] or [1_000, 10_000, 100_000])
