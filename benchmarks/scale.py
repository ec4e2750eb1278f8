"""Building, asking and adding one document as the corpus grows; each method and peer in a process of its own.

    .venv/bin/python -m benchmarks.scale FOLDER [--sizes SIZE …] [--only NAME …]

Passages and questions are those of worlds; the vector of a text is the sum of random vectors of its words, with 384
dimensions: the encoder costs next to nothing, and texts that share words are near each other. The methods of a size
share the index in FOLDER/SIZE, so that a part of several methods is built once. Each row is appended to
FOLDER/rows.jsonl when it is measured, and the same command goes on after the last.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import alone
from benchmarks.peers import NEAREST, PEERS, SHOWN, K, SearchTask, analysed, blocks, lacking, times
from benchmarks.synthetic import WordVectors
from ragindex.accounting.timing import record_times
from ragindex.corpus import passage_text
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_eval.data import worlds

METHODS = ("bm25", "dense", "hybrid", "links", "composed")
SIZES = (10_000, 100_000, 1_000_000)
PEER_QUESTIONS = 100
RECALL_AT = 10
_BLOCK = 50_000


def measure(name: str, size: int, folder: Path) -> dict[str, float]:
    """Return the figures of one step: "world", which comes first, "documents", a peer or a method."""
    if name == "world":
        return make_world(size, folder)
    if name in PEERS:
        return measure_peer(name, folder)
    index = Index.open(folder / "index", encoder=WordVectors(), chunking=None, create=True)
    if name == "documents":
        start, cpu = time.perf_counter(), time.process_time()
        index.add(read_documents(folder))
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
        return {"documents_s": seconds, "cpu_s": cpu_seconds, "peak_mb": peak(), "disk_mb": disk(index.folder)}
    return measure_method(index, name, folder)


def make_world(size: int, folder: Path) -> dict[str, float]:
    """Write passages, questions, their vectors, and the exact nearest passages of the first questions."""
    start, encoder = time.perf_counter(), WordVectors().open()
    shuffled = [question.text for question in worlds.make_questions(size, per_kind=50)]
    texts = [shuffled[number] for number in np.random.default_rng(0).permutation(len(shuffled))]
    (folder / "questions.json").write_text(json.dumps(texts))
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (size, encoder.dimensions))
    batches, encoding, rows = list[pa.RecordBatch](), 0.0, 0
    for block in blocks(worlds.make_documents(size), _BLOCK):
        batches.append(analysed(block))
        begun = time.perf_counter()
        encoded = encoder.encode_documents([passage_text(document.title, document.text) for document in block])
        encoding += time.perf_counter() - begun
        vectors[rows : rows + len(block)] = encoded
        rows += len(block)
    (passages,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    with pa.OSFile(str(folder / "passages.arrow"), "wb") as sink, pa.ipc.new_file(sink, passages.schema) as file:
        file.write_batch(passages)
    questions = encoder.encode_queries(texts[:PEER_QUESTIONS]).T
    scores = np.concatenate([vectors[row : row + _BLOCK] @ questions for row in range(0, size, _BLOCK)])
    nearest = np.argpartition(-scores, RECALL_AT, axis=0)[:RECALL_AT].T
    ids = [[passages.column("id")[int(row)].as_py() for row in best] for best in nearest]
    (folder / "nearest.json").write_text(json.dumps(ids))
    return {"world_s": time.perf_counter() - start, "encoder_s": encoding}


def read_passages(folder: Path) -> pa.RecordBatch:
    return pa.ipc.open_file(pa.memory_map(str(folder / "passages.arrow"))).get_batch(0)


def read_documents(folder: Path) -> Iterator[Document]:
    passages = read_passages(folder).select(SHOWN)
    for start in range(0, len(passages), 2048):
        for row in passages.slice(start, 2048).to_pylist():
            yield Document(**row)


def read_questions(folder: Path) -> list[str]:
    texts: list[str] = json.loads((folder / "questions.json").read_text())
    return texts


def recall(folder: Path, answers: list[list[str]]) -> float:
    """The mean share of the exact nearest passages of a question that its answer has."""
    nearest = json.loads((folder / "nearest.json").read_text())
    pairs = zip(nearest, answers, strict=False)  # there are more answers
    return float(np.mean([len(set(exact) & set(ids[:RECALL_AT])) / RECALL_AT for exact, ids in pairs]))


def measure_peer(name: str, folder: Path) -> dict[str, float]:
    texts = read_questions(folder)[:PEER_QUESTIONS]
    task = SearchTask(
        read_passages(folder),
        np.load(folder / "vectors.npy", mmap_mode="r"),
        texts,
        WordVectors().open().encode_queries(texts),
    )
    start, cpu = time.perf_counter(), time.process_time()
    ask = PEERS[name](task, folder / "peer")
    built, cpu = time.perf_counter() - start, time.process_time() - cpu
    answers = [
        [row["id"] for row in (rows.to_pylist() if isinstance(rows, pa.Table) else rows)]
        for rows in map(ask, range(len(texts)))
    ]
    p50, p95 = times(ask, len(texts), 2)
    figures = {
        "build_s": built,
        "cpu_s": cpu,
        "peak_mb": peak(),
        "disk_mb": disk(folder / "peer"),
        "p50_ms": p50,
        "p95_ms": p95,
    }
    return figures | ({"recall": recall(folder, answers)} if name in NEAREST else {})


def measure_method(index: Index, method: str, folder: Path) -> dict[str, float]:
    scheme = registry.scheme(method)
    start, cpu = time.perf_counter(), time.process_time()
    built = index.build(scheme)
    build, cpu = time.perf_counter() - start, time.process_time() - cpu
    parts = [index.figures(part) for part in index.all_parts(scheme)]
    building, start = peak(), time.perf_counter()
    retriever = scheme.open(index)
    queries = [[Query(str(number), text)] for number, text in enumerate(read_questions(folder))]
    retriever.retrieve(queries[0], K)
    opening = time.perf_counter() - start
    taken, answers = [], []
    for number, query in enumerate(queries):
        with record_times() as spent:
            answers.append([hit.id for hit in retriever.retrieve(query, K)[0].hits])
        if number >= 20:  # the first warm up
            taken.append((spent.total - spent.encoder) * 1e3)
    figures = {
        "build_s": build,
        "cpu_s": cpu,
        "batches_s": built.batches_seconds,
        "finish_s": built.finish_seconds,
        "parts_s": sum(part.seconds for part in parts),
        "parts_mb": sum(part.bytes for part in parts) / 1e6,
        "disk_mb": disk(index.folder),
        "peak_build_mb": building,
        "open_s": opening,
        "peak_mb": peak(),
        "p50_ms": float(np.percentile(taken, 50)),
        "p95_ms": float(np.percentile(taken, 95)),
    }
    if method == "dense":
        figures["recall"] = recall(folder, answers)
    del retriever  # the writer holds no index in memory while the new reader opens its own
    index.close()
    return figures | one_more(index, method)


def one_more(index: Index, method: str) -> dict[str, float]:
    """One document added: until its batches are committed, and until a newly opened reader finds it."""
    scheme, id = registry.scheme(method), f"new-{method}"
    start = time.perf_counter()
    index.add([Document(id, "Quixotry", f"quixotry quixotry {method}")])
    added = time.perf_counter()
    synced = index.build(scheme)
    finished = time.perf_counter()
    reader = Index.open(index.folder, encoder=WordVectors(), create=True)
    hits = scheme.open(reader).retrieve([Query("q", f"Quixotry\nquixotry quixotry {method}")], K)[0].hits
    assert id in [hit.id for hit in hits], "the added document is not found"
    return {
        "add_s": added - start,
        "batch_s": synced.batches_seconds,
        "visible_s": synced.finish_seconds + time.perf_counter() - finished,
    }


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def disk(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


# ---------------------------------------------------------------- all steps


def main(folder: Path, sizes: list[int], only: list[str]) -> None:
    rows = folder / "rows.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else []
    for row in done:
        report(row)
    for size in sizes:
        (folder / str(size)).mkdir(exist_ok=True)
        for name in ("world", "documents", *(only or [*METHODS, *PEERS])):
            if any((row["name"], row["passages"]) == (name, size) for row in done):
                continue
            if package := lacking(name):
                print(f"{name}: not measured, {package} is not installed. Run: uv pip install {package}", flush=True)
                continue
            row = {"name": name, "passages": size, "date": time.strftime("%F"), **in_a_process(name, size, folder)}
            with rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
            report(row)


def report(row: dict[str, float | str]) -> None:
    figures = [f"{name} {value:.2f}" for name, value in row.items() if isinstance(value, float)]
    print(f"{row['name']:20s}{row['passages']:>9d}   " + "   ".join(figures), flush=True)


def in_a_process(name: str, size: int, folder: Path) -> dict[str, float]:
    place = folder / str(size)
    shutil.rmtree(place / "peer", ignore_errors=True)
    command = alone.command("benchmarks.scale", str(folder), "--step", name, str(size))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    shutil.rmtree(place / "peer", ignore_errors=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed. The same command goes on from there.")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options.add_argument("--only", nargs="+", default=[], help="methods and peers; default: all")
    options.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.step:
        name, size = given.step
        print(json.dumps(measure(name, int(size), given.folder / size)))
    else:
        main(given.folder, given.sizes, given.only)
