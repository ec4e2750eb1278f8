"""The Corpus, and checks of the documents that readers yield: ids, duplicates, and metadata."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ragindex._util.canonical import digest, metadata_json
from ragindex._util.ids import describe_control, is_row
from ragindex._util.text import many
from ragindex.corpus.json_reader import Item, Problems, format_value
from ragindex.corpus.left_out import LeftOut
from ragindex.corpus.readers.text_encodings import ENCODING
from ragindex.errors import DataError
from ragindex.types import NO_METADATA, Document, Metadata, Section, Span


@dataclass(frozen=True, slots=True, repr=False)
class Corpus:
    """Documents read from one source.

    Example:
        corpus = ragindex.read("my-documents")
        print(len(corpus.documents), corpus.skipped, corpus.ignored)

    `repeats` counts duplicates of documents without ids. `skipped` are the files or items that were left out, with the
    reasons. `ignored` counts files of a folder that no reader supports, by suffix. With `whole`, as in benchmark
    formats, each document is one passage; otherwise documents are chunked. `root` is the source: the absolute path of
    the folder that ids are relative to or of the data set's file, or the name of a generated corpus; "" for documents
    made by a program. If `only` is set, only that file of the folder was read. `notes` are other remarks on what was
    read. `unread` maps the files and folders that were passed over to the reasons, and `files` the ids of documents to
    hashes of their files.
    """

    name: str
    format: str
    documents: tuple[Document, ...]
    repeats: int
    skipped: tuple[LeftOut, ...]
    whole: bool
    ignored: Mapping[str, int] = field(default_factory=dict)
    root: str = ""
    only: str = ""
    notes: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        left_out = f"; left out: {len(self.skipped):,} (see skipped)" if self.skipped else ""
        ignored = f"; ignored: {sum(self.ignored.values()):,}" if self.ignored else ""
        return f"Corpus({self.name!r}, {self.format}: {many(len(self.documents), 'document')}{left_out}{ignored})"

    @property
    def encodings(self) -> Mapping[str, tuple[str, ...]]:
        """The ids of the documents of each text encoding other than UTF-8, which may have been guessed."""
        found: dict[str, list[str]] = {}
        for one in self.documents:
            if isinstance(encoding := one.metadata.get(ENCODING), str):
                found.setdefault(encoding, []).append(one.id)
        return {encoding: tuple(ids) for encoding, ids in sorted(found.items())}

    @property
    def chunking(self) -> Literal["default"] | None:
        """The default chunking of these documents; None if each document is one passage."""
        return None if self.whole else "default"


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A document as it was read. `id` is None if the source gives it no id."""

    id: str | None
    title: str
    text: str
    metadata: Metadata
    item: Item
    sections: tuple[Section, ...] = ()
    blocks: tuple[Span, ...] = ()


Gathered: TypeAlias = tuple[tuple[Document, ...], int]


def content_id(title: str, text: str) -> str:
    """Return the id for a document without one: 16 hexadecimal digits of a hash of title and text."""
    return digest([title, text])


def gather(given: Iterable[RawDocument], problems: Problems) -> Gathered:
    """Return the documents, and the number of duplicates without ids. Raises DataError if an id cannot be kept."""
    kept: dict[str, Document] = {}
    hashed: set[str] = set()
    repeats = 0

    def add(one: RawDocument) -> None:
        nonlocal repeats
        if not one.title.strip() and not one.text.strip():
            raise one.item.error("a title or a text", "a document with neither")
        try:
            metadata_json(one.metadata)
        except DataError as error:
            raise one.item.error(error.expected, error.found) from None
        id = content_id(one.title, one.text) if one.id is None else one.id
        if (control := describe_control(id)) is not None:
            raise one.item.error("a document id without control characters", control)
        if one.id is None and id in hashed:
            repeats += 1
        elif id in kept:
            raise one.item.error("each document id once", f"the id {id!r} {_describe_repeat(kept[id], one)}")
        else:
            kept[id] = Document(id, one.title, one.text, one.metadata, one.sections, one.blocks)
            hashed.update([id] if one.id is None else [])

    for _ in problems.each(add, given):
        pass
    return tuple(kept.values()), repeats


def _describe_repeat(first: Document, second: RawDocument) -> str:
    rows = [one.sections[0].page for one in (first, second) if one.sections] if is_row(first.id) else []
    return f"in the rows {rows[0]} and {rows[1]}" if len(rows) == 2 else "a second time"


def require_documents(gathered: Gathered, path: Path, problems: Problems) -> Gathered:
    """Return `gathered`. Raises DataError if it has no documents."""
    if not gathered[0]:
        found = f"none that can be read; {problems.errors[0]}" if problems.errors else "none"
        raise DataError("at least one document", found.removesuffix("."), path=path)
    return gathered


def parse_id(item: Item) -> str | None:
    """Return the id under `_id` or `id`, a string or integer, as a string; None if there is none. Raises DataError."""
    key = "_id" if "_id" in item.fields else "id"
    value = item.fields.get(key)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    id = item.unicode(value, f"a string under {key!r}")
    if not id.strip():
        raise item.error(f"an id under {key!r}", "an empty one")
    return id


def parse_metadata(item: Item, *others: str) -> Metadata:
    """Return the object under `metadata` together with the keys `others`. Raises DataError for non-finite numbers."""
    metadata = dict(item.within(item.fields.get("metadata") or {}, "'metadata'").fields)
    for key in others:
        if key in metadata:
            raise item.error("each metadata key once", f"{key!r} both inside and beside 'metadata'")
        metadata[key] = item.fields[key]
    for value in _leaves(metadata):
        if isinstance(value, str):
            item.unicode(value, "metadata")
        elif isinstance(value, float) and not math.isfinite(value):
            raise item.error("finite numbers in metadata", format_value(value))
    return metadata or NO_METADATA


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value
