"""Workers on other machines: how many keep the one process that writes busy, and what a real cluster is worth.

    .venv/bin/python -m benchmarks.cluster simulate [WORKERS …] [--engine elasticsearch]
    .venv/bin/python -m benchmarks.cluster dask DATA
    .venv/bin/python -m benchmarks.cluster local DATA

`simulate` builds `dense` with workers that sleep for the 20 ms that all-MiniLM-L6-v2 takes for a passage, 1,024
passages for each worker: the ideal build takes 20.5 seconds with any number of them. It prints the build's seconds,
the efficiency (ideal / build) and the passages a second, and before these the rate of the writer without sleep.
Passages are made-up words, vectors random ones of 384 dimensions. With `--engine elasticsearch` records go to the
server at ELASTICSEARCH_URL.

`dask` builds `dense` over DATA with all-MiniLM-L6-v2 on a cluster of two workers of one core each on this machine, and
`local` in one process of two cores; both print passages a second of encoding and writing.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import ragindex
from benchmarks.quality import MODEL
from benchmarks.synthetic import RandomEncoder, RandomVectors, documents
from ragindex.index.index import Index
from ragindex.interfaces import EncoderPlugin, Floats
from ragindex.interfaces.llm import LLMSettings
from ragindex_eval.data import datasets

SECONDS, PASSAGES = 0.020, 1_024


class SleepingVectors(RandomVectors):
    """Random vectors after `seconds` a text."""

    seconds: float = SECONDS

    def open(self, setting: LLMSettings | None = None) -> "SleepingEncoder":
        return SleepingEncoder(self.size, self.seconds)


@dataclass(frozen=True)
class SleepingEncoder(RandomEncoder):
    seconds: float = SECONDS

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        time.sleep(self.seconds * len(texts))
        return super().encode_documents(texts)


def build(encoder: EncoderPlugin | str, corpus: object, store: str, workers: str | None = None) -> float:
    """Return the seconds that `dense` took to build in an empty index, taking in the documents excluded."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Index.open(Path(folder) / "index", encoder=encoder, chunking=None, store=store, create=True) as index,
    ):
        index.replace(corpus)  # type: ignore[arg-type]
        start = time.perf_counter()
        index.build("dense", workers=workers)
        return time.perf_counter() - start


def simulate(counts: Sequence[int], store: str) -> None:
    passages = documents(max(counts) * PASSAGES)
    build(RandomVectors(), passages[:PASSAGES], store)  # libraries are loaded
    seconds = build(RandomVectors(), passages[: 16 * PASSAGES], store)
    print(f"the writer alone, {16 * PASSAGES} passages: {16 * PASSAGES / seconds:.0f} a second", flush=True)
    for count in counts:
        own = passages[: count * PASSAGES]
        with ThreadPoolExecutor(count) as pool, ragindex.use_executor(pool, batches=2 * count):
            seconds = build(SleepingVectors(), own, store)
        ideal = SECONDS * PASSAGES
        print(
            f"{count:3d} workers: {seconds:6.1f} s, efficiency {ideal / seconds:.2f}, {len(own) / seconds:.0f} a second"
        )


def measure(data: str, workers: str | None) -> None:
    corpus = datasets.read_dataset(data).corpus
    seconds = build(f"sentence-transformers:{MODEL}", corpus, "lancedb", workers)
    print(f"{len(corpus.documents)} passages in {seconds:.1f} s: {len(corpus.documents) / seconds:.1f} a second")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulate", "dask", "local"))
    parser.add_argument("given", nargs="*")
    parser.add_argument("--engine", default="lancedb")
    options = parser.parse_args()
    if options.what == "simulate":
        simulate([int(count) for count in options.given] or [1, 4, 16, 64], options.engine)
    elif options.what == "local":
        measure(options.given[0], None)
    else:
        from distributed import LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            measure(options.given[0], f"dask:{cluster.scheduler_address}")
