"""Passages of the corpus, searched by text."""

import json
from typing import ClassVar

import pyarrow as pa

from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext
from ragindex.retrieval.hits import build_filter_fields, text_search_schema


class Passages(Part[Collection]):
    """One record per passage: title, text, metadata, and the tokens of "title, newline, text"."""

    version: ClassVar[int] = 1

    def apply(self, change: Change, context: BuildContext) -> None:
        """Write the passages of the batch, and delete those that were removed."""
        records = context.collection("records", text_search_schema(context.language))
        records.delete(change.remove)
        if change.upsert:
            records.upsert(_build_records(context.passages(list(change.upsert))))

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of passages."""
        return context.collection("records")


def _build_records(passages: pa.RecordBatch) -> pa.RecordBatch:
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
        **build_filter_fields([one] for one in metadata),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
