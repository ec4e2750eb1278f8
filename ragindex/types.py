"""The frozen dataclasses that modules exchange: documents, passages, queries, hits, retrievals, usage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Literal, TypeAlias

from ragindex.errors import UsageError
from ragindex.filters import Filter

MetadataValue: TypeAlias = (
    str | int | float | bool | date | Sequence["MetadataValue"] | Mapping[str, "MetadataValue"] | None
)
Metadata: TypeAlias = Mapping[str, MetadataValue]

Span: TypeAlias = tuple[int, int]
"""The first character of a part of a text, and the one after its last."""

HYPERLINKS = "hyperlinks"
"""Metadata key of the hyperlinks of an HTML page to other files: pairs of visible text and address, in its order."""
MODIFIED = "modified"
"""Metadata key of the day of a file's last change. An index keeps it while the file's content stays the same."""
COMMIT = "commit"
"""Metadata key of the commit that changed a file last, of documents from a git repository; kept as `modified` is."""
NO_METADATA: Metadata = MappingProxyType({})


def _empty_metadata() -> Metadata:
    return NO_METADATA


def _shorten(text: str, length: int = 60) -> str:
    """Return the first line of a text, cut to at most `length` characters."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= length else f"{line[: length - 1]}…"


@dataclass(frozen=True, slots=True)
class Section:
    """What begins at the character `start` of a document's text: headings, outermost first, or a page (from 1).

    Example:
        sections = (ragindex.Section(0, ("Guide",)), ragindex.Section(7, ("Guide", "Tides")))
        ragindex.Document("guide", "Guide", "Guide. Tides. The tide turns twice.", sections=sections)
    """

    start: int
    headings: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    r"""A text of the corpus. `metadata` (source file, date, any JSON value) is copied to every hit.

    Example:
        ragindex.Document("report-7", "Annual report", "The harbour was rebuilt.", {"year": 1931})

    `sections`, sorted by `start`, say under which headings and on which page the positions of hits are. `blocks` are
    the start and end of each table and code block in `text`, sorted and not overlapping; `text[start:end]` is not
    empty and has no white space around it.

    Example:
        text = "Tides turn twice:\n\n| port | hour |\n|---|---|\n| Ely | 7 |"
        document = ragindex.Document("tides", "Tides", text, blocks=((19, len(text)),))
        assert document.text[19:].startswith("| port")
    """

    id: str
    title: str
    text: str
    metadata: Metadata = field(default_factory=_empty_metadata)
    sections: tuple[Section, ...] = ()
    blocks: tuple[Span, ...] = ()

    def __repr__(self) -> str:
        return f"Document({self.id!r}, {_shorten(self.title)!r}, {len(self.text)} characters)"


