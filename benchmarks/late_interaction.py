"""Late interaction over candidates against late interaction over all records: agreement and milliseconds a question.

    .venv/bin/python -m benchmarks.late_interaction DATA ENCODER [SIZE]

DATA is a data set with questions. SIZE (100,000) is the number of made-up records, each of 100 random token vectors of
384 dimensions: they show times, not quality. One thread, without the encoder of questions.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragindex._util.cores import limit_blas
from ragindex.index.index import Index
from ragindex.interfaces import Floats
from ragindex.parts.vectors.quantized_tokens import RecordRows, compress
from ragindex.parts.vectors.token_vectors import TokenIndex, TokenVectors
from ragindex_eval.data.datasets import read_dataset

CANDIDATES = (50, 100, 200)
TOKENS, DIMENSIONS, QUESTION = 100, 384, 19


def main(data: str, encoder: str, size: str = "100000") -> None:
    dataset = read_dataset(Path(data))
    with tempfile.TemporaryDirectory() as folder, limit_blas(1):
        workspace = Index.open(Path(folder), encoder=encoder, chunking=None, create=True)
        workspace.add(dataset.corpus.documents)
        start = time.perf_counter()
        workspace.build(TokenVectors())
        index = workspace.open_part(TokenVectors())
        print(f"{len(index.ids):,} records, indexed in {time.perf_counter() - start:.1f} s")
        compare(index, [index.question(query.text) for query in dataset.queries], exact=True)
        made, questions = synthetic(Path(folder), int(size))
        print(f"{len(made.ids):,} made-up records")
        compare(made, questions, exact=False)


def compare(index: TokenIndex, questions: Sequence[Floats], *, exact: bool) -> None:
    best = []
    if exact:
        milliseconds, scores = timed(lambda one: index.scores(index.ids, [one])[:, 0], questions)
        best = [[index.ids[row] for row in np.argsort(-one, kind="stable")] for one in scores]
        print(f"  all records        {milliseconds:7.1f} ms")
    for count in CANDIDATES:
        finding, found = timed(lambda one, count=count: index.shortlist(one, count), questions)  # type: ignore[misc]
        both = list(zip(questions, found, strict=True))
        scoring, _ = timed(lambda one: index.scores(one[1], [one[0]]), both)
        k = count // 10
        shares = [len(set(order[:k]) & set(ids)) / k for order, ids in zip(best, found, strict=False)]
        agreement = f", {100 * np.mean(shares):.1f} % of the exact first {k} are candidates" if shares else ""
        print(f"  {count:4} candidates    {finding:7.1f} + {scoring:.1f} ms{agreement}", flush=True)


def timed(work: Callable[[Any], Any], inputs: Sequence[Any]) -> tuple[float, list[Any]]:
    """Return the median milliseconds of the calls, and their results."""
    results, seconds = [], []
    for one in inputs:
        start = time.perf_counter()
        results.append(work(one))
        seconds.append(time.perf_counter() - start)
    return 1e3 * float(np.median(seconds)), results


def synthetic(folder: Path, size: int) -> tuple[TokenIndex, list[Floats]]:
    """Records on disk, memory-mapped as an index's are."""
    rng = np.random.default_rng(0)
    shape = (size * TOKENS, DIMENSIONS + 4)
    rows: Any = np.lib.format.open_memmap(folder / "rows.npy", mode="w+", dtype=np.uint8, shape=shape)
    few = compress(rng.standard_normal((10_000, DIMENSIONS)).astype(np.float32))
    for start in range(0, len(rows), len(few)):
        rows[start : start + len(few)] = few[: len(rows) - start]
    rows.flush()
    averages = compress(rng.standard_normal((size, DIMENSIONS)).astype(np.float32))
    counts = np.full(size, TOKENS)
    places = RecordRows(np.zeros(size, np.int64), np.cumsum(counts) - counts, counts)
    ids = tuple(f"{number:09}" for number in range(size))
    coding: Any = None  # questions are made up too
    index = TokenIndex(ids, {id: row for row, id in enumerate(ids)}, (rows,), places, averages, coding)
    return index, list(rng.standard_normal((20, QUESTION, DIMENSIONS)).astype(np.float32))


if __name__ == "__main__":
    main(*sys.argv[1:])
