"""Triples as records: what they hold, how flat schemes search them, and the law."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from built_retriever import built_retriever
from made_extractions import imported, openie, rows, spelt
from openai_server import KEY, OpenAIServer

from ragindex.filters import Terms, meta
from ragindex.interfaces import FilterQuery
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.testing import assert_same, check_batches, check_filter, check_hits, check_parameters
from ragindex.types import Document, Query

A = spelt("A", "Rhine|rises in|Alps", "Rhine|reaches|Rotterdam", "Rhine|rises in|Alps")
B = spelt("B", "Alps|hold|Mont  Blanc", "rhine|rises in|Alps")
C = spelt("C", "Rotterdam|has|harbour", "harbour|is|large")


def test_one_record_a_triple_and_passage(tmp_path: Path) -> None:
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", [A, B]), [A, B])
    workspace.sync([Triples()])
    first, second, third, fourth = rows(workspace, Triples())
    assert first == {
        "id": "A#t0000",
        "kind": "triple",
        "title": "",
        "text": "Rhine rises in Alps",
        "metadata": '{"A": {"id": "A"}}',
        "subject": "Rhine",
        "predicate": "rises in",
        "object": "Alps",
        "passage_ids": ["A"],
        "doc_ids": ["A"],
        "subject_key": ["Rhine"],
        "object_key": ["Alps"],
        "entity_keys": ["Rhine", "Alps"],
        "meta.id": ["A"],
    }
    texts = [(row["id"], row["text"]) for row in (second, third, fourth)]
    assert texts == [
        ("A#t0001", "Rhine reaches Rotterdam"),  # the third of A is the first again
        ("B#t0000", "Alps hold Mont  Blanc"),
        ("B#t0001", "rhine rises in Alps"),
    ]


@pytest.mark.parametrize(
    ("entity_key", "rhine", "blanc"),
    [("exact", ["B#t0001"], []), ("casefold", ["A#t0000", "A#t0001", "B#t0001"], ["B#t0000"])],
)
def test_entities_are_looked_up_by_key(entity_key: Any, rhine: list[str], blanc: list[str], tmp_path: Path) -> None:
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", [A, B]), [A, B])
    part = Triples(entity_key=entity_key)
    workspace.sync([part])
    opened = workspace.open_part(part)
    looked_up = [
        opened.search([FilterQuery(Terms("entity_keys", (part.key("rhine"),)), 9)])[0].ids,
        opened.search([FilterQuery(Terms("object_key", (part.key("Mont Blanc"),)), 9)])[0].ids,
        opened.search([FilterQuery(Terms("subject_key", (part.key("Mont Blanc"),)), 9)])[0].ids,
    ]
    assert looked_up == [rhine, blanc, []]


def test_a_triple_of_one_entity_has_one_key(tmp_path: Path) -> None:
    one = spelt("A", "Rhine|is the same as|Rhine")
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", [one]), [one])
    workspace.sync([Triples()])
    assert rows(workspace, Triples(), "entity_keys")[0]["entity_keys"] == ["Rhine"]


# ---------------------------------------------------------------- searched like passages


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Learns nothing from the corpus, so its vectors are the same whatever was there before."""
    with OpenAIServer() as running:
        monkeypatch.setenv("EMBEDDING_BASE_URL", running.url)
        monkeypatch.setenv("EMBEDDING_API_KEY", KEY)
        yield "openai:words"


@pytest.mark.parametrize("method", ["bm25", "dense", "hybrid", "composed"])
def test_flat_schemes_find_triples(method: str, encoder: str, tmp_path: Path) -> None:
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", [A, B, C]), [A, B, C], encoder)
    retriever = built_retriever(workspace, f"{method}(over=triples)")
    hit = retriever.retrieve([Query("q", "Rotterdam has harbour")], 3)[0].hits[0]
    assert (hit.id, hit.kind, hit.title, hit.text) == ("C#t0000", "triple", "", "Rotterdam has harbour")
    assert (hit.passage_ids, hit.doc_ids, hit.metadata) == (("C",), ("C",), {"C": {"id": "C"}})
    only = retriever.retrieve([Query("q", "Rotterdam has harbour", meta("id", "A"))], 3)[0].hits
    assert {hit.doc_ids for hit in only} == {("A",)}


CHECKS = [
    ("bm25", [check_parameters, check_batches, check_filter]),
    ("dense", [check_hits, check_filter]),
    ("hybrid", [check_hits]),
]


@pytest.mark.parametrize(("method", "check"), [(method, check) for method, checks in CHECKS for check in checks])
def test_the_contract_of_a_scheme_holds_over_triples(method: str, check: Any, tmp_path: Path) -> None:
    """All but what asks that every document be found: the rules make no triple of some."""
    check(registry.scheme(f"{method}(over=triples)"), tmp_path, "lsa")


# ---------------------------------------------------------------- the law


def test_the_law(encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragindex.workspace.sync._BATCH", 2)
    names = ["Rhine", "Alps", "Basel", "Oslo", "Mont Blanc", "harbour"]
    documents = [
        spelt(f"d{n}", *(f"{names[(n + i) % 6]}|verb{n % 4}|{names[(n * i) % 6]}" for i in range(n % 4)))
        for n in range(12)
    ]
    changed = spelt("d3", "Rhine|was|changed")
    file = openie(tmp_path / "f.json", [*documents, A, B, changed])
    vectors, hybrid = Vectors(of=Triples()), registry.scheme("hybrid(over=triples)")
    vectors_fields = ("text", "passage_ids", "entity_keys", "meta.id", "vector")
    once = imported(tmp_path / "once", file, documents, encoder)
    once.sync([hybrid])
    often = imported(tmp_path / "often", file, [A, *documents[:8]], encoder)
    often.sync([hybrid])
    often.add([*documents[8:], B, changed])
    often.sync([hybrid])
    often.remove(["A", "d7"])
    often.sync([Triples()])  # the vectors stay behind
    often.remove(["B"])
    often.add([documents[3], documents[7]])
    often.sync([hybrid])
    assert rows(often, Triples()) == rows(once, Triples())
    assert len(rows(once, Triples())) == 18
    assert rows(often, vectors, *vectors_fields) == rows(once, vectors, *vectors_fields)
    queries = [Query(text, text) for text in ("Rhine verb1 Alps", "Oslo", "Mont Blanc verb3 harbour")]
    expected = hybrid.open(once).retrieve(queries, 30)
    assert_same(hybrid.open(often).retrieve(queries, 30), expected, "index(A + B) - B")


def test_metadata_that_changes_alone_reaches_the_triples(tmp_path: Path) -> None:
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", [A]), [A])
    workspace.sync([Triples()])
    workspace.add([Document("A", A.title, A.text, {"id": "other"})])
    workspace.sync([Triples()])
    assert {row["metadata"] for row in rows(workspace, Triples())} == {'{"A": {"id": "other"}}'}
    assert [row["meta.id"] for row in rows(workspace, Triples())] == [["other"], ["other"]]


def test_no_documents_left(tmp_path: Path) -> None:
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", [A]), [A])
    workspace.sync([Vectors(of=Triples())])
    workspace.remove(["A"])
    workspace.sync()
    assert rows(workspace, Triples()) == []
    assert rows(workspace, Vectors(of=Triples()), "text") == []


def test_the_registry_makes_it_again() -> None:
    part = Triples(entity_key="casefold")
    assert registry.part(registry.describe(part)) == part
    assert registry.label(part) == "triples(entity_key=casefold)"
