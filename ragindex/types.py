"""The frozen dataclasses that modules exchange: documents, passages, queries, hits, retrievals, usage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import TypeAlias

from ragindex.filters import Filter

MetadataValue: TypeAlias = (
    str | int | float | bool | date | Sequence["MetadataValue"] | Mapping[str, "MetadataValue"] | None
)
Metadata: TypeAlias = Mapping[str, MetadataValue]

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
    blocks: tuple[tuple[int, int], ...] = ()

    def __repr__(self) -> str:
        return f"Document({self.id!r}, {_shorten(self.title)!r}, {len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class Passage:
    """The characters `start` to `end` of a document's text. Indexed and embedded as title, newline, text."""

    id: str
    doc_id: str
    title: str
    text: str
    start: int
    end: int
    metadata: Metadata = field(default_factory=_empty_metadata)


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
    """

    doc_id: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()


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

    `money` is None if it is unknown, as for a model without a price; then every sum with it is None too.
    """

    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.seconds + other.seconds,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            None if self.money is None or other.money is None else self.money + other.money,
        )
