"""What a retriever adds to its store, at 1,890 passages, and the same searches by LanceDB, bm25s and numpy.

    .venv/bin/python -m benchmarks.flat [DATA]

DATA is a data set with questions; without it, passages of made-up words. Vectors are random: nothing here is quality.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import K, SearchTask, peers, times
from benchmarks.synthetic import RandomVectors, documents, questions
from ragindex.index.index import Index
from ragindex.interfaces import TextQuery, VectorQuery
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.retrieval.hits import HIT_FIELDS
from ragindex.types import Document, Query
from ragindex_eval.data.datasets import read_dataset


def main(data: str | None) -> None:
    dataset = read_dataset(Path(data)) if data else None
    corpus = list(dataset.corpus.documents) if dataset else documents(1890)
    texts = [query.text for query in dataset.queries] if dataset else questions(100)
    with tempfile.TemporaryDirectory() as folder:
        measure(corpus, texts, Path(folder))


def measure(corpus: Sequence[Document], texts: Sequence[str], folder: Path) -> None:
    encoder = RandomVectors()
    schemes = {name: registry.scheme(name) for name in ("bm25", "dense", "hybrid", "composed")}
    index = Index.open(folder / "workspace", encoder=encoder, chunking=None, create=True)
    index.add(corpus)
    index.build(*schemes.values())
    retrievers = {name: scheme.open(index) for name, scheme in schemes.items()}
    queries = [[Query(str(number), text)] for number, text in enumerate(texts)]
    text, near = index.open_part(Passages()), index.open_part(Vectors())
    encode = index.encoder.encode_queries
    rows: dict[str, tuple[float, float]] = {}
    rows["bm25"] = times(lambda n: retrievers["bm25"].retrieve(queries[n], K), len(texts))
    rows["Collection.search, TextQuery"] = times(
        lambda n: text.search([TextQuery(texts[n], K, HIT_FIELDS)]), len(texts)
    )
    rows["dense, encoder included"] = times(lambda n: retrievers["dense"].retrieve(queries[n], K), len(texts))
    rows["encoder and Collection.search, VectorQuery"] = times(
        lambda n: near.search([VectorQuery(encode([texts[n]])[0], K, HIT_FIELDS)]), len(texts)
    )
    for name in ("hybrid", "composed"):
        rows[name] = times(lambda n, name=name: retrievers[name].retrieve(queries[n], K), len(texts))  # type: ignore[misc]
    rows |= peers(SearchTask.of(corpus, texts, encoder.open()), folder)
    print(f"\n{len(corpus)} passages, {len(texts)} questions, k = {K}, random vectors of 384 dimensions")
    for name, (p50, p95) in rows.items():
        print(f"  {name:42s} p50 {p50:7.3f} ms   p95 {p95:7.3f} ms")
    print(f"  bm25 / Collection.search: {rows['bm25'][0] / rows['Collection.search, TextQuery'][0]:.2f} (at most 1.5)")
    dense = rows["dense, encoder included"][0] / rows["encoder and Collection.search, VectorQuery"][0]
    print(f"  dense / encoder and Collection.search: {dense:.2f} (at most 1.5)")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
