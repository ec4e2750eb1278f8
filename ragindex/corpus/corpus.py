"""The Corpus, checks of the documents that readers yield (ids, duplicates, metadata), and what was left out of it."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ragindex._util.canonical import digest, metadata_json
from ragindex._util.ids import describe_control, is_row
from ragindex._util.text import first_names, many
from ragindex.corpus.json_reader import Item, LeftOut, Problems, format_value
from ragindex.corpus.readers.text_encodings import ENCODING
from ragindex.errors import DataError
from ragindex.types import NO_METADATA, Chunking, Document, Metadata, Section, Span

if TYPE_CHECKING:
    from ragindex.corpus.file_selection import DataReading

_NAMED = 3
MOST_LISTED = 19
"""Files that are all listed; of more, only the first are named."""
NO_TEXT = "a file with text in it"
"""What is expected of a file that has none: such a file was read."""
_ARCHIVES = (".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".tar", ".7z", ".rar", ".jar")
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".svg", ".ico", ".heic", ".avif")
_KINDS = {
    **dict.fromkeys(_ARCHIVES, ("archive", "archives, which are not opened: unpack them")),
    **dict.fromkeys(_PICTURES, ("picture", "pictures")),
    ".rtf": (".rtf file", ".rtf files: save them as .docx, or run soffice --headless --convert-to docx FILE"),
}
"""What files are that no reader takes, and how the reason names them, by suffix."""
_HINTS = {".parquet file": "; --rows reads them", ".rtf file": "; save them as .docx to read them"}


@dataclass(frozen=True, slots=True, repr=False)
class Corpus:
    """Documents read from one source.

    Example:
        corpus = ragindex.read("my-documents")
        print(len(corpus.documents), corpus.skipped, corpus.ignored)

    `repeats` counts duplicates of documents without ids. `skipped` are the files or items that were left out, with the
    reasons. `ignored` counts files of a folder that no reader supports, by suffix. With `undivided`, as in benchmark
    formats, each document is one passage; otherwise documents are chunked. `root` is the source: the absolute path of
    the folder that ids are relative to or of the data set's file, or the name of a generated corpus; "" for documents
    made by a program. If `only` is set, only that file of the folder was read. `notes` are other remarks on what was
    read. `unread` maps the files and folders that were passed over to the reasons, and `files` the ids of documents to
    hashes of their files. `reading` says how it was read, so that an index can read it again;
    `untouched` are the files that were not, as they are what they were when the index read them. `split` is the
    chunking, where it was chosen.
    """

    name: str
    format: str
    documents: tuple[Document, ...]
    repeats: int
    skipped: tuple[LeftOut, ...]
    undivided: bool
    ignored: Mapping[str, int] = field(default_factory=dict)
    root: str = ""
    only: str = ""
    notes: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    reading: "DataReading | None" = None
    untouched: frozenset[str] = frozenset()
    split: Chunking | None = None

    def __repr__(self) -> str:
        left_out = f"; left out: {len(self.skipped):,} (see skipped)" if self.skipped else ""
        ignored = f"; ignored: {sum(self.ignored.values()):,}" if self.ignored else ""
        return f"Corpus({self.name!r}, {self.format}: {many(len(self.documents), 'document')}{left_out}{ignored})"

    @property
    def encodings(self) -> Mapping[str, tuple[str, ...]]:
        """The ids of the documents of each text encoding other than UTF-8, which may have been guessed."""
        ids_by_encoding: dict[str, list[str]] = {}
        for document in self.documents:
            if isinstance(encoding := document.metadata.get(ENCODING), str):
                ids_by_encoding.setdefault(encoding, []).append(document.id)
        return {encoding: tuple(ids) for encoding, ids in sorted(ids_by_encoding.items())}

    @property
    def chunking(self) -> Chunking | Literal["default"] | None:
        """The chunking of these documents: `split` if it is given, else the default; None if each is one passage."""
        return self.split or (None if self.undivided else "default")


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


def gather(raw_documents: Iterable[RawDocument], problems: Problems) -> Gathered:
    """Return the documents, and the number of duplicates without ids. Raises DataError if an id cannot be kept."""
    documents: dict[str, Document] = {}
    hashed: set[str] = set()
    repeats = 0

    def add(raw: RawDocument) -> None:
        nonlocal repeats
        if not raw.title.strip() and not raw.text.strip():
            raise raw.item.error("a title or a text", "a document with neither")
        try:
            metadata_json(raw.metadata)
        except DataError as error:
            raise raw.item.error(error.expected, error.found) from None
        id = content_id(raw.title, raw.text) if raw.id is None else raw.id
        if (control := describe_control(id)) is not None:
            raise raw.item.error("a document id without control characters", control)
        if raw.id is None and id in hashed:
            repeats += 1
        elif id in documents:
            raise raw.item.error("each document id once", f"the id {id!r} {_describe_repeat(documents[id], raw)}")
        else:
            documents[id] = Document(id, raw.title, raw.text, raw.metadata, raw.sections, raw.blocks)
            hashed.update([id] if raw.id is None else [])

    for _ in problems.each(add, raw_documents):
        pass
    return tuple(documents.values()), repeats


def _describe_repeat(first: Document, second: RawDocument) -> str:
    rows = [document.sections[0].page for document in (first, second) if document.sections] if is_row(first.id) else []
    return f"in the rows {rows[0]} and {rows[1]}" if len(rows) == 2 else "a second time"


def require_documents(gathered: Gathered, path: Path, problems: Problems) -> Gathered:
    """Return `gathered`. Raises DataError if it has no documents."""
    if not gathered[0]:
        reason = f"none that can be read; {problems.errors[0]}" if problems.errors else "none"
        raise DataError("at least one document", reason.removesuffix("."), path=path)
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


# ---------------------------------------------------------------- what was left out, in sentences


def describe_left_out(files: Iterable[LeftOut]) -> list[str]:
    """Return a sentence for each reason, with all places; for many, one for each kind of reason, with the first."""
    left_out = list(files)
    is_few = len(left_out) <= MOST_LISTED
    groups: dict[str, list[LeftOut]] = {}
    for item in left_out:
        groups.setdefault(item.reason if is_few else item.kind or item.reason, []).append(item)
    most_named, sentences = MOST_LISTED if is_few else _NAMED, list[str]()
    for group in groups.values():
        places = "; ".join(item.place for item in group[:most_named])
        more = f"; and {len(group) - most_named:,} more" if len(group) > most_named else ""
        several = f"{len(group):,} ({places}{more}): {group[0].reason}"
        sentences.append(f"skipped: {several if len(group) > 1 else group[0]}")
    return sentences


def explain_ignored(suffix: str) -> str:
    """Return why a file with this suffix, which no reader takes, is not read."""
    if suffix in _KINDS:
        return f"no reader takes {_KINDS[suffix][1]}"
    return f"no reader takes {f'{suffix} files' if suffix else 'files without a suffix'}"


def describe_ignored(counts: Mapping[str, int], unread: Mapping[str, str]) -> list[str]:
    """Return a sentence for each kind of files that no reader takes, from the counts of `Corpus` and its `unread`."""
    kinds = Counter[tuple[str, str]]()
    for suffix, count in sorted(counts.items()):
        what = _KINDS[suffix][0] if suffix in _KINDS else f"{suffix} file" if suffix else "file without a suffix"
        kinds[what, explain_ignored(suffix)] += count
    sentences = []
    for (what, reason), count in kinds.items():
        names = [name for name, why in unread.items() if why == reason]
        plural = "files without a suffix" if what == "file without a suffix" else ""
        hint = _HINTS.get(what, "")
        sentences.append(f"ignored: {many(count, what, plural)}{f' ({name_files(names)})' if names else ''}{hint}")
    return sentences


def name_files(names: Sequence[str]) -> str:
    """Return the names of files, of many the first."""
    return ", ".join(names) if len(names) <= MOST_LISTED else first_names(names)


def describe_encodings(ids: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a sentence for each encoding other than UTF-8, with the documents that were read in it."""
    return [f"read as {encoding}: {len(names):,} ({first_names(names)})" for encoding, names in ids.items()]
