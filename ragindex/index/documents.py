"""The documents collection of an index, and the passages that documents are split into.

A record contains a document and the start, end and revision of each of its passages, and the start and end of the
header of the table that a passage starts in. A document and its passages therefore change in one write. Headings above
and in a passage are part of its revision; pages are looked up for hits.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ragindex._util.canonical import document_metadata_json, load_stored_json, metadata_json
from ragindex.corpus.chunk_spans import TokenSpans
from ragindex.corpus.chunking import chunk, headings_within, id_mark, pages_within, section_at, split_passage_id
from ragindex.errors import UsageError
from ragindex.index import revisions
from ragindex.interfaces import Collection, Schema
from ragindex.types import COMMIT, MODIFIED, Chunking, Document, Passage, Position, Section, Span

_CONTENT = ("title", "text", "metadata", "sections", "blocks")
DOCUMENT_SCHEMA = Schema(stored=(*_CONTENT, "revision", "source"), keywords=("passages",))
CHUNK_SCHEMA = Schema(keywords=("passages",))
"""The schema of the spans of passages of a chunking that is not the index's own: one record per document."""
_BATCH = 2000
_FEW_IDS = 64
_REVISION_LENGTH = len(revisions.revision())
DOCUMENT_ROWS = pa.schema(
    [
        ("id", pa.string()),
        *((name, pa.string()) for name in DOCUMENT_SCHEMA.stored),
        ("passages", pa.list_(pa.string())),
    ]
)
"""The columns of a stored document."""
PASSAGES = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "doc_id", "title", "text", "metadata", "headings")),
        ("own_headings", pa.list_(pa.string())),
    ]
)
"""`headings` are those that the passage starts under, outermost first, joined by " › "; `own_headings` those in it."""


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """The numbers of documents that a call added, changed, removed, and left unchanged.

    `new` are the ids of the added documents, `replaced` those of the changed ones; `gone` are the ids removed because
    their source no longer has them; `kept` those of documents whose files are there and could not be read this time.
    `reread` is the number of the changed documents whose files are the same, but are read in another way. `renamed` are
    the (old, new) ids of documents with the same content under another id, or nine tenths of its lines; they count
    neither as added nor as removed.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    reread: int = 0
    renamed: tuple[tuple[str, str], ...] = ()


_MANY_REMOVED, _MOST_FEW = 0.2, 4


@dataclass(frozen=True, slots=True)
class Removals:
    """The documents that are about to leave an index because their source no longer has them.

    `ids` are theirs, `source` is its name and `documents` how many it has. Those among `renames` come again under
    another id.
    """

    ids: tuple[str, ...]
    source: str
    documents: int
    renames: Mapping[str, str] = field(default_factory=dict)

    @property
    def renamed(self) -> int:
        """How many come again under another id."""
        return len(self.renames)

    @property
    def suspicious(self) -> bool:
        """Whether more leave than edits explain: five or more, and more than a fifth. A checkout may be incomplete."""
        return len(self.ids) - self.renamed > max(_MOST_FEW, _MANY_REMOVED * self.documents)


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents collection, and the passages of one chunking.

    If `chunking` is None, every document is one passage with the document's id. The spans of the index's own chunking
    stand in the records of the documents; those of another one in the collection that `chunks` opens.
    """

    collection: Collection
    chunking: Chunking | None
    chunks: Callable[[], Collection] | None = None

    def chunked(self, chunking: Chunking, chunks: Callable[[], Collection]) -> "Documents":
        """Return the same documents with the passages of another chunking."""
        return replace(self, chunking=chunking, chunks=chunks)

    @property
    def mark(self) -> str:
        """What stands between a document's id and the number of a passage; "" if a document is one passage."""
        return id_mark(self.chunking, of_index=self.chunks is None)

    def upsert(
        self,
        documents: Iterable[Document],
        source: str,
        advance: Callable[[int], None] = lambda done: None,
        files: Mapping[str, str] = MappingProxyType({}),
    ) -> DocumentChanges:
        """Add the documents of a source, replacing those with the same id. The ids must be unique.

        `files` maps ids to hashes of the files that the documents were read from. While a file stays the same, its
        documents keep the date of its last change that they had: a copy of a folder has other dates.
        """
        changes = self._compare(documents, source, advance, files, self._write)
        if changes.added + changes.changed > _FEW_IDS:
            self.collection.finish()  # the following sync looks passages up by id
        return changes

    def compare(self, documents: Iterable[Document], source: str, files: Mapping[str, str]) -> DocumentChanges:
        """Return what `upsert` would change."""
        return self._compare(documents, source, lambda done: None, files, lambda rows: None)

    def _write(self, rows: list[dict[str, Any]]) -> None:
        self.collection.upsert(pa.RecordBatch.from_pylist(rows, schema=DOCUMENT_ROWS))

    def _compare(
        self,
        documents: Iterable[Document],
        source: str,
        advance: Callable[[int], None],
        files: Mapping[str, str],
        write: Callable[[list[dict[str, Any]]], None],
    ) -> DocumentChanges:
        coming, lookup = iter(documents), _FieldLookup(self.collection, "revision")
        added, changed, unchanged, reread = list[str](), list[str](), 0, 0
        while batch := list(islice(coming, _BATCH)):
            known = lookup.values([document.id for document in batch])
            rows = self._build_rows(batch, source, known, files)
            new = [row for row in rows if known.get(row["id"]) != row["revision"]]
            if new:
                write(new)
            for id, revision in ((row["id"], row["revision"]) for row in rows):
                same_content, same_file = _compare_revisions(known.get(id, ""), revision)
                if id not in known:
                    added.append(id)
                elif same_content:
                    unchanged += 1
                else:
                    changed.append(id)
                    reread += same_file
            advance(len(batch))
        return DocumentChanges(
            len(added), len(changed), 0, unchanged, tuple(added), replaced=tuple(changed), reread=reread
        )

    def _build_rows(
        self, documents: Sequence[Document], source: str, known: Mapping[str, str], files: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """Return the records of documents. What is in an unchanged file keeps the date of change that is stored."""
        rows = [_build_row(document, self.chunking, files.get(document.id, "")) for document in documents]
        doubtful = [
            place
            for place, (document, row) in enumerate(zip(documents, rows, strict=True))
            if MODIFIED in document.metadata
            and _compare_revisions(known.get(row["id"], ""), row["revision"])[1]
            and known[row["id"]] != row["revision"]
        ]
        ids = [documents[place].id for place in doubtful]
        stored = self.collection.get(ids, ("metadata",)).to_pylist() if ids else []
        known_changes = {row["id"]: _select_changes(load_stored_json(row["metadata"])) for row in stored}
        for place in doubtful:
            document = documents[place]
            if last_change := known_changes.get(document.id):
                dated = replace(document, metadata={**document.metadata, **last_change})
                rows[place] = _build_row(dated, self.chunking, files[document.id])
        return [{**row, "source": source} for row in rows]

    def rechunk(self, advance: Callable[[int], None] = lambda done: None) -> DocumentChanges:
        """Split all documents anew by `chunking`; those whose passages differ count as changed. Can be repeated."""
        ids, changed = sorted(self.sources()), list[str]()
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            rows = self.collection.get(batch, (*DOCUMENT_SCHEMA.stored, "passages")).to_pylist()
            new = []
            for row in rows:
                document = _build_document(row)
                passages = _write_spans(document, chunk(document, self.chunking))
                if passages != row["passages"]:
                    new.append({**row, "passages": passages})
            if new:
                self.collection.upsert(pa.RecordBatch.from_pylist(new, schema=DOCUMENT_ROWS))
            changed += [row["id"] for row in new]
            advance(len(batch))
        if len(changed) > _FEW_IDS:
            self.collection.finish()
        return DocumentChanges(changed=len(changed), unchanged=len(ids) - len(changed), replaced=tuple(changed))

    def remove(self, ids: Sequence[str]) -> int:
        """Remove the documents among `ids` that exist, and return their number."""
        existing = self.collection.get(ids, ()).column("id").to_pylist()
        self.collection.delete(existing)
        return len(existing)

    def sources(self, ids: Sequence[str] | None = None) -> dict[str, str]:
        """Return the source of each document by id: of all documents, or of the existing ones among `ids`."""
        lookup = _FieldLookup(self.collection, "source")
        return lookup.everything() if ids is None else lookup.values(list(ids))

    def file_hashes(self, source: str) -> dict[str, str]:
        """Return the hashes of the files that the documents of a source were read from, by document."""
        rows = (row for batch in self.collection.scan(("source", "revision")) for row in batch.to_pylist())
        hashes = ((row["id"], row["revision"].partition(":")[2]) for row in rows if row["source"] == source)
        return {id: digest for id, digest in hashes if digest}

    def find_metadata(self, key: str) -> dict[str, Any]:
        """Return the values of a metadata key by document, of those that have it."""
        every = _FieldLookup(self.collection, "metadata").everything().items()
        candidates = ((id, load_stored_json(text)) for id, text in every if json.dumps(key) in text)
        return {id: metadata[key] for id, metadata in candidates if key in metadata}

    def __iter__(self) -> Iterator[Document]:
        """Yield all documents, in no particular order."""
        for batch in self.collection.scan(_CONTENT):
            yield from map(_build_document, batch.to_pylist())

    def read(self, ids: Sequence[str]) -> list[Document]:
        """Return the existing documents among `ids`, in the order of `ids`."""
        rows = {row["id"]: row for row in self.collection.get(list(ids), _CONTENT).to_pylist()}
        return [_build_document(rows[id]) for id in ids if id in rows]

    def owns(self, passage: str) -> bool:
        """Return whether the id of a passage is one of this chunking."""
        mark = self.mark
        return bool(mark) and passage.rpartition(mark)[2].isdecimal() and mark in passage

    def owner(self, passage: str) -> str:
        """Return the id of the document that a passage belongs to."""
        return passage.rpartition(self.mark)[0] if self.mark else passage

    def document_of(self, id: str) -> str:
        """Return the document of a passage of any chunking; the id itself if it is none, as that of a summary."""
        split = split_passage_id(id)
        return id if split is None or (split[1] == "#" and not self.mark) else split[0]

    def positions(self, ids: Iterable[str]) -> dict[str, dict[str, Position]]:
        """Return where each passage of the existing documents among `ids` stands, by document and passage."""
        return {row["id"]: dict(self._place_passages(row)) for row in self._read_rows(list(ids), ("sections",))}

    def _read_rows(self, ids: Sequence[str], fields: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return the fields of the existing documents among `ids`, and the spans of their passages."""
        if self.chunks is None:
            return list(self.collection.get(ids, (*fields, "passages")).to_pylist())
        spans = {row["id"]: row["passages"] for row in self.chunks().get(ids, ("passages",)).to_pylist()}
        rows = self.collection.get(ids, fields).to_pylist()
        return [{**row, "passages": spans[row["id"]]} for row in rows if row["id"] in spans]

    def _place_passages(self, row: Mapping[str, Any]) -> Iterator[tuple[str, Position]]:
        sections = _parse_sections(row["sections"])
        for number, span_text in enumerate(row["passages"]):
            start, end, _ = _parse_spans(span_text)
            section = section_at(sections, start)
            id = f"{row['id']}{self.mark}{number}" if self.mark else row["id"]
            pages = pages_within(sections, start, end)
            yield id, Position(row["id"], start, end, section.page, section.headings, pages)

    def document_revisions(self) -> pa.Table:
        """Return the revision of the content of every document."""
        read = pa.Table.from_batches(self.collection.scan(("revision",)), revisions.REVISION_SCHEMA)
        content = pc.utf8_slice_codeunits(read.column("revision"), 0, _REVISION_LENGTH)
        return pa.table([read.column("id"), content], schema=revisions.REVISION_SCHEMA)

    def passage_revisions(self) -> pa.Table:
        """Return the revision of every passage, from which parts without inputs are built."""
        collection = self.collection if self.chunks is None else self.chunks()
        rows = pa.Table.from_batches(collection.scan(("passages",)), _SPAN_SCHEMA)
        if not len(rows):
            return revisions.revision_table([], [])
        spans = rows.column("passages").combine_chunks()
        parents = pc.list_parent_indices(spans)
        ids = rows.column("id").combine_chunks().take(parents)
        if self.mark:
            numbers = np.arange(len(parents)) - spans.offsets.to_numpy()[parents.to_numpy()] + spans.offsets[0].as_py()
            ids = pc.binary_join_element_wise(ids, pa.array(numbers).cast(pa.string()), self.mark)
        revision = pc.utf8_slice_codeunits(spans.flatten(), 0, _REVISION_LENGTH)
        return pa.table([ids, revision], schema=revisions.REVISION_SCHEMA)

    def passages(self, ids: Sequence[str]) -> pa.RecordBatch:
        """Return the existing passages among `ids`, in the order of `ids`, with the columns of PASSAGES."""
        owners = [self.owner(id) for id in ids]
        unique = list(dict.fromkeys(owners))
        documents = self._read_rows(unique, ("title", "text", "metadata", "sections"))
        by_id = {row["id"]: {**row, "sections": _parse_sections(row["sections"])} for row in documents}
        rows = []
        for id, owner in zip(ids, owners, strict=True):
            record = by_id.get(owner)
            number = int(id.rpartition(self.mark)[2]) if self.mark else 0
            if record is not None and number < len(record["passages"]):
                start, end, header = _parse_spans(record["passages"][number])
                sections, text = record["sections"], record["text"][slice(*header)] + record["text"][start:end]
                above = _HEADING_SEPARATOR.join(section_at(sections, start).headings)
                own = headings_within(sections, start, end)
                rows.append({**record, "id": id, "doc_id": owner, "text": text, "headings": above, "own_headings": own})
        return pa.RecordBatch.from_pylist(rows, schema=PASSAGES)

    def chunk_rows(self, ids: Sequence[str], chunking: Chunking, tokens: TokenSpans | None = None) -> pa.RecordBatch:
        """Split the existing documents among `ids`; returns records of CHUNK_SCHEMA."""
        mark = id_mark(chunking, of_index=False)
        rows = [
            {"id": document.id, "passages": _write_spans(document, chunk(document, chunking, mark, tokens))}
            for document in self.read(ids)
        ]
        return pa.RecordBatch.from_pylist(rows, schema=_SPAN_SCHEMA)


_HEADING_SEPARATOR = " › "
_SPAN_SCHEMA = pa.schema([("id", pa.string()), ("passages", pa.list_(pa.string()))])


def _select_changes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what metadata says of the last change of a file, which stays while its content does."""
    return {key: metadata[key] for key in (MODIFIED, COMMIT) if key in metadata}


class _FieldLookup:
    """A lookup of one field of the stored documents by id; reads the whole column if many ids are asked for."""

    def __init__(self, collection: Collection, field: str) -> None:
        self.collection, self.field = collection, field
        self.all: dict[str, str] | None = None

    def values(self, ids: list[str]) -> dict[str, str]:
        if len(ids) <= _FEW_IDS and self.all is None:
            return self._by_id([self.collection.get(ids, (self.field,))])
        values = self.everything()
        return {id: values[id] for id in ids if id in values}

    def everything(self) -> dict[str, str]:
        if self.all is None:
            self.all = self._by_id(self.collection.scan((self.field,)))
        return self.all

    def _by_id(self, batches: Iterable[pa.RecordBatch]) -> dict[str, str]:
        pairs = (zip(b.column("id").to_pylist(), b.column(self.field).to_pylist(), strict=True) for b in batches)
        return {id: value for batch in pairs for id, value in batch}


def _build_row(document: Document, chunking: Chunking | None, file: str) -> dict[str, Any]:
    """Return the record of a document. Its revision is that of its content, and after a colon the hash of its file."""
    content = {
        "title": document.title,
        "text": document.text,
        "metadata": document_metadata_json(document),
        "sections": _write_sections(document.sections),
        "blocks": _write_blocks(document.blocks, len(document.text)),
    }
    return {
        "id": document.id,
        **content,
        "revision": ":".join(filter(None, (_revise_content(content), file))),
        "passages": _write_spans(document, chunk(document, chunking)),
    }


def _revise_content(row: Mapping[str, Any]) -> str:
    optional = [row[name] for name in ("sections", "blocks") if row[name]]
    return revisions.revision(row["title"], row["text"], row["metadata"], *optional)


def is_whole_row(row: Mapping[str, Any]) -> bool:
    """Return whether the content of a stored document is what its revision was made from."""
    return all(isinstance(row[name], str) for name in ("id", "source", *_CONTENT)) and (
        _revise_content(row) == row["revision"][:_REVISION_LENGTH]
    )


def _compare_revisions(old: str, new: str) -> tuple[bool, bool]:
    """Return whether two revisions of a document are those of the same content, and of the same file."""
    (old_content, _, old_file), (new_content, _, new_file) = old.partition(":"), new.partition(":")
    return old_content == new_content, old_file == new_file != ""


def _build_document(row: Mapping[str, Any]) -> Document:
    blocks = tuple((start, end) for start, end in load_stored_json(row["blocks"])) if row["blocks"] else ()
    sections = _parse_sections(row["sections"])
    return Document(row["id"], row["title"], row["text"], load_stored_json(row["metadata"]), sections, blocks)


def _write_spans(document: Document, passages: Sequence[Passage]) -> list[str]:
    """Return REVISION:START:END of each passage, with the START:END of its table's header if it has one.

    The revision is a hash of what parts are built from.
    """
    metadata = metadata_json(document.metadata)
    headers = [f":{passage.header[0]}:{passage.header[1]}" if passage.header[1] else "" for passage in passages]
    return [
        f"{_revise(document, passage, metadata)}:{passage.start}:{passage.end}{header}"
        for passage, header in zip(passages, headers, strict=True)
    ]


def _revise(document: Document, passage: Passage, metadata: str) -> str:
    revision = revisions.revision(passage.title, passage.text, metadata, *passage.headings)
    own = headings_within(document.sections, passage.start, passage.end)
    return revisions.revision(revision, *own) if own else revision


def _parse_spans(text: str) -> tuple[int, int, Span]:
    """Return start and end of a passage, and those of its table's header, (0, 0) if it has none."""
    _, start, end, *header = text.split(":")
    first, last = header or (0, 0)
    return int(start), int(end), (int(first), int(last))


def _write_sections(sections: Sequence[Section]) -> str:
    """Return sections as JSON, "" for none. Raises UsageError if they are not sorted by their start."""
    starts = [section.start for section in sections]
    if starts != sorted(starts):
        raise UsageError(f"The sections of a document must be sorted by 'start'. Got the starts {starts[:20]!r}.")
    rows = [[section.start, section.page, *section.headings] for section in sections]
    return json.dumps(rows, ensure_ascii=False) if rows else ""


def _write_blocks(blocks: Sequence[Span], length: int) -> str:
    """Return blocks as JSON, "" for none. Raises UsageError if they are empty, overlap, or leave the text."""
    edges = [place for span in blocks for place in span]
    if any(start >= end for start, end in blocks) or edges != sorted(edges) or not all(0 <= e <= length for e in edges):
        raise UsageError(
            f"The blocks of a document must be spans (start, end) of its {length} characters, sorted and apart. "
            f"Got {list(blocks[:20])!r}."
        )
    return json.dumps(blocks) if blocks else ""


def _parse_sections(text: str) -> tuple[Section, ...]:
    rows = load_stored_json(text) if text else []
    return tuple(Section(start, tuple(headings), page) for start, page, *headings in rows)
