"""The documents of a workspace, kept in its store, and the passages they are cut into.

A record holds a document and where its passages begin and end, each with its revision: so a document and its
passages change in one write.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.canonical import metadata_json
from ragindex.corpus import Chunking, chunk
from ragindex.interfaces import Collection, Schema
from ragindex.types import Document
from ragindex.workspace import revisions

DOCUMENT_SCHEMA = Schema(stored=("title", "text", "metadata", "revision", "source"), keywords=("passages",))
_BATCH = 2000
_FEW = 64
PASSAGES = pa.schema([(name, pa.string()) for name in ("id", "doc_id", "title", "text", "metadata")])


@dataclass(frozen=True, slots=True)
class Changed:
    """How many documents a call added, changed, removed, and found as they were.

    `new` are the ids of those added; `gone` of those removed because their source does not hold them any more.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Documents:
    """The collection of documents. With `chunking` None every document is one passage, under the document's id."""

    collection: Collection
    chunking: Chunking | None

    def upsert(
        self, documents: Iterable[Document], source: str, advance: Callable[[int], None] = lambda done: None
    ) -> Changed:
        """Add documents of a source, each id once, replacing those with the same id."""
        coming, held = iter(documents), _Held(self.collection, "revision")
        added, changed, unchanged = list[str](), 0, 0
        while batch := list(islice(coming, _BATCH)):
            known = held.values([document.id for document in batch])
            rows = [{**_row(document, self.chunking), "source": source} for document in batch]
            new = [row for row in rows if known.get(row["id"]) != row["revision"]]
            if new:
                self.collection.upsert(pa.RecordBatch.from_pylist(new, schema=_ROWS))
            added += [row["id"] for row in new if row["id"] not in known]
            changed += sum(row["id"] in known for row in new)
            unchanged += len(rows) - len(new)
            advance(len(batch))
        if len(added) + changed > _FEW:
            self.collection.finish()  # the passages are about to be looked up by id
        return Changed(len(added), changed, 0, unchanged, tuple(added))

    def remove(self, ids: Sequence[str]) -> int:
        """Remove those of `ids` that are there; how many there were."""
        found = self.collection.get(ids, ()).column("id").to_pylist()
        self.collection.delete(found)
        return len(found)

    def sources(self, ids: Sequence[str] | None = None) -> dict[str, str]:
        """The sources of all documents by id, or of those of `ids` that are there."""
        held = _Held(self.collection, "source")
        return held.everything() if ids is None else held.values(list(ids))

    def __iter__(self) -> Iterator[Document]:
        """All documents, in no stated order."""
        for batch in self.collection.scan(("title", "text", "metadata")):
            for row in batch.to_pylist():
                yield Document(row["id"], row["title"], row["text"], json.loads(row["metadata"]))

    def passage_revisions(self) -> pa.Table:
        """The revision of every passage: what a part without inputs is made from."""
        read = pa.Table.from_batches(self.collection.scan(("passages",)), _SPANS)
        if not len(read):
            return revisions.revision_table([], [])
        spans = read.column("passages").combine_chunks()
        parents = pc.list_parent_indices(spans)
        ids = read.column("id").combine_chunks().take(parents)
        if self.chunking is not None:
            numbers = np.arange(len(parents)) - spans.offsets.to_numpy()[parents.to_numpy()] + spans.offsets[0].as_py()
            ids = pc.binary_join_element_wise(ids, pa.array(numbers).cast(pa.string()), "#")
        revision = pc.utf8_slice_codeunits(spans.flatten(), 0, 16)
        return pa.table([ids, revision], schema=revisions.REVISION_SCHEMA)

    def passages(self, ids: Sequence[str]) -> pa.RecordBatch:
        """Those of the passages `ids` that exist, in the order asked; columns as PASSAGES."""
        owners = [id if self.chunking is None else id.rpartition("#")[0] for id in ids]
        unique = list(dict.fromkeys(owners))
        found = self.collection.get(unique, ("title", "text", "metadata", "passages"))
        by_id = {row["id"]: row for row in found.to_pylist()}
        rows = []
        for id, owner in zip(ids, owners, strict=True):
            record = by_id.get(owner)
            number = 0 if self.chunking is None else int(id.rpartition("#")[2])
            if record is not None and number < len(record["passages"]):
                start, end = map(int, record["passages"][number].split(":")[1:])
                rows.append({**record, "id": id, "doc_id": owner, "text": record["text"][start:end]})
        return pa.RecordBatch.from_pylist(rows, schema=PASSAGES)


_ROWS = pa.schema(
    [
        ("id", pa.string()),
        *((name, pa.string()) for name in DOCUMENT_SCHEMA.stored),
        ("passages", pa.list_(pa.string())),
    ]
)
_SPANS = pa.schema([("id", pa.string()), ("passages", pa.list_(pa.string()))])


class _Held:
    """A field of the documents that are there, by id: looked up for a few, read whole for many."""

    def __init__(self, collection: Collection, field: str) -> None:
        self.collection, self.field = collection, field
        self.all: dict[str, str] | None = None

    def values(self, ids: list[str]) -> dict[str, str]:
        if len(ids) <= _FEW and self.all is None:
            return self._by_id([self.collection.get(ids, (self.field,))])
        held = self.everything()
        return {id: held[id] for id in ids if id in held}

    def everything(self) -> dict[str, str]:
        if self.all is None:
            self.all = self._by_id(self.collection.scan((self.field,)))
        return self.all

    def _by_id(self, batches: Iterable[pa.RecordBatch]) -> dict[str, str]:
        pairs = (zip(b.column("id").to_pylist(), b.column(self.field).to_pylist(), strict=True) for b in batches)
        return {id: value for batch in pairs for id, value in batch}


def _row(document: Document, chunking: Chunking | None) -> dict[str, Any]:
    metadata = metadata_json(document.metadata)
    passages = chunk(document, chunking)
    spans = [f"{revisions.revision(p.title, p.text, metadata)}:{p.start}:{p.end}" for p in passages]
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "metadata": metadata,
        "revision": revisions.revision(document.title, document.text, metadata),
        "passages": spans,
    }