ChunkBy: TypeAlias = Literal["characters", "words", "tokens", "sentences", "headings", "sections", "documents", "index"]
ChunkContext: TypeAlias = Literal["none", "title", "headings", "sentence"]
UNSIZED_CHUNKS: tuple[ChunkBy, ...] = ("sections", "documents", "index")
"""The values of `Chunking.by` that take no size."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """How documents are split into passages.

    Example:
        index = ragindex.open("another-index", chunking=ragindex.Chunking(size=800, overlap=100), create=True)

    - `characters`: at most `size` characters, which end at the end of a paragraph, sentence or word if possible.
    - `words`: windows of `size` words. `tokens`: windows of `size` tokens of the index's encoder.
    - `sentences`: as many whole sentences as fit into `size` words.
    - `headings`: whole sections, with the sections below them, if they fit into `size` words; larger ones are divided
      at their subheadings, then by sentences. Code blocks stay whole, even where they are larger, and tables that are
      larger are divided at their rows.
    - `sections`: a passage per section. `documents`: a passage per document. `index`: as the index splits them. These
      three take no `size`.

    Up to `overlap` of the same units are shared with the passage before; `headings` and the last three take none.
    `context` is what is encoded and analysed before the text: nothing, the document's title, title and headings, or a
    sentence that says what the passage is about in its document. Raises UsageError for values out of range.
    """

    size: int | None = 1200
    overlap: int = 200
    by: ChunkBy = "characters"
    context: ChunkContext = "title"

    def __post_init__(self) -> None:
        if self.by in UNSIZED_CHUNKS:
            if self.size is not None or self.overlap:
                raise UsageError(f"Passages by {self.by} have no 'size' and no 'overlap'. Leave them out.")
            return
        if type(self.size) is not int or self.size < 1:
            raise UsageError(f"The 'size' of a passage must be an int of at least 1. Got {self.size!r} instead.")
        if type(self.overlap) is not int or not 0 <= self.overlap < self.size:
            raise UsageError(
                f"The 'overlap' of passages must be an int in the range [0, {self.size}), the size of a passage "
                f"excluded. Got {self.overlap!r} instead."
            )
        if self.by == "headings" and self.overlap:
            raise UsageError("Passages by headings have no 'overlap'. Leave it out.")


@dataclass(frozen=True, slots=True)
class Passage:
    """The characters `start` to `end` of a document's text. Indexed and embedded as title, newline, text.

    `headings` are those that the passage starts under, outermost first. `header` is where the header stands of the
    table that it starts inside of; this header is the beginning of its `text`. (0, 0): there is none.
    """

    id: str
    doc_id: str
    title: str
    text: str
    start: int
    end: int
    metadata: Metadata = field(default_factory=_empty_metadata)
    headings: tuple[str, ...] = ()
    header: Span = (0, 0)


@dataclass(frozen=True, slots=True)
class Query:
    """A question. Its id must not reveal anything about gold passages or the number of hops.

    Example:
        ragindex.Query("q1", "When was the lighthouse built?")
    """

    id: str
    text: str
    filter: Filter | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where a passage stands: the characters `start` to `end` of the text of the document `doc_id`.

    Example:
        for position in retriever.search("When was the lighthouse built?")[0].positions:
            print(position.doc_id, position.page, position.headings, position.start, position.end)

    `page` (or slide, from 1) and `headings`, outermost first, are those at its start; None and () if there are none.
    `later_pages` are the pages that begin after its start: the character of the document, and the page.
    """

    doc_id: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()
    later_pages: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: a passage, summary or proposition, with the ids of the passages and documents it came from.

    Example:
        hit = retriever.search("When was the lighthouse built?")[0]
        print(hit.score, hit.title, hit.text, hit.doc_ids, hit.metadata)

    `source` is the label of the scheme that found it; `metadata` is keyed by document id; a higher `score` is better.
    `positions` say where the passages of `passage_ids` stand in their documents. They are empty for a hit of very many
    passages, for a method that was built before the documents changed, and from a bare `Scheme.open`.
    """

    id: str
    kind: str
    passage_ids: tuple[str, ...]
    doc_ids: tuple[str, ...]
    title: str
    text: str
    score: float
    source: str
    metadata: Mapping[str, Metadata] = field(default_factory=dict)
    positions: tuple[Position, ...] = ()

    def __repr__(self) -> str:
        return f"Hit({self.score:.4g}, {self.id!r}, {_shorten(self.title or self.text)!r})"


@dataclass(frozen=True, slots=True)
class Triple:
    """A fact of a knowledge graph: subject, predicate and object."""

    subject: str
    predicate: str
    object: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a retrieval, for explanation: the query, the index it was sent to, the results, and the time `ms`.

    `scores` belong to `paths`. `note` is an explanation for people, such as a thought or why a loop ended. The tokens
    are those of LLMs and paid encoders, as first paid; cached calls count as well.
    """

    iteration: int
    index: str
    query: str
    ids: tuple[str, ...] = ()
    triples: tuple[Triple, ...] = ()
    paths: tuple[tuple[Triple, ...], ...] = ()
    ms: float = 0.0
    scores: tuple[float, ...] = ()
    note: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The result of a retriever for one query: its hits, best first.

    Example:
        (found,) = retriever.retrieve([ragindex.Query("q1", "When was the lighthouse built?")], k=3)
        print(found.hits, found.trace)

    `notes` are texts that a method passes to the answering LLM beside the hits (thoughts, follow-up answers).
    """

    hits: tuple[Hit, ...]
    trace: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """The seconds, tokens and dollars that a piece of work cost when it was first done.

    `money` is None if it is unknown, as for a model without a price; then every sum with it is None too. So is a sum
    `estimated` if some of its tokens are, because a server reports none.
    """

    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = 0.0
    estimated: bool = False

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.seconds + other.seconds,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            None if self.money is None or other.money is None else self.money + other.money,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class PartFigures:
    """The cost of a part as if it were built alone, without cached answers: seconds, tokens, and bytes on disk."""

    name: str
    seconds: float
    bytes: int
    search: str
    usage: Usage
