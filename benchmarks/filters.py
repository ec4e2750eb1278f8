"""What a filter costs: p50 of a question without one, and with one that passes half or a hundredth of the documents.

    .venv/bin/python -m benchmarks.filters DATA [METHODS]

DATA is a data set with questions; METHODS are separated by semicolons. The encoder is lsa, triples are by rules.
`first` is the first question with a new filter, which finds out what passes; p50 is of the questions that follow with
the same filter.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import ragindex
from ragindex.filters import Filter, meta
from ragindex_eval.data.datasets import read_dataset

METHODS = (
    *("bm25", "dense", "hipporag(mode=facts)", "hipporag", "gear.naive(scoring=composed)", "griever", "sirerag"),
    *("sirerag(ranking=lifted)", "raptor", "graphrag", "links"),
)
SHARES = (0.5, 0.01)
QUESTIONS = 50


def main(data: str, methods: str = ";".join(METHODS)) -> None:
    dataset, rng = read_dataset(Path(data)), Random(0)
    documents = list(dataset.corpus.documents)
    drawn = {document.id: rng.random() for document in documents}
    marked = [
        replace(one, metadata={**one.metadata, **{f"in_{share}": drawn[one.id] < share for share in SHARES}})
        for one in documents
    ]
    queries = list(dataset.queries)[:QUESTIONS]
    with tempfile.TemporaryDirectory() as folder, ragindex.open(folder, encoder="lsa", create=True) as index:
        index.add(marked)
        for method in methods.split(";"):
            index.build(method)
            retriever = index.retriever(method)
            told = [f"{method:32} none {_measure(retriever, [one.text for one in queries], None)[1]:7.1f}"]
            for share in SHARES:
                first, p50 = _measure(retriever, [one.text for one in queries], meta(f"in_{share}", True))
                told.append(f"{share:.0%} first {first:7.1f} p50 {p50:7.1f}")
            print(" | ".join(told), flush=True)


def _measure(retriever: ragindex.IndexRetriever, texts: Sequence[str], where: Filter | None) -> tuple[float, float]:
    """Return the milliseconds of the first question, and the median of the others."""
    if where is None:
        retriever.search(texts[0], k=10)  # load what is read once
    times = []
    for text in texts:
        start = time.perf_counter()
        retriever.search(text, k=10, where=where)
        times.append((time.perf_counter() - start) * 1e3)
    return times[0], statistics.median(times[1:])


if __name__ == "__main__":
    main(*sys.argv[1:])
