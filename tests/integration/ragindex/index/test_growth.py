"""What a build does is in proportion to its passages: versions, scans, and openings of the cache of vectors."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from benchmarks.synthetic import RandomVectors, documents
from ragindex.filters import Filter
from ragindex.index.index import Index
from ragindex.parts.vectors.vectors import Vectors
from ragindex.stores.lancedb.collection import LanceCollection

PASSAGES, BATCHES = 900, 3


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setattr("ragindex.index.sync._BATCH", PASSAGES // BATCHES)
    index = Index.open(tmp_path, encoder=RandomVectors(size=8), chunking=None, create=True)
    index.add(documents(PASSAGES))
    return index


def test_batches_of_vectors_are_versions(workspace: Index) -> None:
    workspace.build(Vectors())
    (name,) = [name for name in workspace.store.names() if name.startswith("vectors") and name.endswith(".records")]
    assert workspace.store.version(name) == 1 + BATCHES


def test_fresh_build_scans_no_vectors(workspace: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    filters = list[tuple[str, Filter | None]]()
    real = LanceCollection.scan

    def counted(self: LanceCollection, fields: Any, where: Filter | None = None) -> Any:
        if self.name.endswith(".records"):
            filters.append((self.name.partition("-")[0], where))
        return real(self, fields, where)

    monkeypatch.setattr(LanceCollection, "scan", counted)
    workspace.build(Vectors())
    assert [name for name, where in filters if where is not None] == ["passages"] * BATCHES
    workspace.add([*documents(PASSAGES + 1, seed=1)])
    workspace.build()
    assert sum(name == "vectors" for name, where in filters if where is not None) == BATCHES  # not for the new one


def test_cache_stays_open(workspace: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[str]()
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **named: opened.append(str(path)) or real(path, **named))
    workspace.build(Vectors())
    assert sum(path.endswith("vectors.sqlite") for path in opened) == 2  # one builds, one prunes
