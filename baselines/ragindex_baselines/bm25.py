"""BM25: the sparse baseline (Robertson et al., TREC-3), over passages or any part that can be searched by text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ragindex.interfaces import Collection, OpenIndex, Part, Retriever, Scheme, SearchRequest, TextQuery
from ragindex.parts.text.passages import Passages
from ragindex.plugins.registry import PartField, label, searched_by
from ragindex.retrieval.hits import search_batch
from ragindex.types import Query, Retrieval


class BM25(Scheme):
    """Keyword search: passages that share words with the question, by Lucene's BM25 (k1 = 1.2, b = 0.75)."""

    version: ClassVar[int] = 1
    over: Annotated[PartField, searched_by("text")] = Field(
        default=Passages(), description="Part whose records are searched."
    )

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the part that is searched."""
        return (self.over,)

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever that runs one search per question."""
        return BM25Retriever(index.open_part(self.over), label(self))


@dataclass(frozen=True, slots=True)
class BM25Retriever:
    """The open retriever of BM25."""

    collection: Collection
    source: str
    step: ClassVar[str] = "text"

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Search for all questions in one call of the store."""
        return search_batch(self, queries, k, self.source)

    def requests(self, queries: Sequence[Query], k: int, fields: tuple[str, ...]) -> list[SearchRequest]:
        """Return a text search for each question."""
        return [TextQuery(query.text, k, fields, query.filter) for query in queries]
