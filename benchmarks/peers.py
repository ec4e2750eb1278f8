"""The same searches by bm25s, tantivy, LanceDB, numpy and usearch, and how times are taken: p50 and p95 of warm calls.

tantivy and usearch are measured where they are installed: `uv pip install tantivy usearch`.
"""

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import bm25s
import lancedb
import numpy as np
import pyarrow as pa
from bm25s.tokenization import Tokenized
from lancedb.index import FTS
from lancedb.query import MatchQuery

from ragindex.corpus import passage_text
from ragindex.interfaces import Encoder, Floats
from ragindex.text_analysis import analyse, analyse_many
from ragindex.types import Document

K = 20
SHOWN = ["id", "title", "text"]
_ANN_FROM = 200_000
"""The number of passages from which LanceDB gets its default index of vectors, whose candidates it compares again."""

Rows: TypeAlias = pa.Table | Sequence[Mapping[str, str]]
Ask: TypeAlias = Callable[[int], Rows]
"""The best K passages of a question given by number, with id, title and text."""


@dataclass(frozen=True)
class SearchTask:
    """Passages with their tokens, vectors of shape (passages, dimensions), and questions with theirs."""

    passages: pa.RecordBatch
    vectors: Floats
    questions: Sequence[str]
    question_vectors: Floats

    @classmethod
    def of(cls, documents: Iterable[Document], questions: Sequence[str], encoder: Encoder) -> "SearchTask":
        passages = analysed(documents)
        titles, texts = (passages.column(name).to_pylist() for name in ("title", "text"))
        vectors = encoder.encode_documents([passage_text(*pair) for pair in zip(titles, texts, strict=True)])
        return cls(passages, vectors, questions, encoder.encode_queries(questions))

    def tokens(self) -> Iterable[list[str]]:
        """Yield the tokens of each passage."""
        return (text.as_py().split() for text in self.passages.column("tokens"))

    def take(self, rows: Iterable[Any]) -> list[dict[str, str]]:
        """Return what is shown of some passages."""
        columns = [(name, self.passages.column(name)) for name in SHOWN]
        return [{name: column[int(row)].as_py() for name, column in columns} for row in rows]


def analysed(documents: Iterable[Document]) -> pa.RecordBatch:
    """Return id, title, text and tokens of documents, one passage each."""
    columns: dict[str, list[str]] = {name: [] for name in (*SHOWN, "tokens")}
    for block in blocks(documents, 2048):
        for name in SHOWN:
            columns[name] += [getattr(document, name) for document in block]
        columns["tokens"] += analyse_many([passage_text(each.title, each.text) for each in block])
    return pa.record_batch({name: pa.array(values, pa.large_string()) for name, values in columns.items()})


def blocks(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    """Yield documents, up to `size` at once."""
    left = iter(documents)
    while block := list(islice(left, size)):
        yield block


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


def peers(task: SearchTask, folder: Path) -> dict[str, tuple[float, float]]:
    """Return p50 and p95 of each peer that is installed."""
    asks = {name: build(task, folder / name) for name, build in PEERS.items() if not lacking(name)}
    return {f"peer: {name}": times(ask, len(task.questions), 2) for name, ask in asks.items()}


def lacking(peer: str) -> str:
    """Return the optional package that a peer needs and that is not installed, or an empty string."""
    package = peer.partition(",")[0]
    return package if package in ("tantivy", "usearch") and importlib.util.find_spec(package) is None else ""


# ---------------------------------------------------------------- indexes; all analyse a question with our function


def _bm25s(task: SearchTask, _: Path) -> Ask:
    vocabulary = dict[str, int]()
    numbers = [[vocabulary.setdefault(token, len(vocabulary)) for token in tokens] for tokens in task.tokens()]
    sparse = bm25s.BM25(k1=1.2, b=0.75)
    sparse.index(Tokenized(numbers, vocabulary), show_progress=False)

    def ask(n: int) -> Rows:
        rows, _ = sparse.retrieve([analyse(task.questions[n])], k=K, show_progress=False, n_threads=0)
        return task.take(rows[0])

    return ask


def _tantivy(task: SearchTask, folder: Path) -> Ask:
    import tantivy

    builder = tantivy.SchemaBuilder()
    for name in SHOWN:
        builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("tokens", tokenizer_name="whitespace", index_option="freq")
    schema = builder.build()
    folder.mkdir()
    index = tantivy.Index(schema, path=str(folder))
    writer = index.writer(heap_size=256 << 20, num_threads=2)
    for row in range(len(task.passages)):
        fields = {name: task.passages.column(name)[row].as_py() for name in (*SHOWN, "tokens")}
        writer.add_document(tantivy.Document(**fields))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def ask(n: int) -> Rows:
        words = [tantivy.Query.term_query(schema, "tokens", word) for word in analyse(task.questions[n])]
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, word) for word in words])
        documents = [searcher.doc(address) for _, address in searcher.search(query, K, count=False).hits]
        return [{name: document[name][0] for name in SHOWN} for document in documents]

    return ask


