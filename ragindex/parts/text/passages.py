"""Passages of the corpus, searched by text."""

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from ragindex.errors import UsageError
from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, SearchKind
from ragindex.parts.records import CONTEXT, split_by_size
from ragindex.parts.text.contexts import PassageContexts, below_title
from ragindex.plugins import registry
from ragindex.plugins.registry import PartField, of_class
from ragindex.retrieval.hits import build_document_fields, text_search_schema
from ragindex.types import UNSIZED_CHUNKS, ChunkBy, ChunkContext, Chunking

_SIZE = 200


class Passages(Part[Collection]):
    """One record per passage: title, text, metadata, and the tokens of "title, newline, text".

    With another `context` than the title, records have a field `context`, which is encoded and analysed in the place of
    the title; title and text stay what is shown. A passage without text is always found by its title.

    Without parameters, these are the passages of the index's own chunking. `bm25(over=passages(size=128))` searches
    others; the parameter `over` of a method chunks for all its parts.
    """

    version: ClassVar[int] = 2
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset({"text", "vectors"})
    by: ChunkBy | None = Field(
        default=None, description="Units and boundaries of passages. null: words if there is a size, else the index's."
    )
    size: int | None = Field(
        default=None,
        description=f"Most words (or characters, tokens) of a passage. null: {_SIZE} where needed.",
    )
    overlap: int = Field(default=0, description="Most words, characters or tokens shared with the passage before.")
    context: ChunkContext = Field(
        default="title",
        description="What is encoded and analysed before the text, and not shown: nothing, the title, title and "
        "headings, or the title and a sentence that places the passage in its document.",
    )

    @model_validator(mode="after")
    def _check_chunking(self) -> Self:
        try:
            self.own_chunking()
        except UsageError as error:
            raise ValueError(str(error)) from error
        return self

    def own_chunking(self) -> Chunking | None:
        """Return the chunking that the parameters name; None: the index's."""
        if (self.by, self.size, self.overlap, self.context) == (None, None, 0, "title"):
            return None
        by = self.by or ("words" if self.size is not None or self.overlap else "index")
        size = _SIZE if self.size is None and by not in UNSIZED_CHUNKS else self.size
        return Chunking(size, self.overlap, by, self.context)

    def with_chunking(self, chunking: Chunking | None) -> Self:
        """Return the passages of `chunking`, unless these name their own."""
        own = self.own_chunking() or chunking
        if own is None:
            return self
        return self.model_copy(update={"by": own.by, "size": own.size, "overlap": own.overlap, "context": own.context})

    def without_chunking(self, chunking: Chunking | None) -> Self:
        """Return the index's own passages if these are of `chunking`."""
        same = chunking is not None and self.own_chunking() == chunking
        return self.model_copy(update={"by": None, "size": None, "overlap": 0, "context": "title"}) if same else self

    def apply(self, change: Change, context: BuildContext) -> None:
        """Write the passages of the batch, and delete those that were removed."""
        schema = text_search_schema(context.language)
        if self.context != "title":
            schema = replace(schema, stored=(*schema.stored, CONTEXT), text=(CONTEXT, "text"))
        records = context.collection("records", schema)
        records.delete(change.remove)
        if change.upsert:
            passages = context.passages(list(change.upsert))
            for start, stop in split_by_size(pc.binary_length(passages.column("metadata")).to_pylist()):
                records.upsert(self._build_records(passages.slice(start, stop - start), context))

    def inputs(self) -> tuple[Part[Any], ...]:
        """Return the sentences that place passages in their documents, if the context is one."""
        return (PassageContexts(),) if self.context == "sentence" else ()

    def _build_records(self, passages: pa.RecordBatch, context: BuildContext) -> pa.RecordBatch:
        doc_ids = passages.column("doc_id").to_pylist()
        metadata = dict(zip(doc_ids, passages.column("metadata"), strict=True))
        columns = {
            "id": passages.column("id"),
            "kind": pa.array(["passage"] * len(passages), pa.string()),
            "title": passages.column("title"),
            "text": passages.column("text"),
            "passage_ids": pa.array([[id] for id in passages.column("id").to_pylist()], pa.list_(pa.string())),
            **build_document_fields(doc_ids, {id: text.as_py() for id, text in metadata.items()}),
        }
        if self.context != "title":
            columns[CONTEXT] = pa.array(self._write_contexts(passages, context), pa.string())
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _write_contexts(self, passages: pa.RecordBatch, context: BuildContext) -> list[str]:
        rows = passages.to_pylist()
        if self.context == "sentence":
            contexts = context.inputs[0].get(passages.column("id").to_pylist(), ("text",)).to_pylist()
            below = {row["id"]: row["text"] for row in contexts}
        elif self.context == "headings":
            below = {row["id"]: below_title(row["title"], row["headings"]) for row in rows}
        else:
            return ["" if row["text"].strip() else row["title"] for row in rows]
        return ["\n".join(part for part in (row["title"], below.get(row["id"], "")) if part.strip()) for row in rows]

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of passages."""
        return context.collection("records")


PassagesField: TypeAlias = Annotated[PartField, of_class(Passages)]
"""The type of the parameter `over` of a method that is built over passages: `over: PassagesField = OVER_PASSAGES`."""
OVER_PASSAGES = Field(default=Passages(), description="Passages that all its parts are made from.")


def parse_chunking(option: str) -> Chunking:
    """Return the chunking that is written as the parameter `over` of methods. Raises UsageError."""
    try:
        part = registry.part(option)
    except UsageError as error:
        raise UsageError(f"A chunking is written 'passages(by=headings, size=200)': {error}") from error
    chunking = part.own_chunking()
    if not isinstance(part, Passages) or chunking is None:
        raise UsageError(f"A chunking is written 'passages(by=headings, size=200)'. Got {option!r} instead.")
    return chunking


def make_chunking(value: Any) -> Chunking | Literal["default"] | None:
    """Return the chunking of an index from one that is given in Python, or written as for the command line.

    Raises UsageError.
    """
    if isinstance(value, str) and value != "default":
        return parse_chunking(value)
    if value is None or value == "default" or isinstance(value, Chunking):
        return cast("Chunking | Literal['default'] | None", value)
    raise UsageError(f"A chunking is ragindex.Chunking(…), 'passages(by=headings, size=200)' or None. Got {value!r}.")
