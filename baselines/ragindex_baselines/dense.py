"""Dense retrieval: cosine of question and passage vectors, over passages or any part with text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ragindex.interfaces import Collection, Encoder, OpenIndex, Part, Retriever, Scheme, SearchRequest, VectorQuery
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.vectors import vectors_of
from ragindex.plugins.registry import PartField, label, searched_by
from ragindex.retrieval.hits import search_batch
from ragindex.types import Query, Retrieval


class Dense(Scheme):
    """Search by meaning: passages whose vectors have the highest cosine with the question's vector.

    A question without any word that the encoder knows has no results.
    """

    version: ClassVar[int] = 1
    over: Annotated[PartField, searched_by("vectors")] = Field(
        default=Passages(), description="Part whose records are searched."
    )

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return the vectors of the part that is searched."""
        return (vectors_of(self.over),)

    def _open(self, index: OpenIndex) -> Retriever:
        """Open a retriever that encodes each question and runs one search."""
        return DenseRetriever(index.open_part(vectors_of(self.over)), index.encoder, label(self))


@dataclass(frozen=True, slots=True)
class DenseRetriever:
    """The open retriever of Dense."""

    collection: Collection
    encoder: Encoder
    source: str
    step: ClassVar[str] = "vectors"

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Search for all questions with one batch of the encoder and one call of the store."""
        return search_batch(self, queries, k, self.source)

    def requests(self, queries: Sequence[Query], k: int, fields: tuple[str, ...]) -> list[SearchRequest]:
        """Return a vector search for each question."""
        vectors = self.encoder.encode_queries([query.text for query in queries])
        return [VectorQuery(vector, k, fields, query.filter) for vector, query in zip(vectors, queries, strict=True)]
