"""Requests a second of one process whose clients search from a pool of threads, with and without our limits on threads.

    .venv/bin/python -m benchmarks.clients DATA [METHODS] [ENCODER]

DATA is a data set with questions. "Without" takes away the limit on BLAS and the slots for searches. Start it under
`taskset -c 0` to see one core.
"""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import ragindex
from ragindex._util import cores
from ragindex_eval.data.datasets import read_dataset

REQUESTS = 400


def main(data: str, methods: str = "bm25,dense,hybrid", encoder: str = "lsa") -> None:
    dataset = read_dataset(Path(data))
    texts = [query.text for query in dataset.queries] * 8
    with tempfile.TemporaryDirectory() as folder, ragindex.open(folder, encoder=encoder, create=True) as index:
        index.add(dataset.corpus.documents)
        index.build(*methods.split(","))
        print(f"{cores.available_cores()} cores; requests a second, without limits -> with them")
        for method in methods.split(","):
            retriever = index.retriever(method)
            retriever.search(texts[0])
            for clients in (1, 8, 32):
                rates = {}
                for limited in (False, True, False, True):
                    kept = nullcontext() if limited else patch.multiple(cores._BlasLimits, enter=_pass, leave=_pass)
                    free = nullcontext() if limited else patch.object(cores, "_slots", nullcontext)
                    with kept, free:
                        time.sleep(1.5 * cores.LINGER)  # the limits of the run before have ended
                        rates[limited] = max(rates.get(limited, 0.0), _rate(retriever, texts, clients))
                print(f"  {method:12} {clients:3} clients  {rates[False]:6.0f} -> {rates[True]:6.0f}", flush=True)


def _pass(self: object, threads: int) -> None:
    """Set no limit."""


def _rate(retriever: ragindex.IndexRetriever, texts: list[str], clients: int) -> float:
    asked = texts[:REQUESTS]
    with ThreadPoolExecutor(clients) as pool:
        start = time.perf_counter()
        list(pool.map(lambda text: retriever.search(text, k=5), asked))
        return len(asked) / (time.perf_counter() - start)


if __name__ == "__main__":
    main(*sys.argv[1:])
