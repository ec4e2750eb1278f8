"""A small index with metadata, built once for the tests of what opens it."""

import threading
from pathlib import Path
from typing import Any

import pytest

import ragindex

DOCUMENTS = [
    ragindex.Document(
        "light",
        "Lighthouse",
        "The lighthouse was built of slate in 1931.",
        {"year": 1931, "kind": "tower", "opened": "1931-05-01", "score": "A+", "open": True},
        sections=(ragindex.Section(0, ("Lighthouse", "History"), 3),),
    ),
    ragindex.Document("harbour", "Harbour", "The harbour was built in 1850.", {"year": 1850, "kind": "port"}),
    ragindex.Document("mill", "Mill", "The mill was built in 1850, and ground corn.", {"year": 1850, "kind": "mill"}),
    ragindex.Document("pier", "Pier", "The pier was built later.", {"tags": ["wood", "long"]}),
]
QUESTION = "When was the lighthouse built?"


def build_library(folder: Path) -> Path:
    """Build `bm25` over DOCUMENTS in `folder` and return it."""
    with ragindex.open(folder, encoder="lsa", create=True) as index:
        index.add(DOCUMENTS)
        index.build("bm25")
    return folder


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an index with `bm25`."""
    return build_library(tmp_path_factory.mktemp("library") / "index")


@pytest.fixture
def opened(library: Path) -> ragindex.IndexRetriever:
    """The open method `bm25`, which finds every document by the word "built"."""
    with ragindex.open(library, read_only=True) as index:
        return index.retriever("bm25")


@pytest.fixture
def searching(opened: ragindex.IndexRetriever, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which open methods search."""
    threads: list[int] = []
    search = ragindex.IndexRetriever.search

    def note(self: ragindex.IndexRetriever, *arguments: Any, **named: Any) -> ragindex.Hits:
        threads.append(threading.get_ident())
        return search(self, *arguments, **named)

    monkeypatch.setattr(ragindex.IndexRetriever, "search", note)
    return threads
