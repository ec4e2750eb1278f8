"""RAPTOR over a tree that can be worked out by hand: collapsed, from the roots down, filters, and what is explained."""

from pathlib import Path

import pytest
from made_trees import Compass, around, at, named, nodes

from ragindex.errors import UsageError
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.parts.trees.summary_tree import SummaryTree
from ragindex.parts.trees.tree_search import WAYS
from ragindex.plugins import registry
from ragindex.types import Document, Query, Retrieval, Triple
from ragindex_baselines.raptor import Raptor

TREE = SummaryTree(dimensions=2, stop_at=2)
BRIDGED = [*around("a", 0, 0.5, 8), *around("b", 1, 0.5, 8), *around("c", 2, 0.1, 3), at("m", 1, 1, 0)]
"""Three rings around the axes; m is between the first two, and in both clusters. Rules say all that a ring says."""
A, B, C = ([f"{letter}{number}" for number in range(1, count + 1)] for letter, count in (("a", 8), ("b", 8), ("c", 3)))
COLLAPSED = Raptor(tree=TREE)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = Index.open(tmp_path_factory.mktemp("raptor"), chunking=None, encoder=Compass(), create=True)
    folder.add([*BRIDGED, Document("x", "", "no direction", {"letter": "x"})])
    folder.build(COLLAPSED)
    return folder


def down(per_level: int) -> Raptor:
    return Raptor(tree=TREE, mode="traversal", per_level=per_level)


def ask(workspace: Index, scheme: Raptor, text: str, k: int, **where: str) -> Retrieval:
    wanted = [meta(key, value) for key, value in where.items()]
    return scheme.open(workspace).retrieve([Query("q", text, wanted[0] if wanted else None)], k)[0]


def list_ids(retrieval: Retrieval) -> list[str]:
    """Leaves by their ids, summaries by how many passages they have."""
    return [hit.id if hit.kind == "passage" else f"summary of {len(hit.passage_ids)}" for hit in retrieval.hits]


def test_collapsed_is_the_nearest_node_whatever_its_level(workspace: Index) -> None:
    assert list_ids(ask(workspace, COLLAPSED, "@0,0,1", 4)) == ["summary of 3", *C]
    between = ask(workspace, COLLAPSED, "@1,1,0", 3)
    assert list_ids(between)[0] == "m"
    assert list_ids(between)[1] == "summary of 20"  # twice as much in the plane of a and b as along c


def test_documents_of_a_summary_come_nearest_first(workspace: Index) -> None:
    (hit,) = ask(workspace, COLLAPSED, "@-0.3,0.05,1", 1).hits
    assert hit.doc_ids[0] == hit.id  # c2 or c3 itself
    ring = next(hit for hit in ask(workspace, COLLAPSED, "@-0.3,0.5,1", 9).hits if len(hit.doc_ids) == 3)
    assert ring.doc_ids == ("c2", "c3", "c1")
    assert ring.passage_ids == ("c1", "c2", "c3")  # in the order of the source


def test_from_the_roots_down(workspace: Index) -> None:
    """At the top are the summary of all and x; below it the rings; below these the passages."""
    best = ask(workspace, down(1), "@0,0,1", 20)
    assert list_ids(best) == ["summary of 3", "c1", "summary of 20"]
    walk = [step for step in best.trace if step.index == "vectors"]
    assert [(step.iteration, len(step.ids)) for step in walk[:3]] == [(1, 1), (2, 1), (3, 1)]
    wider = ask(workspace, down(2), "@0,0,1", 20)
    assert list_ids(wider)[:3] == ["summary of 3", "c1", "c2"]
    assert list_ids(wider).count("summary of 9") == 1  # and one of the two rings besides
    assert [list_ids(ask(workspace, down(2), "@0,0,1", k)) for k in (1, 3)] == [
        list_ids(wider)[:1],
        list_ids(wider)[:3],
    ]
    everything = ask(workspace, down(100), "@0,0,1", 100)
    assert sorted(list_ids(everything)) == sorted(list_ids(ask(workspace, COLLAPSED, "@0,0,1", 100)))


def test_a_filter_is_no_wall_on_the_way_down(workspace: Index) -> None:
    """No summary over m and b passes; the walk goes through them all the same, and only where something passes."""
    assert list_ids(ask(workspace, down(1), "@0,0,1", 9, letter="b")) == ["b1"]  # the one that leans most towards c
    assert list_ids(ask(workspace, down(1), "@0,0,1", 9, letter="c")) == ["summary of 3", "c1"]
    assert list_ids(ask(workspace, down(9), "@1,0,0", 9, letter="x")) == []  # a zero vector finds nothing
    assert list_ids(ask(workspace, down(9), "@1,0,0", 9, letter="z")) == []


def test_the_way_down_from_a_summary_is_told(workspace: Index) -> None:
    retrieval = ask(workspace, COLLAPSED, "@1,1,0", 2)
    step = retrieval.trace[-1]
    root = retrieval.hits[1]
    nodes_by_id = nodes(workspace, TREE)
    (ring,) = (id for id, row in nodes_by_id.items() if row["children"] == [*A, "m"] and row["level"] == 1)
    assert (step.index, step.ids, step.scores) == (WAYS, (root.id,), (root.score,))
    names = [f"summary {root.id}", f"summary {ring}", "m"]
    assert step.paths == ((Triple(names[0], "is made of", names[1]), Triple(names[1], "is made of", names[2])),)
    assert named(nodes_by_id["m"]["text"]) == "m"


def test_a_tree_of_leaves_is_the_passages(tmp_path: Path) -> None:
    scheme = Raptor(tree=SummaryTree())
    with Index.open(tmp_path, chunking=None, encoder=Compass(), create=True) as workspace:
        workspace.add([at("a", 1, 0, 0), at("b", 0, 1, 0)])
        workspace.build(scheme)
        for mode in ("collapsed", "traversal"):
            retrieval = ask(workspace, Raptor(mode=mode), "@1,0.5,0", 5)
            assert list_ids(retrieval) == ["a", "b"]
            assert all(step.index != WAYS for step in retrieval.trace)


def test_over_another_base(tmp_path: Path) -> None:
    with Index.open(tmp_path, chunking=None, encoder=Compass(), create=True) as workspace:
        workspace.add(BRIDGED)
        scheme = Raptor(tree=TREE, base=registry.scheme("bm25"))
        workspace.build(scheme)
        assert list_ids(ask(workspace, scheme, "c2", 9)) == ["c2", "summary of 3", "summary of 20"]


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(UsageError, match="'base' parameter of raptor must be a method that searches one part `over`"):
        registry.scheme("raptor(base=gear)")
    with pytest.raises(UsageError, match="'tree' parameter of raptor must be SummaryTree|summary_tree"):
        registry.scheme("raptor(tree=passages)")
    assert (
        registry.label(registry.scheme("raptor(mode=traversal, per_level=3)")) == "raptor(mode=traversal, per_level=3)"
    )
