"""An index that all tests open."""

import threading
from pathlib import Path
from typing import Any

import pytest
from made_library import build_library

import ragindex


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
