"""What a retriever adds to its store, at 1,890 passages, and the same searches by LanceDB, bm25s and numpy.

    .venv/bin/python -m benchmarks.flat [DATA]

DATA is a data set with questions; without it, passages of made-up words. Vectors are random: nothing here is quality.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import bm25s
import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import FTS
from lancedb.query import MatchQuery

from benchmarks.synthetic import RandomVectors, documents, questions
from eval.datasets import load
from ragindex import registry
from ragindex.corpus import passage_text
from ragindex.hits import FIELDS
from ragindex.interfaces import Match, Nearest
from ragindex.parts.passages import Passages
from ragindex.parts.vectors import Vectors
from ragindex.text import analyse
from ragindex.types import Document, Query
from ragindex.workspace import Workspace

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


def main(data: str | None) -> None:
    dataset = load(Path(data)) if data else None
    corpus = list(dataset.corpus.documents) if dataset else documents(1890)
    asked = [query.text for query in dataset.queries] if dataset else questions(100)
    with tempfile.TemporaryDirectory() as folder:
        measure(corpus, asked, Path(folder))


def measure(corpus: Sequence[Document], asked: Sequence[str], folder: Path) -> None:
    encoder = RandomVectors()
    vectors = encoder.open().encode_queries(asked)
    schemes = {name: registry.scheme(name) for name in ("bm25", "dense", "hybrid", "composed")}
    workspace = Workspace.open(folder / "workspace", encoder=encoder, cutting=None)
    workspace.add(corpus)
    workspace.sync(schemes.values())
    retrievers = {name: scheme.open(workspace) for name, scheme in schemes.items()}
    queries = [[Query(str(number), text)] for number, text in enumerate(asked)]
    text, near = workspace.open_part(Passages()), workspace.open_part(Vectors())
    encode = workspace.encoder.encode_queries
    rows: dict[str, tuple[float, float]] = {}
    rows["bm25"] = times(lambda n: retrievers["bm25"].retrieve(queries[n], K), len(asked))
    rows["Collection.search, Match"] = times(lambda n: text.search([Match(asked[n], K, FIELDS)]), len(asked))
    rows["dense, encoder included"] = times(lambda n: retrievers["dense"].retrieve(queries[n], K), len(asked))
    rows["encoder and Collection.search, Nearest"] = times(
        lambda n: near.search([Nearest(encode([asked[n]])[0], K, FIELDS)]), len(asked)
    )
    for name in ("hybrid", "composed"):
        rows[name] = times(lambda n, name=name: retrievers[name].retrieve(queries[n], K), len(asked))  # type: ignore[misc]
    rows |= peers(corpus, asked, vectors, folder)
    print(f"\n{len(corpus)} passages, {len(asked)} questions, k = {K}, random vectors of 384 dimensions")
    for name, (p50, p95) in rows.items():
        print(f"  {name:42s} p50 {p50:7.3f} ms   p95 {p95:7.3f} ms")
    print(f"  bm25 / Collection.search: {rows['bm25'][0] / rows['Collection.search, Match'][0]:.2f} (at most 1.5)")
    dense = rows["dense, encoder included"][0] / rows["encoder and Collection.search, Nearest"][0]
    print(f"  dense / encoder and Collection.search: {dense:.2f} (at most 1.5)")


def peers(
    corpus: Sequence[Document],
    asked: Sequence[str],
    vectors: "np.ndarray[tuple[int, int], np.dtype[np.float32]]",
    folder: Path,
) -> dict[str, tuple[float, float]]:
    """The same work by others. All analyse the question with our function, and give back id, title and text."""
    texts = [passage_text(document.title, document.text) for document in corpus]
    tokens = [analyse(text) for text in texts]
    matrix = RandomVectors().open().encode_documents(texts)
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
        found, _ = sparse.retrieve([analyse(asked[n])], k=K, show_progress=False, n_threads=0)
        return [(corpus[row].id, corpus[row].title, corpus[row].text) for row in found[0]]

    def by_numpy(n: int) -> list[tuple[str, str, str]]:
        scores = matrix @ vectors[n]
        best = np.argpartition(-scores, K)[:K]
        return [(corpus[row].id, corpus[row].title, corpus[row].text) for row in best[np.argsort(-scores[best])]]

    def by_lancedb_text(n: int) -> object:
        words = MatchQuery(" ".join(analyse(asked[n])), "tokens")
        return table.search(words).limit(K).select([*shown, "_score"]).to_arrow()

    def by_lancedb_vector(n: int) -> object:
        return table.search(vectors[n]).distance_type("cosine").limit(K).select([*shown, "_distance"]).to_arrow()

    asks = {
        "bm25s": by_bm25s,
        "LanceDB, text index": by_lancedb_text,
        "numpy": by_numpy,
        "LanceDB, vectors": by_lancedb_vector,
    }
    return {f"  peer: {name}": times(ask, len(asked), 2) for name, ask in asks.items()}


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
