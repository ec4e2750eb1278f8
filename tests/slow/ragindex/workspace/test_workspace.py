"""Many equal passages."""

from pathlib import Path
from typing import Any

from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex.workspace.workspace import Workspace


def test_ten_thousand_equal_passages(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path, chunking=None)
    workspace.add([*(Document(f"{n:05d}", "Same", "the same words") for n in range(10_000)), Document("x", "", "!")])
    schemes = [registry.scheme(name) for name in ("bm25", "dense", "hybrid")]
    workspace.sync(schemes)

    def ids(scheme: Any, question: str, k: int) -> list[str]:
        return [hit.id for hit in scheme.open(workspace).retrieve([Query("q", question)], k)[0].hits]

    for scheme in schemes:
        assert ids(scheme, "same words", 3) == ["00000", "00001", "00002"]
    assert len(ids(schemes[0], "same", 20_000)) == 10_000
