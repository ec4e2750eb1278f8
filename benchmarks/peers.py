"""The same searches by bm25s, numpy and LanceDB, and how times are taken: p50 and p95 over warm calls."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import bm25s
import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import FTS
from lancedb.query import MatchQuery

from benchmarks.synthetic import RandomVectors
from ragindex.corpus import passage_text
from ragindex.text_analysis import analyse
from ragindex.types import Document

K = 20


def times(ask: Callable[[int], object], count: int, rounds: int = 5) -> tuple[float, float]:
    """p50 and p95 in ms over `rounds` passes, after one to warm up."""
    for number in range(count):
        ask(number)
    taken = []
    for number in [*range(count)] * rounds:
        start = time.perf_counter()
        ask(number)
        taken.append((time.perf_counter() - start) * 1e3)
    return float(np.percentile(taken, 50)), float(np.percentile(taken, 95))


def peers(corpus: Sequence[Document], questions: Sequence[str], folder: Path) -> dict[str, tuple[float, float]]:
    """The same work by others. All analyse the question with our function, and give back id, title and text."""
    encoder = RandomVectors().open()
    vectors = encoder.encode_queries(questions)
    texts = [passage_text(document.title, document.text) for document in corpus]
    tokens = [analyse(text) for text in texts]
    matrix = encoder.encode_documents(texts)
    sparse = bm25s.BM25(k1=1.2, b=0.75)
    sparse.index(tokens, show_progress=False)
    columns = {
        "id": [document.id for document in corpus],
        "title": [document.title for document in corpus],
        "text": [document.text for document in corpus],
        "tokens": [" ".join(words) for words in tokens],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1]),
    }
    table = lancedb.connect(folder / "lancedb").create_table("passages", pa.table(columns))
    table.create_index("tokens", config=FTS(base_tokenizer="whitespace", stem=False, remove_stop_words=False))
    shown = ["id", "title", "text"]

    def by_bm25s(n: int) -> list[tuple[str, str, str]]:
        rows, _ = sparse.retrieve([analyse(questions[n])], k=K, show_progress=False, n_threads=0)
        return [(corpus[row].id, corpus[row].title, corpus[row].text) for row in rows[0]]

    def by_numpy(n: int) -> list[tuple[str, str, str]]:
        scores = matrix @ vectors[n]
        best = np.argpartition(-scores, K)[:K]
        return [(corpus[row].id, corpus[row].title, corpus[row].text) for row in best[np.argsort(-scores[best])]]

    def by_lancedb_text(n: int) -> object:
        words = MatchQuery(" ".join(analyse(questions[n])), "tokens")
        return table.search(words).limit(K).select([*shown, "_score"]).to_arrow()

    def by_lancedb_vector(n: int) -> object:
        return table.search(vectors[n]).distance_type("cosine").limit(K).select([*shown, "_distance"]).to_arrow()

    asks = {
        "bm25s": by_bm25s,
        "LanceDB, text index": by_lancedb_text,
        "numpy": by_numpy,
        "LanceDB, vectors": by_lancedb_vector,
    }
    return {f"peer: {name}": times(ask, len(questions), 2) for name, ask in asks.items()}
