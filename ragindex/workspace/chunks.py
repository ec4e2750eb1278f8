"""The passages of a chunking that is not the index's own."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from ragindex.corpus.token_windows import TokenSpans
from ragindex.errors import UsageError
from ragindex.interfaces import BuildContext, Change, Collection, Encoder, Part, ReadContext, TokenCounter, Uses
from ragindex.types import ChunkBy, Chunking
from ragindex.workspace.documents import CHUNK_SCHEMA

if TYPE_CHECKING:
    from ragindex.workspace.part_context import PartBuildContext


class Chunks(Part[Collection]):
    """The spans of the passages of a chunking: one record per document.

    It is made from documents, not passages: its coverage has the ids and revisions of documents. The parts that are
    made from its passages have it as an input.
    """

    version: ClassVar[int] = 1
    by: ChunkBy = Field(description="Units and boundaries of passages.")
    size: int | None = Field(default=None, description="Most units of a passage.")
    overlap: int = Field(default=0, description="Most units shared with the passage before.")

    @property
    def chunking(self) -> Chunking:
        """The chunking; its context is no matter of spans."""
        return Chunking(self.size, self.overlap, self.by)

    def apply(self, change: Change, context: BuildContext) -> None:
        """Split the documents of the batch."""
        records = context.collection("records", CHUNK_SCHEMA)
        records.delete(change.remove)
        if change.upsert:
            made: PartBuildContext = context  # type: ignore[assignment]  # the workspace makes the context
            records.upsert(made.documents.chunk_rows(list(change.upsert), self.chunking, self._tokens(context)))

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of spans."""
        return context.collection("records")

    def _tokens(self, context: BuildContext) -> TokenSpans | None:
        return None


class TokenChunks(Chunks):
    """Passages whose size is counted in tokens of the index's encoder."""

    uses: ClassVar[Uses] = frozenset({"encoder"})

    def _tokens(self, context: BuildContext) -> TokenSpans:
        encoder: Encoder = context.encoder
        if not isinstance(encoder, TokenCounter):
            raise UsageError(
                f"The encoder {encoder.id} counts no tokens, so passages cannot be chunked by tokens. Use: by=words"
            )
        return encoder.token_spans


def chunks_of(chunking: Chunking | None) -> Chunks | None:
    """Return the part with the passages of `chunking`; None if they are the index's own."""
    if chunking is None or chunking.by == "index":
        return None
    kind = TokenChunks if chunking.by == "tokens" else Chunks
    return kind(by=chunking.by, size=chunking.size, overlap=chunking.overlap)
