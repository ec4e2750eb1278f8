"""BM25: the sparse baseline (Robertson et al., TREC-3), over passages or any part that can be searched by text."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragindex.hits import FIELDS, check, hits
from ragindex.interfaces import Collection, Match, Part, Retriever
from ragindex.parts.passages import Passages
from ragindex.plugin import Plugin
from ragindex.registry import PartField, label
from ragindex.types import Query, Retrieval, Step
from ragindex.workspace import Workspace


class BM25(Plugin):
    """The records of `over` that share words with the question, by Lucene's BM25 with k1 = 1.2 and b = 0.75."""

    version: ClassVar[int] = 1
    over: PartField = Passages()

    def parts(self) -> tuple[Part[Any], ...]:
        """What is searched."""
        return (self.over,)

    def open(self, workspace: Workspace) -> Retriever:
        """One search a question."""
        return BM25Retriever(workspace.open_part(self.over), label(self))


@dataclass(frozen=True, slots=True)
class BM25Retriever:
    """See BM25."""

    collection: Collection
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """All questions in one call of the store."""
        check(queries, k)
        start = time.perf_counter()
        found = self.collection.search([Match(query.text, k, FIELDS, query.filter) for query in queries])
        ms = (time.perf_counter() - start) * 1e3 / max(1, len(queries))
        return [
            Retrieval(hits(one, self.source), (Step(1, "text", query.text, tuple(one.ids), ms=ms),))
            for query, one in zip(queries, found, strict=True)
        ]
