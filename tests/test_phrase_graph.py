"""The graph of phrases: by hand, its synonyms against all pairs, over several syncs."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import ENCODED, Letters
from made_extractions import openie, spelt

from ragindex.errors import StoreError
from ragindex.parts.near_pairs import near_pairs
from ragindex.parts.phrase_graph import PhraseGraph, WeightedGraph
from ragindex.types import Document
from ragindex.workspace import StaleWarning, Workspace

A = spelt("A", "abc|rises in|xyz", "ABC|is  near|xyz", "abc|is|abc")
B = spelt("B", " xyz |meets|aabc", "1871|was before|12 May 1899")
C = spelt("C", "uvw|is|xyz")
D = Document("D", "", "Nothing is said here.", {"id": "D"})


def made(tmp_path: Path, *documents: Document, part: PhraseGraph | None = None) -> Workspace:
    workspace = Workspace.open(tmp_path / "w", encoder=Letters(), cutting=None)
    workspace.import_part("extractions", openie(tmp_path / "f.json", (A, B, C, D)))
    workspace.add(documents)
    workspace.sync([part or PhraseGraph()])
    return workspace


def edges(graph: WeightedGraph) -> dict[tuple[str, str], float]:
    """Each edge once, by the names of its ends."""
    names = [*graph.phrases.to_pylist(), *graph.passages.to_pylist()]
    matrix = graph.matrix().tocoo()
    rows = zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True)
    found = {(names[a], names[b]): weight for a, b, weight in rows}
    assert all(found[b, a] == weight for (a, b), weight in found.items())
    return {(a, b): weight for (a, b), weight in found.items() if names.index(a) <= names.index(b)}


def opened(workspace: Workspace, part: PhraseGraph | None = None) -> WeightedGraph:
    graph: WeightedGraph = workspace.open_part(part or PhraseGraph()).graph
    return graph


def test_by_hand(tmp_path: Path) -> None:
    graph = opened(made(tmp_path, A, B, C, D))
    assert graph.phrases.to_pylist() == ["12 may 1899", "1871", "aabc", "abc", "uvw", "xyz"]
    assert graph.passages.to_pylist() == ["A", "B", "C", "D"]
    alike = pytest.approx(4 / 18**0.5)  # (2, 1, 1) and (1, 1, 1)
    assert edges(graph) == {
        ("12 may 1899", "1871"): 1,
        ("12 may 1899", "B"): 1,
        ("1871", "B"): 1,
        ("aabc", "abc"): alike,
        ("aabc", "xyz"): 1,
        ("aabc", "B"): 1,
        ("abc", "xyz"): 2,  # two records; the triple of "abc" with itself is no edge
        ("abc", "A"): 1,
        ("uvw", "xyz"): 1,
        ("uvw", "C"): 1,
        ("xyz", "A"): 1,
        ("xyz", "B"): 1,
        ("xyz", "C"): 1,
    }
    assert graph.held.tolist() == [1, 1, 1, 1, 1, 3]
    assert graph.degrees.tolist() == pytest.approx([2, 2, 2.942809, 3.942809, 2, 7, 2, 4, 2, 0])
    assert graph.phrase_degrees.tolist() == pytest.approx([1, 1, 1.942809, 2.942809, 1, 4])
    links = graph.among_phrases
    rows = [links.ends[a:b].tolist() for a, b in zip(links.starts, links.stops, strict=True)]
    assert rows == [[1], [0], [3, 5], [2, 5], [5], [2, 3, 4]]
    assert graph.places(["xyz", "XYZ", "", "abc"]).tolist() == [5, -1, -1, 3]


def test_without_numbers_without_synonyms(tmp_path: Path) -> None:
    part = PhraseGraph(numbers=False, synonyms=0)
    graph = opened(made(tmp_path, A, B, part=part), part)
    assert graph.phrases.to_pylist() == ["aabc", "abc", "xyz"]
    assert edges(graph) == {
        ("aabc", "xyz"): 1,
        ("aabc", "B"): 1,
        ("abc", "xyz"): 2,
        ("abc", "A"): 1,
        ("xyz", "A"): 1,
        ("xyz", "B"): 1,
    }


def test_passages_without_triples_alone(tmp_path: Path) -> None:
    graph = opened(made(tmp_path, D))
    assert (len(graph.phrases), graph.passages.to_pylist(), edges(graph)) == (0, ["D"], {})
    assert (graph.degrees.tolist(), graph.held.tolist()) == ([0.0], [])


# ---------------------------------------------------------------- synonyms


def plainly(vectors: np.ndarray, least: float, most: int) -> dict[tuple[int, int], float]:
    """All pairs, one after the other."""
    found = {}
    for row, vector in enumerate(vectors):
        cosines = vectors @ vector
        cosines[row] = -1
        for other in np.argsort(-cosines, kind="stable")[:most].tolist():
            if cosines[other] >= least:
                found[min(row, other), max(row, other)] = float(cosines[other])
    return found


def unit(rows: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norms > 0, norms, 1)).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 30), st.integers(1, 6), st.integers(0, 5), st.floats(0.1, 0.95), st.integers(0, 999))
def test_few_vectors_against_all_pairs(n: int, dimensions: int, most: int, least: float, seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((n, dimensions))
    rows[::7] = 0
    vectors = unit(rows)
    if dimensions == 1:
        most = 30  # cosines of 1 and -1 alone: which of equals are nearest is open
    pairs = near_pairs(vectors, least, most, 0)
    found = zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    assert dict(zip(found, pairs.cosines.tolist(), strict=True)) == pytest.approx(plainly(vectors, least, most))


def test_many_vectors_are_found_within_cells() -> None:
    rng = np.random.default_rng(3)
    centres = unit(rng.standard_normal((750, 32)))
    vectors = unit(np.repeat(centres, 4, axis=0) + 0.06 * rng.standard_normal((3000, 32)))
    expected = plainly(vectors, 0.8, 20)
    pairs = near_pairs(vectors, 0.8, 20, 0)
    found = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert len(found) == len(set(found)) == len({*found} & expected.keys())
    assert len(found) > 0.99 * len(expected) > 2500
    assert found == sorted(found)
    again = near_pairs(vectors, 0.8, 20, 0)
    assert [each.tolist() for each in (again.first, again.second)] == [pairs.first.tolist(), pairs.second.tolist()]


def test_all_alike_is_bounded() -> None:
    n, most = 3000, 3
    pairs = near_pairs(np.tile(unit(np.ones((1, 8))), (n, 1)), 0.8, most, 0)
    assert n / 2 <= len(pairs.first) <= n * most
    assert (pairs.first < pairs.second).all()
    assert set(pairs.first.tolist()) | set(pairs.second.tolist()) == set(range(n))
    assert pairs.cosines.tolist() == pytest.approx([1.0] * len(pairs.cosines))


def test_phrases_that_are_all_synonyms(tmp_path: Path) -> None:
    documents = [spelt(f"P{n}", f"{'ab' * n}|is|{'ba' * n}") for n in range(1, 30)]
    workspace = Workspace.open(tmp_path / "w", encoder=Letters(), cutting=None)
    workspace.import_part("extractions", openie(tmp_path / "f.json", documents))
    workspace.add(documents)
    part = PhraseGraph(synonyms=2)
    workspace.sync([part])
    found = [weight for pair, weight in edges(opened(workspace, part)).items() if "P" not in "".join(pair)]
    joined = 29  # by triples; some of these are synonyms too
    assert 29 <= sum(found) - joined <= 2 * 58 + 1e-3


# ---------------------------------------------------------------- over several syncs


def test_each_phrase_is_encoded_once(tmp_path: Path) -> None:
    ENCODED.clear()
    workspace = made(tmp_path, A, B)
    assert sorted(ENCODED) == ["12 may 1899", "1871", "aabc", "abc", "xyz"]
    workspace.add([C])
    workspace.sync()
    assert ENCODED[5:] == ["uvw"]
    assert workspace.open_part(PhraseGraph()).vectors.count() == 6
    workspace.remove(["C"])
    workspace.sync()
    assert workspace.open_part(PhraseGraph()).vectors.count() == 5


def same(graph: WeightedGraph, other: WeightedGraph) -> bool:
    names = ("phrases", "passages", "starts", "splits", "ends", "weights", "degrees", "phrase_degrees")
    return all(getattr(graph, name).tolist() == getattr(other, name).tolist() for name in names)


def test_the_law(tmp_path: Path) -> None:
    workspace = made(tmp_path, A, B)
    before = opened(workspace)
    for add, remove in (([C, D], []), ([], ["B", "D"]), ([B], ["C"])):
        workspace.add(add)
        if remove:
            workspace.remove(remove)
        workspace.sync()
    assert same(opened(workspace), before)
    workspace.remove(["A", "B"])
    workspace.sync()
    assert (len(opened(workspace).phrases), len(opened(workspace).passages)) == (0, 0)
    workspace.add([B, A])
    workspace.sync()
    assert same(opened(workspace), before)


def test_readers_keep_the_graph_of_the_sync_they_are_pinned_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = made(tmp_path, A, B)
    first, late = opened(writer), Workspace.open(tmp_path / "w", encoder=Letters())
    writer.remove(["B"])
    writer.sync()
    with pytest.warns(StaleWarning):
        assert same(opened(late), first)
    assert opened(writer).passages.to_pylist() == ["A"]
    folder = next((tmp_path / "w" / "parts").glob("phrase_graph-*"))
    assert len(list(folder.iterdir())) == 2
    monkeypatch.setattr("ragindex.parts.kept_files.KEEP", -1.0)
    writer.add([C])
    writer.sync()
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("lost", ["ends.npy", "phrases.arrow"])
def test_files_that_are_lost(lost: str, tmp_path: Path) -> None:
    workspace = made(tmp_path, A)
    folder = next((tmp_path / "w" / "parts").glob("phrase_graph-*/*"))
    (folder / lost).write_bytes(b"")
    with pytest.raises(StoreError, match="The phrase graph in .* cannot be read: .*Run: ragindex index"):
        opened(Workspace.open(tmp_path / "w", encoder=Letters()))
    shutil.rmtree(folder)
    workspace.add([B])
    workspace.sync()
    assert opened(workspace).passages.to_pylist() == ["A", "B"]
