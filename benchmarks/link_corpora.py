"""`links`, `hop` and `evidence` on corpora whose titles and mentions help less than those of benchmarks.

    .venv/bin/python -m benchmarks.link_corpora DATA [VARIANT …]

Each variant changes the documents of DATA and asks the same questions: `untitled` hides the titles, `common` replaces
them by words that many titles share, `wrong` gives each document the title of another, `mentions` appends three names
of other documents to each text, and `passages` cuts documents into passages of 200 characters. Printed is R@5/10/15 of
each method and, with 95 % intervals, what it has more than the first one, by default the base of `links`.
Encoder: BENCHMARK_ENCODER; methods: BENCHMARK_METHODS, separated by spaces.
"""

import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ragindex import Chunking
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Document, Hit
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.data.gold import Gold, gains
from ragindex_eval.metrics.retrieval import score_hits
from ragindex_eval.stats.paired_tests import paired_interval

KS = (5, 10, 15)
ENCODER = os.environ.get("BENCHMARK_ENCODER", "lsa")
METHODS = os.environ.get(
    "BENCHMARK_METHODS", "hybrid(fusion=convex,weight=0.6667) hybrid hipporag(mode=facts) links hop evidence"
).split()
COMMON = ("Overview", "History", "Notes", "Report", "Details", "Background", "Summary", "People", "Places", "Works")
CUT = Chunking(size=200, overlap=0)


def hide_titles(documents: Sequence[Document]) -> list[Document]:
    return [replace(one, title="") for one in documents]


def share_titles(documents: Sequence[Document]) -> list[Document]:
    chance = random.Random(0)
    return [replace(one, title=chance.choice(COMMON)) for one in documents]


def exchange_titles(documents: Sequence[Document]) -> list[Document]:
    titles = [one.title for one in documents]
    random.Random(0).shuffle(titles)
    return [replace(one, title=title) for one, title in zip(documents, titles, strict=True)]


def append_mentions(documents: Sequence[Document]) -> list[Document]:
    chance, titles = random.Random(0), [one.title for one in documents]
    return [replace(one, text=f"{one.text} See also {', '.join(chance.sample(titles, 3))}.") for one in documents]


VARIANTS: dict[str, Callable[[Sequence[Document]], Sequence[Document]]] = {
    "unchanged": list,
    "untitled": hide_titles,
    "common": share_titles,
    "wrong": exchange_titles,
    "mentions": append_mentions,
    "passages": list,
}


def measure(data: Dataset, documents: Sequence[Document], chunking: Chunking | None) -> None:
    gold = data.gold or {}
    asked = [query for query in data.queries if query.id in gold and gold[query.id].doc_ids]
    with tempfile.TemporaryDirectory() as folder:
        index = Index.open(Path(folder) / "index", encoder=ENCODER, chunking=chunking, create=True)
        index.replace(documents)
        index.build(*[registry.scheme(method) for method in METHODS])
        base = None
        for method in METHODS:
            answers = index.open_method(method).retrieve(asked, KS[-1])
            pairs = zip(asked, answers, strict=True)
            recall = np.array([recall_of(found.hits, gold[query.id], KS) for query, found in pairs])
            base = recall if base is None else base
            differences = recall - base
            told = [f"{100 * value:.1f}" for value in recall.mean(axis=0)]
            gained = [
                f"{100 * mean:+.1f} ({100 * low:.1f} to {100 * high:.1f})"
                for mean, (low, high) in zip(differences.mean(axis=0), map(paired_interval, differences.T), strict=True)
            ]
            print(f"  {method:38}{' / '.join(told)}   {', '.join(gained)}", flush=True)
        index.close()


def recall_of(hits: Sequence[Hit], gold: Gold, ks: Sequence[int]) -> list[float]:
    """Return the recall of a question's hits at each k."""
    scores = score_hits([hit.doc_ids for hit in hits], gains(gold.doc_ids, gold.grades), ks, gold.twins)
    return [scores[f"R@{k}"] for k in ks]


if __name__ == "__main__":
    read = datasets.read_dataset(sys.argv[1])
    for variant in sys.argv[2:] or VARIANTS:
        print(f"{read.name}, {variant}, {ENCODER.rpartition('/')[2]}, {len(read.queries)} questions", flush=True)
        measure(read, VARIANTS[variant](read.corpus.documents), CUT if variant == "passages" else None)
