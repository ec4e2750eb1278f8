"""Aliases over several syncs."""

from pathlib import Path

from letters import Letters
from made_extractions import openie, rows, spelt

from ragindex.plugins import registry
from ragindex.types import Document
from ragindex.workspace.workspace import Workspace
from ragindex_retrievers.griever.parts.same_as import SameAs

APART = SameAs(passage_cosine=1)
"""Passages agree by what they name alone: in letters, all are near."""


def made(tmp_path: Path, *documents: Document, part: SameAs = APART, of: tuple[Document, ...] = ()) -> Workspace:
    tmp_path.mkdir(exist_ok=True)
    workspace = Workspace.open(tmp_path / "w", encoder=Letters(), chunking=None)
    workspace.import_part("extractions", openie(tmp_path / "f.json", of or documents))
    workspace.add(documents)
    workspace.sync([part])
    return workspace


def found(workspace: Workspace, part: SameAs = APART) -> dict[str, tuple[str, list[str]]]:
    """By text: the evidence, and the documents of the passages (one each)."""
    documents = {row["id"]: row["metadata"] for row in rows(workspace, registry.part("passages"), "metadata")}
    named = {id: text.split('"')[1] for id, text in documents.items()}
    held = rows(workspace, part, "text", "evidence", "passage_ids")
    return {row["text"]: (row["evidence"], sorted(named[id] for id in row["passage_ids"])) for row in held}


def test_adding_and_removing_is_indexing_what_is_left(tmp_path: Path) -> None:
    documents = (
        spelt("A", "Orange S.A.|operates|Livebox", "LeBron Raymone James Sr.|born in|Akron"),
        spelt("B", "Orange|sells|Livebox", "Beyoncé|lives in|Houston"),
        spelt("C", "Orange|also known as|Citrus sinensis", "LeBron James|lives in|Akron"),
        spelt("D", "beyonce|lives in|Houston", "Orange|sells|fruit", "Burma|renamed to|Myanmar"),
    )
    workspace = made(tmp_path, *documents[:2], of=documents)
    workspace.add(documents[2:])
    workspace.sync()
    assert len(found(workspace)) == 5
    ids = {document.metadata["id"]: document.id for document in documents}
    workspace.remove([ids["A"], ids["D"]])
    workspace.sync()
    fresh = made(tmp_path / "fresh", *documents[1:3], of=documents)
    assert rows(workspace, APART) == rows(fresh, APART)
    assert found(workspace) == {"Citrus sinensis = Orange": ("predicate: also known as", ["C"])}


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    one, two = spelt("A", "Burma|renamed to|Myanmar"), spelt("B", "Siam|renamed to|Thailand")
    nothing = Document("C", "", "Nothing.", {"id": "C"})
    workspace = made(tmp_path, one, of=(one, two, nothing))
    version = workspace.open_part(APART).version
    workspace.add([two])
    workspace.sync()
    assert len(found(workspace)) == 2
    assert workspace.open_part(APART).version > version
    version = workspace.open_part(APART).version
    workspace.add([nothing])
    workspace.sync()
    assert found(workspace).keys() == {"Burma = Myanmar", "Siam = Thailand"}
    assert workspace.open_part(APART).version == version
