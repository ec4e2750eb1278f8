"""Hybrid: values of rank fusion worked out by hand, its depth, and where its first hits depend on k."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex.types import Hit, Query, Retrieval
from ragindex_baselines.bm25 import BM25
from ragindex_baselines.dense import Dense
from ragindex_baselines.hybrid import Hybrid, HybridRetriever


@dataclass(frozen=True)
class Fixed:
    """A retriever that always gives these ids, best first; `depths` holds the k it was asked for."""

    ids: str
    depths: list[int]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        self.depths.append(k)
        hits = [Hit(id, "passage", (id,), (id,), "", id, 1 / rank, "fixed") for rank, id in enumerate(self.ids, 1)]
        return [Retrieval(tuple(hits[:k]))] * len(queries)


def fused(*rankings: str, k: int = 10, **parameters: Any) -> dict[str, float]:
    bases = tuple(Fixed(ids, []) for ids in rankings)
    (retrieval,) = HybridRetriever(bases, Hybrid(**parameters), "hybrid").retrieve([Query("q", "who?")], k)
    assert {hit.source for hit in retrieval.hits} <= {"hybrid"}
    return {hit.id: hit.score for hit in retrieval.hits}


def test_the_constant_weighs_first_ranks_against_agreement() -> None:
    assert next(iter(fused("abx", "cbx", rrf_k=60))) == "b"  # 2/62 > 1/61
    assert list(fused("abx", "cbx", rrf_k=0))[:2] == ["a", "c"]  # 1, 1 and 1/2 + 1/2: the better single rank first


def test_bases_are_asked_for_depth_or_k_and_k_hits_come_back() -> None:
    assert list(fused("abc", "cba", k=2, depth=2)) == ["b", "a"]  # 2/62 > 1/61
    assert list(fused("abc", "cba", k=2, depth=3)) == ["a", "c"]  # 1/61 + 1/63 > 2/62
    base = Fixed("abc", [])
    HybridRetriever((base,), Hybrid(depth=2), "hybrid").retrieve([Query("q", "who?")], 3)
    assert base.depths == [3]


def test_scores_are_weighted_means_of_normalized_scores() -> None:
    """Scores are 1, 1/2, 1/3: normalized 1, 1/4, 0 of three results, and 1, 0 of two."""
    assert fused("abc", "ca", fusion="convex") == pytest.approx({"a": 1 / 2, "c": 1 / 2, "b": 1 / 8})
    scores = fused("abc", "ca", fusion="convex", weight=0.75)
    assert scores == pytest.approx({"c": 0.75, "a": 0.25, "b": 0.0625})
    assert list(scores) == ["c", "a", "b"]
    assert fused("abc", "ca", "ca", fusion="convex") == pytest.approx({"c": 2 / 3, "a": 1 / 3, "b": 1 / 12})


def test_a_weight_needs_two_bases() -> None:
    with pytest.raises(UsageError, match="weight needs two bases, got 1; others have equal weights"):
        registry.scheme("hybrid(bases=[bm25], weight=0.3)")
    assert registry.label(registry.scheme("hybrid(fusion=convex, weight=0.3)")) == "hybrid(fusion=convex, weight=0.3)"


def test_by_default_it_fuses_bm25_and_dense() -> None:
    assert Hybrid().base_schemes() == (BM25(), Dense())
    assert registry.label(Hybrid(bases=("bm25",), depth=5)) == "hybrid(bases=[bm25], depth=5)"
    assert [Hybrid(depth=5).depends_on_k(k) for k in (5, 6)] == [False, True]
