"""What an index takes on disk: after a day of small syncs, with methods over graphs, and for one more document.

    .venv/bin/python -m benchmarks.disk day [PASSAGES]
    .venv/bin/python -m benchmarks.disk graphs DATA TRIPLES
    .venv/bin/python -m benchmarks.disk document [PASSAGES [GIB]]
    .venv/bin/python -m benchmarks.disk wide [RECORDS]

`day` makes twelve syncs of one changed record each, with a memory budget that makes LanceDB's indexes. `graphs` builds
gear, hipporag and griever over DATA with the imported TRIPLES, then changes and syncs one document
twelve times. `document` prints what one more document of `hybrid` writes, beyond a memory budget of GIB. Vectors
are random with 384 dimensions. `wide` searches RECORDS (2,100) of 1 MiB each from memory: more than 2 GiB in a column,
for which the machine needs 12 GB of memory.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from benchmarks.synthetic import RandomVectors
from ragindex.index.index import Index
from ragindex.interfaces import Schema, TextQuery
from ragindex.plugins import registry
from ragindex.stores.lancedb.store import LanceDB
from ragindex.types import Document
from ragindex_eval.data import datasets, worlds

SYNCS = 12
GRAPHS = ("gear", "hipporag", "griever")
SMALL = 0.001
"""A memory budget, in GiB, that every collection here exceeds."""


def day(size: int, folder: Path) -> None:
    """Folder and `bytes` after twelve syncs of one record."""
    index = opened(folder, SMALL)
    documents = list(worlds.make_documents(size))
    index.add(documents)
    methods = ["bm25"]
    sync(index, methods)
    say("after the first sync", index, folder)
    one_a_sync(index, methods, documents)
    say(f"after {SYNCS} syncs of one record", index, folder)


def graphs(data: Path, triples: Path, folder: Path) -> None:
    """The same with four methods over graphs."""
    dataset = datasets.read_dataset(data)
    index = opened(folder, 1.0)
    documents = list(dataset.corpus.documents)
    index.add(documents)
    index.import_part("extractions", triples)
    start = time.perf_counter()
    sync(index, GRAPHS)
    print(f"{len(documents):,} passages, {', '.join(GRAPHS)}, built in {time.perf_counter() - start:.0f} s")
    say("after the first sync", index, folder)
    one_a_sync(index, GRAPHS, documents)
    say(f"after {SYNCS} syncs of one record", index, folder)


def document(size: int, memory: float, folder: Path) -> None:
    """Megabytes written by the sync of one more document, as the system counts them and as the files grew."""
    index = opened(folder, memory)
    index.add(worlds.make_documents(size))
    sync(index, ["hybrid"])
    for number in range(3):
        before, written = sizes(folder), os_written()
        index.add([Document(f"new{number}", "Quixotry", f"quixotry {number}")])
        sync(index, ["hybrid"])
        after = sizes(folder)
        new = sum(bytes for path, bytes in after.items() if path not in before)
        grown = sum(max(0, bytes - before[path]) for path, bytes in after.items() if path in before)
        print(
            f"hybrid, {size:,} passages, {memory:g} GiB: one more document writes "
            f"{(os_written() - written) / 1e6:.2f} MB; new files {new / 1e6:.2f} MB, others grew by {grown / 1e6:.2f}",
            flush=True,
        )
    say("after three more documents", index, folder)


def wide(count: int, folder: Path) -> None:
    """BM25 from memory over one column of `count` MiB, of words so long that the index of them stays small."""
    schema = Schema(stored=("text",), text=("text",), language="none")
    collection = LanceDB(memory_gib=16).open(folder).create("some", schema)
    common = " ".join(f"{'x' * 56}{place % 500:03d}" for place in range(17_500))
    for start in range(0, count, 50):
        numbers = range(start, min(start + 50, count))
        texts = [f"own{number} {common}" for number in numbers]
        ids = [f"r{number:04d}" for number in numbers]
        collection.upsert(pa.RecordBatch.from_pydict({"id": ids, "text": texts}))
    collection.finish()
    reader = LanceDB(memory_gib=16).open(folder).open("some", collection.version)
    start_at = time.perf_counter()
    asked = [TextQuery(f"own{number}", 3, ("text",)) for number in (0, count // 2, count - 1)]
    found = reader.search(asked)
    size = sum(len(one) for batch in reader.scan(("text",)) for one in batch.column("text").to_pylist())
    print(
        f"{count:,} records, {size / 2**30:.2f} GiB in one column, {reader.describe()['search']}: "
        f"{[one.ids for one in found]} in {time.perf_counter() - start_at:.0f} s, "
        f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB"
    )


def opened(folder: Path, memory: float) -> Index:
    return Index.open(folder, encoder=RandomVectors(), chunking=None, store=LanceDB(memory_gib=memory), create=True)


def sync(index: Index, methods: Sequence[str]) -> None:
    index.build(*[registry.scheme(method) for method in methods])


def one_a_sync(index: Index, methods: Sequence[str], documents: Sequence[Document]) -> None:
    for number in range(SYNCS):
        one = documents[number * 7]
        index.add([replace(one, text=f"{one.text} Changed {number}.")])
        sync(index, methods)


def say(when: str, index: Index, folder: Path) -> None:
    """The folder, what `bytes` says of the parts, and what lies where."""
    found = sizes(folder)
    parts = sum(one.bytes for one in index.manifest.parts.values())
    whole = sum(found.values())
    kinds: dict[str, int] = {}
    for path, size in found.items():
        kinds[kind(path)] = kinds.get(kind(path), 0) + size
    told = {name: round(size / 1e6, 2) for name, size in sorted(kinds.items(), key=lambda item: -item[1])}
    print(f"  {when}: folder {whole / 1e6:.1f} MB, bytes of parts {parts / 1e6:.1f} MB", flush=True)
    print(f"    {json.dumps(told)}")
    if hasattr(index, "disk"):
        disk = index.disk()
        print(f"    served {disk.served / 1e6:.1f} MB; folder / served = {disk.total / disk.served:.2f}")
        print(
            f"    {json.dumps({name: round(size / 1e6, 2) for name, size in disk.apart.items() if size})}", flush=True
        )


def kind(path: str) -> str:
    """Of the store: the collection's kind of file; else the folder."""
    parts = Path(path).parts
    if parts[0] != "store" or len(parts) < 4:
        return parts[0]
    table = "documents" if parts[1].startswith("documents") else parts[1].split(".")[-2]
    return f"{'coverage' if table == 'coverage' else 'documents' if table == 'documents' else 'parts'}/{parts[2]}"


def sizes(folder: Path) -> dict[str, int]:
    """Of every file."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def os_written() -> int:
    """Bytes that this process has sent towards the disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("write_bytes")).split()[1])


def main(what: str, *rest: str) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_FOLDER")) as folder:
        if what == "day":
            day(int(rest[0]) if rest else 20_000, Path(folder) / "w")
        elif what == "wide":
            wide(int(rest[0]) if rest else 2_100, Path(folder))
        elif what == "document":
            document(int(rest[0]) if rest else 100_000, float(rest[1]) if rest[1:] else SMALL, Path(folder) / "w")
        else:
            graphs(Path(rest[0]), Path(rest[1]), Path(folder) / "w")


if __name__ == "__main__":
    main(*sys.argv[1:])
