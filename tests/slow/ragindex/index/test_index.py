"""Many equal passages."""

from pathlib import Path
from typing import Any

import pytest

from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.stores.lancedb import maintenance
from ragindex.types import Document, Query


def test_many_equal_passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one batch of them, and enough for an index of vectors."""
    monkeypatch.setattr(maintenance, "_ANN_FROM", 1_000)
    workspace = Index.open(tmp_path, chunking=None, create=True)
    workspace.add([*(Document(f"{n:05d}", "Same", "the same words") for n in range(1_500)), Document("x", "", "!")])
    schemes = [registry.scheme(name) for name in ("bm25", "dense", "hybrid")]
    workspace.build(*schemes)

    def ids(scheme: Any, question: str, k: int) -> list[str]:
        return [hit.id for hit in scheme.open(workspace).retrieve([Query("q", question)], k)[0].hits]

    for scheme in schemes:
        assert ids(scheme, "same words", 3) == ["00000", "00001", "00002"]
    assert len(ids(schemes[0], "same", 3_000)) == 1_500
