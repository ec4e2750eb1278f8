"""Neighbours of triples: by hand, against a plain count, from files and from the store, over several syncs."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_extractions import imported, notes, openie, spelt

from examples import examples
from ragindex._util.durable_files import RepairWarning
from ragindex.errors import DamagedError, StaleWarning, StoreError
from ragindex.index.index import Index
from ragindex.parts.triples import sparse_graph
from ragindex.parts.triples.sparse_graph import SparseGraph
from ragindex.parts.triples.triples import Triples
from ragindex.types import Document
from ragindex_retrievers.gear.triple_graph import StoreGraph, TripleGraph

A = spelt("A", "Rhine|rises in|Alps", "Rhine|reaches|Rotterdam", "Rhine|is the same as|Rhine")
B = spelt("B", "Alps|hold|Mont Blanc", "rhine|is|river")
C = spelt("C", "Oslo|is|far", "Rotterdam|has|harbour")
IN_FILES, IN_STORE = TripleGraph(), TripleGraph(memory_gib=0)


def build(tmp_path: Path, *documents: Document) -> Index:
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", (A, B, C)), documents)
    workspace.build(IN_FILES)
    return workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    workspace = build(tmp_path_factory.mktemp("graph"), A, B, C)
    workspace.build(IN_STORE)
    return workspace


@pytest.mark.parametrize("part", [IN_FILES, IN_STORE])
def test_neighbours_by_hand(part: TripleGraph, workspace: Index) -> None:
    graph = workspace.open_part(part)
    assert isinstance(graph, SparseGraph if part == IN_FILES else StoreGraph)
    assert graph.neighbours(["A#t0000", "A#t0001", "A#t0002", "B#t0000", "B#t0001", "C#t0000", "C#t0001"]) == [
        ["A#t0001", "A#t0002", "B#t0000"],
        ["A#t0000", "A#t0002", "C#t0001"],
        ["A#t0000", "A#t0001"],
        ["A#t0000"],
        [],
        [],
        ["A#t0001"],
    ]
    assert graph.neighbours(["A#t0001", "no such", "A#t0001"], limit=2) == [
        ["A#t0000", "A#t0002"],
        [],
        ["A#t0000", "A#t0002"],
    ]
    assert graph.of_entities(["Rhine", "Alps", "river", "Seine", ""]) == [
        ["A#t0000", "A#t0001", "A#t0002"],
        ["A#t0000", "B#t0000"],
        ["B#t0001"],
        [],
        [],
    ]
    assert graph.of_entities(["Rhine"], limit=2) == [["A#t0000", "A#t0001"]]
    assert graph.of_passages(["B", "A", "D"], limit=2) == [["B#t0000", "B#t0001"], ["A#t0000", "A#t0001"], []]
    assert (graph.neighbours([]), graph.of_entities([])) == ([], [])


def test_the_store_is_asked_beyond_the_budget_and_that_is_said(workspace: Index) -> None:
    assert set(notes(workspace, "triple_graph")) == {
        "Neighbours are asked from the store: the graph would not fit in 0 GiB."
    }


@pytest.mark.parametrize("memory_gib", [0, 1])
def test_entities_in_folded_case(memory_gib: int, workspace: Index) -> None:
    part = TripleGraph(over=Triples(entity_key="casefold"), memory_gib=memory_gib)
    workspace.build(part)
    graph = workspace.open_part(part)
    assert graph.neighbours(["B#t0001"]) == [["A#t0000", "A#t0001", "A#t0002"]]
    assert graph.of_entities([part.over.key("MONT  blanc"), "Rhine"]) == [["B#t0000"], []]


NAMES = st.sampled_from(["a", "b", "B", "é", "z", "ｚ", "\U0001f35e", "\uffff", "a b"])


@settings(max_examples=examples(60))
@given(st.dictionaries(st.text(max_size=3), st.tuples(NAMES, NAMES), max_size=12), st.none() | st.integers(0, 4))
def test_against_a_plain_count(triples: dict[str, tuple[str, str]], limit: int | None) -> None:
    ids, sides = list(triples), list(triples.values())
    passages = [id[:1] for id in ids]
    texts = (ids, [s for s, _ in sides], [o for _, o in sides], passages)
    columns = [pa.array(column, pa.string()) for column in texts]
    table = pa.table(columns, names=["id", "subject_key", "object_key", "passage_id"])
    graph = sparse_graph.sparse_graph(table)
    expected = [
        sorted(other for other in ids if other != id and {*triples[other]} & {*triples[id]})[:limit] for id in ids
    ]
    assert graph.neighbours(ids, limit) == expected
    names = ["a", "B", "\U0001f35e", "never"]
    assert graph.of_entities(names, limit) == [
        sorted(id for id in ids if name in triples[id])[:limit] for name in names
    ]
    assert graph.of_passages([*passages, "no such"], limit) == [
        *(sorted(id for id in ids if id[:1] == passage)[:limit] for passage in passages),
        [],
    ]


def answers(workspace: Index, part: TripleGraph = IN_FILES) -> list[list[str]]:
    return workspace.open_part(part).neighbours(["A#t0000", "A#t0001", "B#t0000", "C#t0001"])


def test_readers_keep_the_graph_of_the_sync_they_are_pinned_to(tmp_path: Path) -> None:
    writer = build(tmp_path, A, B)
    opened, late = writer.open_part(IN_FILES), Index.open(tmp_path / "w", create=True)
    before = answers(writer)
    writer.remove(["B"])
    writer.build()
    assert answers(writer)[0] == ["A#t0001", "A#t0002"]
    assert opened.neighbours(["A#t0000", "A#t0001", "B#t0000", "C#t0001"]) == before
    with pytest.warns(StaleWarning):
        assert answers(late) == before  # opened only now, at what the manifest said then
    folders = next((tmp_path / "w" / "parts").glob("triple_graph-*/*")).parent
    names = {path.name for path in folders.iterdir()}
    assert len(names) == 2
    late.close()
    (folders / "partial-123").mkdir()  # of a process that was killed
    writer.add([C])
    writer.build()
    left = {path.name for path in folders.iterdir()}
    assert len(left) == 1
    assert left.isdisjoint(names)
    assert answers(writer)[1] == ["A#t0000", "A#t0002", "C#t0001"]
    assert opened.neighbours(["A#t0000"]) == before[:1]  # the mapped files outlive their names


def test_files_that_are_lost(tmp_path: Path) -> None:
    workspace = build(tmp_path, A)
    folder = next((tmp_path / "w" / "parts").glob("triple_graph-*/*"))
    (folder / "entities.members.npy").write_bytes(b"")
    with pytest.raises(
        DamagedError, match=r"entities.members.npy has changed since it was written. Run: ragindex repair"
    ):
        Index.open(tmp_path / "w", create=True).open_part(IN_FILES)
    shutil.rmtree(folder)
    with pytest.raises(DamagedError, match="cannot be read"):
        Index.open(tmp_path / "w", create=True).open_part(IN_FILES)
    workspace.add([B])
    with pytest.warns(RepairWarning, match="hashes.json cannot be read .*: rebuilt"):
        workspace.build()
    assert answers(workspace)[0] == ["A#t0001", "A#t0002", "B#t0000"]


def test_a_graph_that_comes_back_is_the_one_that_holds(tmp_path: Path) -> None:
    workspace = build(tmp_path, A, B)
    first = answers(workspace)
    folders = next((tmp_path / "w" / "parts").glob("triple_graph-*/*")).parent
    folders_before, reader = list(folders.iterdir()), Index.open(tmp_path / "w", create=True)
    for documents in ([C], [B]):
        workspace.remove(
            [
                document.id
                for document in (A, B, C)
                if document.id in workspace.documents.sources() and document is not A
            ]
        )
        workspace.add(documents)
        workspace.build()
    assert answers(workspace) == first
    assert list(folders.iterdir()) == folders_before
    reader.close()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    table = pa.table({"id": ["1"], "subject_key": ["a"], "object_key": ["b"], "passage_id": ["p"]})
    with pytest.raises(StoreError, match="could not be written to .*file"):
        sparse_graph.save_graph(sparse_graph.sparse_graph(table), tmp_path / "file")
