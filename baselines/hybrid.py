"""Hybrid retrieval: reciprocal rank fusion of several schemes, by default BM25 and dense."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pydantic import Field

from baselines.bm25 import BM25
from baselines.dense import Dense
from ragindex.hits import check
from ragindex.interfaces import IndexingScheme, Part, Retriever
from ragindex.parts.passages import Passages
from ragindex.plugin import Plugin
from ragindex.ranking import reciprocal_rank_fusion
from ragindex.registry import PartField, SchemeField, label
from ragindex.types import Hit, Query, Retrieval
from ragindex.workspace import Workspace


class Hybrid(Plugin):
    """Fuses the `depth` best of each of `bases` (by default BM25 and dense, both `over` the same part) by rank.

    Depth 100 and the constant 60 are the customary choices (Cormack et al. 2009); the papers measured here give none.
    """

    version: ClassVar[int] = 1
    bases: tuple[SchemeField, ...] | None = Field(default=None, min_length=1)
    over: PartField = Passages()
    depth: int = Field(default=100, ge=1)
    rrf_k: float = Field(default=60, ge=0)

    @property
    def reads_k(self) -> bool:
        """Only where a base does."""
        return any(getattr(base, "reads_k", False) for base in self._bases())

    def parts(self) -> tuple[Part[Any], ...]:
        """Those of the bases."""
        return tuple(part for base in self._bases() for part in base.parts())

    def open(self, workspace: Workspace) -> Retriever:
        """Every base is asked for each question."""
        bases = tuple(base.open(workspace) for base in self._bases())
        return HybridRetriever(bases, self.depth, self.rrf_k, label(self))

    def _bases(self) -> tuple[IndexingScheme, ...]:
        return self.bases or (BM25(over=self.over), Dense(over=self.over))


@dataclass(frozen=True, slots=True)
class HybridRetriever:
    """See Hybrid."""

    bases: tuple[Retriever, ...]
    depth: int
    rrf_k: float
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Each base answers all questions, at the greater of depth and k."""
        check(queries, k)
        answers = [base.retrieve(queries, max(self.depth, k)) for base in self.bases]
        return [self._fuse(found, k) for found in zip(*answers, strict=True)]

    def _fuse(self, found: Sequence[Retrieval], k: int) -> Retrieval:
        by_id: dict[str, Hit] = {hit.id: hit for retrieval in reversed(found) for hit in retrieval.hits}
        fused = reciprocal_rank_fusion([[hit.id for hit in retrieval.hits] for retrieval in found], self.rrf_k)
        best = tuple(replace(by_id[id], score=score, source=self.source) for id, score in fused[:k])
        trace = tuple(step for retrieval in found for step in retrieval.trace)
        return Retrieval(best, trace, tuple(note for retrieval in found for note in retrieval.notes))
