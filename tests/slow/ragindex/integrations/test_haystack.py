"""Haystack's own suite of filters, over an index."""

from pathlib import Path
from typing import Any

import pytest
from haystack import Document
from haystack.testing.document_store import FilterDocumentsTest

import ragindex
from ragindex.integrations.haystack import HaystackRetriever


class _DocumentsByFilter:
    """Haystack's documents in an index; filtering them is a search that every one of them answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.documents: dict[str, Document] = {}

    def write_documents(self, documents: list[Document]) -> None:
        self.documents = {document.id: document for document in documents}
        with ragindex.open(self.folder, create=True) as index:
            index.add(
                [
                    ragindex.Document(document.id, "", f"everyone {document.content}", document.meta)
                    for document in documents
                ]
            )
            index.build("bm25")

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        if not self.documents:
            return []
        retriever = HaystackRetriever(str(self.folder), "bm25", top_k=100)
        passing_ids = {
            document.meta["ragindex"]["doc_ids"][0] for document in retriever.run("everyone", filters)["documents"]
        }
        return [document for id, document in self.documents.items() if id in passing_ids]


class TestFilters(FilterDocumentsTest):
    """Haystack's own suite of filters, unchanged."""

    @pytest.fixture
    def document_store(self, tmp_path: Path) -> _DocumentsByFilter:
        return _DocumentsByFilter(tmp_path / "index")
