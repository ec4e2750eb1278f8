"""A scheme with a fault, to see the contract suite find it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ragindex.index.index import Index
from ragindex.interfaces import Part, Retriever, Scheme
from ragindex.types import Query, Retrieval
from ragindex_baselines.bm25 import BM25


class Unsorted(Scheme):
    version: ClassVar[int] = 1

    def _parts(self) -> tuple[Part[Any], ...]:
        return BM25().parts()

    def _open(self, workspace: Index) -> Retriever:
        return UnsortedRetriever(BM25().open(workspace))


@dataclass(frozen=True)
class UnsortedRetriever:
    inner: Retriever

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        return [replace(retrieval, hits=retrieval.hits[::-1]) for retrieval in self.inner.retrieve(queries, k)]
