"""What `links` adds to its base as the encoder gets better: vectors of a world's truth, with less and less noise.

    .venv/bin/python -m benchmarks.truth_encoder [WORLD]

Vectors of passages are random. The vector of a question is the sum of those of its gold passages, of length one, plus
NOISE times a random vector of length one: without noise, the gold passages are the nearest ones. Printed is R@5/10/15
of `dense`, of the base of `links`, and of `links`, with what it has more than the base and 95 % intervals.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.link_corpora import KS, recall_of
from benchmarks.synthetic import RandomEncoder
from ragindex.corpus.chunking import passage_text
from ragindex.index.index import Index
from ragindex.interfaces import Encoder, EncoderPlugin, Floats
from ragindex.interfaces.llm import LLMSettings
from ragindex.plugins import registry
from ragindex_eval.data import datasets
from ragindex_eval.data.datasets import Dataset
from ragindex_eval.stats.paired_tests import paired_interval

NOISES = (0, 2, 4, 6)
QUESTIONS, DIMENSIONS = 300, 384
METHODS = ("dense", "hybrid(fusion=convex,weight=0.6667)", "links")


class TruthVectors(EncoderPlugin):
    """An encoder that knows the gold passages of the questions; a stand-in for one that is as good as can be."""

    gold: Mapping[str, tuple[str, ...]]
    noise: float

    def open(self, setting: LLMSettings | None = None) -> "TruthEncoder":
        return TruthEncoder(self.gold, self.noise)


@dataclass(frozen=True)
class TruthEncoder(Encoder):
    """`gold` has the texts of the gold passages of each question."""

    gold: Mapping[str, tuple[str, ...]]
    noise: float

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    @property
    def id(self) -> str:
        return f"truth-{self.noise}"

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        return RandomEncoder(DIMENSIONS).encode_documents(texts)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        wanted = np.stack([self.encode_documents(self.gold[text]).sum(axis=0) for text in texts])
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
        found = wanted + np.float32(self.noise) * self.encode_documents(texts)
        unit: Floats = found / np.linalg.norm(found, axis=1, keepdims=True)
        return unit


def list_gold_texts(data: Dataset) -> dict[str, tuple[str, ...]]:
    texts = {one.id: passage_text(one.title, one.text) for one in data.corpus.documents}
    gold = data.gold or {}
    return {one.text: tuple(texts[id] for id in sorted(gold[one.id].doc_ids)) for one in data.queries}


def measure(data: Dataset, noise: float) -> None:
    gold, encoder = data.gold or {}, TruthVectors(gold=list_gold_texts(data), noise=noise)
    with tempfile.TemporaryDirectory() as folder:
        index = Index.open(Path(folder) / "index", encoder=encoder, chunking=None, create=True)
        index.replace(data.corpus.documents)
        index.build(*[registry.scheme(method) for method in METHODS])
        recall = {}
        for method in METHODS:
            answers = index.open_method(method).retrieve(data.queries, KS[-1])
            pairs = zip(data.queries, answers, strict=True)
            recall[method] = np.array([recall_of(found.hits, gold[query.id], KS) for query, found in pairs])
        index.close()
    gains = recall[METHODS[2]] - recall[METHODS[1]]
    bounds = map(paired_interval, gains.T)
    told = [f"{100 * m:+.1f} ({100 * a:.1f} to {100 * b:.1f})" for m, (a, b) in zip(gains.mean(0), bounds, strict=True)]
    means = [" / ".join(f"{100 * value:.1f}" for value in one.mean(axis=0)) for one in recall.values()]
    print(f"| {noise} | {' | '.join(means)} | {', '.join(told)} |", flush=True)


if __name__ == "__main__":
    read = datasets.read_dataset(sys.argv[1] if len(sys.argv) > 1 else "world:1k", limit=QUESTIONS, seed=0)
    print(f"| noise | {' | '.join(METHODS)} | links less its base |")
    for each in NOISES:
        measure(read, each)
