"""The graph of phrases: by hand, a little at a time, over several syncs."""

import shutil
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import ENCODED, Letters
from made_extractions import openie, spelt

from examples import examples
from ragindex._util.durable_files import RepairWarning
from ragindex.errors import StoreError
from ragindex.index.index import Index
from ragindex.parts.vectors import encoded_names, similar_pairs
from ragindex.parts.vectors.encoded_names import Coder, find_distinct
from ragindex.types import Document
from ragindex_baselines.hipporag import phrase_graph
from ragindex_baselines.hipporag.phrase_graph import PhraseGraph
from ragindex_baselines.hipporag.weighted_graph import WeightedGraph

A = spelt("A", "abc|rises in|xyz", "ABC|is  near|xyz", "abc|is|abc")
B = spelt("B", " xyz |meets|aabc", "1871|was before|12 May 1899")
C = spelt("C", "uvw|is|xyz")
D = Document("D", "", "Nothing is said here.", {"id": "D"})


def build(tmp_path: Path, *documents: Document, part: PhraseGraph | None = None) -> Index:
    workspace = Index.open(tmp_path / "w", encoder=Letters(), chunking=None, create=True)
    workspace.import_part("extractions", openie(tmp_path / "f.json", (A, B, C, D)))
    workspace.add(documents)
    workspace.build(part or PhraseGraph())
    return workspace


def edges(graph: WeightedGraph) -> dict[tuple[str, str], float]:
    """Each edge once, by the names of its ends."""
    names = [*graph.phrases.to_pylist(), *graph.passages.to_pylist()]
    matrix = graph.matrix().tocoo()
    rows = zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True)
    weights = {(names[a], names[b]): weight for a, b, weight in rows}
    assert all(weights[b, a] == weight for (a, b), weight in weights.items())
    return {(a, b): weight for (a, b), weight in weights.items() if names.index(a) <= names.index(b)}


def opened(workspace: Index, part: PhraseGraph | None = None) -> WeightedGraph:
    graph: WeightedGraph = workspace.open_part(part or PhraseGraph()).graph
    return graph


@pytest.mark.parametrize("little", [False, True])
def test_by_hand(little: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with so few rows, texts and edges at a time that even a small graph is made in many steps."""
    if little:
        monkeypatch.setattr(phrase_graph, "_BLOCK", 5)
        monkeypatch.setattr(phrase_graph, "_SPELT", 3)
        monkeypatch.setattr(encoded_names, "_BLOCK", 4)
        monkeypatch.setattr(similar_pairs, "_WAITING", 3)
        monkeypatch.setattr(similar_pairs, "_SIFTED", 9)
    graph = opened(build(tmp_path, A, B, C, D))
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
    assert graph.passage_counts.tolist() == [1, 1, 1, 1, 1, 3]
    assert graph.degrees.tolist() == pytest.approx([2, 2, 2.942809, 3.942809, 2, 7, 2, 4, 2, 0])
    assert graph.phrase_degrees.tolist() == pytest.approx([1, 1, 1.942809, 2.942809, 1, 4])
    links = graph.among_phrases
    rows = [links.ends[a:b].tolist() for a, b in zip(links.starts, links.stops, strict=True)]
    assert rows == [[1], [0], [3, 5], [2, 5], [5], [2, 3, 4]]
    assert graph.places(["xyz", "XYZ", "", "abc"]).tolist() == [5, -1, -1, 3]


def test_without_numbers_without_synonyms(tmp_path: Path) -> None:
    part = PhraseGraph(numbers=False, synonyms=0)
    graph = opened(build(tmp_path, A, B, part=part), part)
    assert graph.phrases.to_pylist() == ["aabc", "abc", "xyz"]
    assert edges(graph) == {
        ("aabc", "xyz"): 1,
        ("aabc", "B"): 1,
        ("abc", "xyz"): 2,
        ("abc", "A"): 1,
        ("xyz", "A"): 1,
        ("xyz", "B"): 1,
    }


def test_phrases_that_are_all_synonyms(tmp_path: Path) -> None:
    documents = [spelt(f"P{n}", f"{'ab' * n}|is|{'ba' * n}") for n in range(1, 30)]
    workspace = Index.open(tmp_path / "w", encoder=Letters(), chunking=None, create=True)
    workspace.import_part("extractions", openie(tmp_path / "f.json", documents))
    workspace.add(documents)
    part = PhraseGraph(synonyms=2)
    workspace.build(part)
    weights = [weight for pair, weight in edges(opened(workspace, part)).items() if "P" not in "".join(pair)]
    joined = 29  # by triples; some of these are synonyms too
    assert 29 <= sum(weights) - joined <= 2 * 58 + 1e-3


@settings(max_examples=examples(100))
@given(st.lists(st.lists(st.sampled_from(["", "a", "b", "ab", "é", "z\0"]), max_size=6), max_size=8), st.integers(1, 5))
def test_texts_as_integers(columns: list[list[str]], block: int) -> None:
    coder = Coder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded_names, "_BLOCK", block)
        for column in columns:
            coder.add(pa.array(column, pa.string()))
        texts, codes = coder.coded()
        distinct = find_distinct(pa.array(column, pa.string()) for column in columns)
    assert distinct.to_pylist() == sorted({*chain(*columns)})
    assert texts.to_pylist() == list(dict.fromkeys(chain(*columns)))
    assert [[texts[place].as_py() for place in some.tolist()] for some in codes] == columns
    places = {"ab": 0, "": 1}
    among = coder.among(pa.array(list(places), pa.large_string()))
    assert among.tolist() == [places.get(text, -1) for text in chain(*columns)]


def same(graph: WeightedGraph, other: WeightedGraph) -> bool:
    names = ("phrases", "passages", "starts", "splits", "ends", "weights", "degrees", "phrase_degrees")
    return all(getattr(graph, name).tolist() == getattr(other, name).tolist() for name in names)


def test_each_phrase_is_encoded_once(tmp_path: Path) -> None:
    ENCODED.clear()
    workspace = build(tmp_path, A, B)
    before = opened(workspace)
    assert sorted(ENCODED) == ["12 may 1899", "1871", "aabc", "abc", "xyz"]
    workspace.add([C])
    workspace.build()
    assert ENCODED[5:] == ["uvw"]
    assert workspace.open_part(PhraseGraph()).vectors.count() == 6
    assert opened(workspace).passages.to_pylist() == ["A", "B", "C"]
    workspace.remove(["C"])
    workspace.build()
    assert workspace.open_part(PhraseGraph()).vectors.count() == 5
    assert same(opened(workspace), before)


def test_files_that_are_lost(tmp_path: Path) -> None:
    workspace = build(tmp_path, A)
    folder = next((tmp_path / "w" / "parts").glob("phrase_graph-*/*"))
    (folder / "phrases.arrow").write_bytes(b"")
    with pytest.raises(
        StoreError, match=r"The phrase graph of .* has changed since it was written\. Run: ragindex repair"
    ):
        opened(Index.open(tmp_path / "w", encoder=Letters(), create=True))
    shutil.rmtree(folder)
    workspace.add([B])
    with pytest.warns(RepairWarning, match="rebuilt"):
        workspace.build()
    assert opened(workspace).passages.to_pylist() == ["A", "B"]
