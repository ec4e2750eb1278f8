"""Partial triples against a plain count over long histories, and what a change makes again."""

from pathlib import Path
from typing import Any

import pytest
from made_extractions import imported, openie, rows, spelt

from ragindex.index.index import Index
from ragindex.stores.lancedb.collection import LanceCollection
from ragindex.types import Document
from ragindex_retrievers.griever.parts.partial_triples import PartialTriples

A = spelt("A", "Rhine|rises in|Alps", "Rhine|reaches|Rotterdam", "Rhine|rises in|Alps")
B = spelt("B", "Rhône|rises in|Alps", "Rhine|rises in|Basel")
C = Document("C", "", "Aare|rises in|Alps\nAlps|border|Alps", {})
PARTS = [PartialTriples(), PartialTriples(scope="passage")]


def written(part: PartialTriples, workspace: Index, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The texts of the part's records that a sync writes."""
    texts: set[str] = set()
    upsert = LanceCollection.upsert

    def noting(self: LanceCollection, records: Any) -> None:
        if self.name.startswith("partial_triples-") and self.name.endswith(".records"):
            texts.update(records.column("text").to_pylist())
        upsert(self, records)

    with monkeypatch.context() as patch:
        patch.setattr(LanceCollection, "upsert", noting)
        workspace.build(part)
    return texts


@pytest.mark.parametrize("part", PARTS)
def test_only_what_is_touched_is_made_again(
    part: PartialTriples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = openie(tmp_path / "all.json", [A, B, C, spelt("A", "Rhine|reaches|Basel")])
    workspace = imported(tmp_path / "w", file, [A, B])
    workspace.build(part)
    workspace.add([C])
    assert written(part, workspace, monkeypatch) == {"Aare rises in", "rises in Alps", "Alps border", "border Alps"}
    workspace.remove(["C"])
    assert written(part, workspace, monkeypatch) == {"rises in Alps"}
    workspace.add([spelt("A", "Rhine|reaches|Basel")])
    touched = {"Rhine rises in", "rises in Alps", "Rhine reaches", "reaches Basel"}
    assert written(part, workspace, monkeypatch) == touched
    monkeypatch.setattr("ragindex_retrievers.griever.parts.partial_triples._MOST_TERMS", 0)  # all records are looked at
    workspace.add([A])
    assert written(part, workspace, monkeypatch) == touched - {"reaches Basel"} | {"reaches Rotterdam"}
    assert len(rows(workspace, part)) == {"corpus": 6, "passage": 8}[part.scope]
