"""Dense retrieval: cosine of question and passage vectors, over passages or any part with text."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragindex.hits import FIELDS, check, hits
from ragindex.interfaces import Collection, Encoder, Nearest, Part, Retriever
from ragindex.parts.passages import Passages
from ragindex.parts.vectors import vectors_of
from ragindex.plugin import Plugin
from ragindex.registry import PartField, label
from ragindex.types import Query, Retrieval, Step
from ragindex.workspace import Workspace


class Dense(Plugin):
    """The records of `over` whose vectors are nearest the question's. A question the encoder knows no word of: none."""

    version: ClassVar[int] = 1
    over: PartField = Passages()

    def parts(self) -> tuple[Part[Any], ...]:
        """The vectors of what is searched."""
        return (vectors_of(self.over),)

    def open(self, workspace: Workspace) -> Retriever:
        """One encoding and one search a question."""
        return DenseRetriever(workspace.open_part(vectors_of(self.over)), workspace.encoder, label(self))


@dataclass(frozen=True, slots=True)
class DenseRetriever:
    """See Dense."""

    collection: Collection
    encoder: Encoder
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """All questions in one batch of the encoder and one call of the store."""
        check(queries, k)
        vectors = self.encoder.encode_queries([query.text for query in queries])
        start = time.perf_counter()
        requests = [Nearest(vector, k, FIELDS, query.filter) for vector, query in zip(vectors, queries, strict=True)]
        found = self.collection.search(requests)
        ms = (time.perf_counter() - start) * 1e3 / max(1, len(queries))
        return [
            Retrieval(hits(one, self.source), (Step(1, "vectors", query.text, tuple(one.ids), ms=ms),))
            for query, one in zip(queries, found, strict=True)
        ]