def _lancedb_text(task: SearchTask, folder: Path) -> Ask:
    table = lancedb.connect(folder).create_table("passages", pa.Table.from_batches([task.passages]))
    table.create_index("tokens", config=FTS(base_tokenizer="whitespace", stem=False, remove_stop_words=False))

    def ask(n: int) -> Rows:
        words = MatchQuery(" ".join(analyse(task.questions[n])), "tokens")
        return table.search(words).limit(K).select([*SHOWN, "_score"]).to_arrow()

    return ask


def _lancedb_vectors(task: SearchTask, folder: Path) -> Ask:
    table = lancedb.connect(folder).create_table("passages", _with_vectors(task, 0))
    for start in range(_BLOCK, len(task.passages), _BLOCK):
        table.add(_with_vectors(task, start))
    indexed = len(task.passages) >= _ANN_FROM
    if indexed:
        table.create_index(metric="cosine", vector_column_name="vector")

    def ask(n: int) -> Rows:
        query = table.search(task.question_vectors[n]).distance_type("cosine").limit(K).select([*SHOWN, "_distance"])
        return (query.refine_factor(10) if indexed else query).to_arrow()

    return ask


_BLOCK = 50_000


def _with_vectors(task: SearchTask, start: int) -> pa.Table:
    vectors = np.ascontiguousarray(task.vectors[start : start + _BLOCK])
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return pa.Table.from_batches([task.passages.slice(start, _BLOCK).select(SHOWN)]).append_column("vector", column)


def _numpy(task: SearchTask, _: Path) -> Ask:
    matrix = np.array(task.vectors)

    def ask(n: int) -> Rows:
        scores = matrix @ task.question_vectors[n]
        best = np.argpartition(-scores, K)[:K]
        return task.take(best[np.argsort(-scores[best])])

    return ask


def _usearch(task: SearchTask, _: Path) -> Ask:
    from usearch.index import Index

    index = Index(ndim=task.vectors.shape[1], metric="cos", dtype="f16")
    for start in range(0, len(task.vectors), _BLOCK):
        block = np.array(task.vectors[start : start + _BLOCK])
        index.add(np.arange(start, start + len(block)), block)

    def ask(n: int) -> Rows:
        return task.take(index.search(task.question_vectors[n], K).keys)

    return ask


PEERS: Mapping[str, Callable[[SearchTask, Path], Ask]] = {
    "bm25s": _bm25s,
    "tantivy": _tantivy,
    "LanceDB, text index": _lancedb_text,
    "numpy": _numpy,
    "LanceDB, vectors": _lancedb_vectors,
    "usearch, HNSW": _usearch,
}
NEAREST = ("numpy", "LanceDB, vectors", "usearch, HNSW")
"""The peers that compare vectors."""
