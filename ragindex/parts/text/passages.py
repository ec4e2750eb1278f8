"""Passages of the corpus, searched by text."""

import json
from typing import ClassVar

import pyarrow as pa

from ragindex.interfaces import Change, Collection, Part, Site, Uses
from ragindex.plugins.base import Plugin
from ragindex.retrieval.hits import filter_fields, searchable


class Passages(Plugin):
    """One record a passage: title, text, metadata, and the tokens of title, newline, text."""

    version: ClassVar[int] = 1
    uses: ClassVar[Uses] = frozenset()

    def inputs(self) -> tuple[Part[object], ...]:
        """Made from the corpus."""
        return ()

    def apply(self, change: Change, site: Site) -> None:
        """Write the passages of the batch, forget those removed."""
        records = site.collection("records", searchable(site.language))
        records.delete(change.remove)
        if change.upsert:
            records.upsert(_records(site.passages(list(change.upsert))))

    def finish(self, site: Site) -> None:
        """Nothing beyond what every collection does."""

    def open(self, site: Site) -> Collection:
        """The collection."""
        return site.collection("records")


def _records(passages: pa.RecordBatch) -> pa.RecordBatch:
    doc_ids = passages.column("doc_id").to_pylist()
    metadata = [json.loads(text) for text in passages.column("metadata").to_pylist()]
    by_document = [
        json.dumps({doc_id: one}, ensure_ascii=False) if one else ""
        for doc_id, one in zip(doc_ids, metadata, strict=True)
    ]
    columns = {
        "id": passages.column("id"),
        "kind": pa.array(["passage"] * len(passages), pa.string()),
        "title": passages.column("title"),
        "text": passages.column("text"),
        "metadata": pa.array(by_document, pa.string()),
        "passage_ids": pa.array([[id] for id in passages.column("id").to_pylist()], pa.list_(pa.string())),
        "doc_ids": pa.array([[id] for id in doc_ids], pa.list_(pa.string())),
        **filter_fields([one] for one in metadata),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
