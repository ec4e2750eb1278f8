"""Passages with their triples: what they hold, and that they are searched as passages are."""

import json
from pathlib import Path
from typing import Any

import pytest
from letters import ENCODED, Letters
from made_extractions import imported, openie, rows, spelt

from ragindex.filters import Terms, meta
from ragindex.index.index import Index
from ragindex.interfaces import TextQuery
from ragindex.parts.text.passages import Passages
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_retrievers.griever.parts.triple_passages import TriplePassages

A = Document("A", "Rivers", "Rhine|rises in|Alps\nRhine|reaches|Rotterdam\nRhine|rises in|Alps", {"id": "A"})
B = spelt("B", "Mont  Blanc|lies in|Alps", "rhine|rises in|Alps")
C = Document("C", "The Aare", "Aare|rises in|Alps", {})
D = Document("D", "", "Nothing is said of the Rhine.", {"id": "D", "year": 1900})
METHODS = ("bm25", "dense", "hybrid", "composed")
CASEFOLD = TriplePassages(over=Triples(entity_key="casefold"))


def build(folder: Path, *documents: Document, encoder: Any = "lsa") -> Index:
    folder.mkdir(parents=True, exist_ok=True)
    return imported(folder / "w", openie(folder / "f.json", (A, B, C, D)), documents, encoder)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """All documents, with every flat method over passages and over these."""
    workspace = build(tmp_path_factory.mktemp("passages"), A, B, C, D, encoder=Letters())
    ENCODED.clear()
    over = ("", "(over=triple_passages)")
    workspace.build(CASEFOLD, *(registry.scheme(f"{name}{part}") for name in METHODS for part in over))
    return workspace


def test_every_field_by_hand(workspace: Index) -> None:
    first, second, third, fourth = rows(workspace, TriplePassages())
    assert first == {
        "id": "A",
        "kind": "passage",
        "title": "Rivers",
        "text": A.text,
        "metadata": '{"A": {"id": "A"}}',
        "triples": '[["Rhine", "rises in", "Alps"], ["Rhine", "reaches", "Rotterdam"]]',  # the third is the first again
        "passage_ids": ["A"],
        "doc_ids": ["A"],
        "subjects": ["Rhine"],
        "objects": ["Alps", "Rotterdam"],
        "extracted": 1.0,
        "meta.id": ["A"],
        "meta.year": None,
    }
    assert (second["subjects"], second["objects"]) == (["Mont  Blanc", "rhine"], ["Alps"])
    assert (third["title"], third["metadata"], third["meta.id"], third["subjects"]) == ("The Aare", "", None, ["Aare"])
    none = {"triples": "[]", "subjects": [], "objects": [], "extracted": 1.0}
    assert fourth == {**rows(workspace, Passages())[3], **none}
    assert (fourth["text"], fourth["meta.year"]) == ("Nothing is said of the Rhine.", ["1900"])
    second = rows(workspace, CASEFOLD)[1]
    assert (second["subjects"], second["objects"]) == (["mont blanc", "rhine"], ["alps"])
    assert json.loads(second["triples"]) == [["Mont  Blanc", "lies in", "Alps"], ["rhine", "rises in", "Alps"]]


# ---------------------------------------------------------------- searched like passages


@pytest.mark.parametrize("method", METHODS)
def test_flat_schemes_answer_as_over_passages(method: str, workspace: Index) -> None:
    plain, ours = (workspace.open_method(registry.scheme(f"{method}{over}")) for over in ("", "(over=triple_passages)"))
    questions = [
        Query("1", "Where does the Aare rise?"),
        Query("2", "rivers of the Alps"),
        Query("3", "the Rhine", meta("id", "D", "A")),
        Query("4", "xyzzy"),
    ]

    def answers(retriever: Any) -> list[list[tuple[Any, ...]]]:
        given = retriever.retrieve(questions, 3)
        return [
            [(hit.id, hit.kind, hit.title, hit.text, hit.score, hit.metadata) for hit in scheme.hits]
            for scheme in given
        ]

    rankings = answers(ours)
    assert rankings == answers(plain)
    assert (rankings[0][0][0], {hit[0] for hit in rankings[2]}) == ("C", {"A", "D"})


def test_vectors_come_from_the_cache(workspace: Index) -> None:
    passages = {row["text"] for row in rows(workspace, Passages(), "text")}
    assert (
        sum(text.rpartition("\n")[2] in {passage.rpartition("\n")[2] for passage in passages} for text in ENCODED) == 4
    )
    vectors = [rows(workspace, part, "vector") for part in (Vectors(), Vectors(of=TriplePassages()))]
    assert vectors[0] == vectors[1]


def test_passages_are_filtered_by_what_they_name(workspace: Index) -> None:
    wanted = [
        TextQuery("alps rhine", 9, where=Terms(*condition))
        for condition in (("subjects", ("Rhine",)), ("objects", ("Alps",)))
    ]
    assert [sorted(hit.ids) for hit in workspace.open_part(TriplePassages()).search(wanted)] == [["A"], [*"ABC"]]
