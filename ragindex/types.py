"""The values that travel between modules: small, frozen, and nothing else."""

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


def _none() -> Metadata:
    return NO_METADATA


def _shortened(text: str, length: int = 60) -> str:
    """The first line of a text, at most `length` characters."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= length else f"{line[: length - 1]}…"


@dataclass(frozen=True, slots=True)
class Document:
    """A text of the corpus. `metadata` (source file, page, date, anything JSON can hold) travels to every hit.

    Example:
        ragindex.Document("report-7", "Annual report", "The harbour was rebuilt.", {"year": 1931})
    """

    id: str
    title: str
    text: str
    metadata: Metadata = field(default_factory=_none)

    def __repr__(self) -> str:
        return f"Document({self.id!r}, {_shortened(self.title)!r}, {len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters `start` to `end` of one document's text. Indexed and embedded as title, newline, text."""

    id: str
    doc_id: str
    title: str
    text: str
    start: int
    end: int
    metadata: Metadata = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class Query:
    """A question. Its id is opaque: nothing about gold or hops may be read off it.

    Example:
        ragindex.Query("q1", "When was the lighthouse built?")
    """

    id: str
    text: str
    filter: Filter | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: a passage, or a summary or proposition that names the passages and documents it came from.

    Example:
        hit = retriever.search("When was the lighthouse built?")[0]
        print(hit.score, hit.title, hit.text, hit.doc_ids, hit.metadata)

    `source` is the label of the scheme that found it; `metadata` is by document id; a higher `score` is better.
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

    def __repr__(self) -> str:
        return f"Hit({self.score:.4g}, {self.id!r}, {_shortened(self.title or self.text)!r})"


@dataclass(frozen=True, slots=True)
class Triple:
    """A subject, predicate and object."""

    subject: str
    predicate: str
    object: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a retrieval, for explanation: what was asked of which index, and what came back, in `ms`.

    `scores` are those of the `paths`. `note` is what a person should know besides: a thought, why a loop ended. The
    tokens are those of language models and paid encoders, as first paid.
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
    """What a retriever found for one query, best first.

    Example:
        (found,) = retriever.retrieve([ragindex.Query("q1", "When was the lighthouse built?")], k=3)
        print(found.hits, found.trace)

    `notes` are texts that a method hands the reader beside the hits (thoughts, follow-up answers).
    """

    hits: tuple[Hit, ...]
    trace: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a piece of work cost when it was first done.

    `money` is None where it is not known, as of a model without a price; so is every sum that it is part of.
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
