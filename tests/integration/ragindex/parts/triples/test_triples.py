"""Triples as records: what they hold, how flat schemes search them, and what changes make of them."""

from pathlib import Path
from typing import Any

import pytest
from made_extractions import imported, openie, rows, spelt

from ragindex.filters import Terms, meta
from ragindex.index.index import Index
from ragindex.interfaces import FilterQuery, Scheme
from ragindex.parts.triples.triples import Triples
from ragindex.plugins import registry
from ragindex.types import Document, Query

A = spelt("A", "Rhine|rises in|Alps", "Rhine|reaches|Rotterdam", "Rhine|rises in|Alps")
B = spelt("B", "Alps|hold|Mont  Blanc", "rhine|rises in|Alps")
C = spelt("C", "Rotterdam|has|harbour", "harbour|is a|harbour")
METHODS = [registry.scheme(f"{name}(over=triples)") for name in ("bm25", "dense", "hybrid", "composed")]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder, documents = tmp_path_factory.mktemp("triples"), [A, B, C]
    workspace = imported(folder / "w", openie(folder / "f.json", documents), documents)
    workspace.build(*(Triples(entity_key=key) for key in ("exact", "casefold")), *METHODS)
    return workspace


def test_one_record_a_triple_and_passage(workspace: Index) -> None:
    first, second, third, fourth, *others = rows(workspace, Triples())
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
    assert others[-1]["entity_keys"] == ["harbour"]  # the triple names it twice
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
def test_entities_are_looked_up_by_key(entity_key: Any, rhine: list[str], blanc: list[str], workspace: Index) -> None:
    part = Triples(entity_key=entity_key)
    opened = workspace.open_part(part)
    looked_up = [
        opened.search([FilterQuery(Terms("entity_keys", (part.key("rhine"),)), 9)])[0].ids,
        opened.search([FilterQuery(Terms("object_key", (part.key("Mont Blanc"),)), 9)])[0].ids,
        opened.search([FilterQuery(Terms("subject_key", (part.key("Mont Blanc"),)), 9)])[0].ids,
    ]
    assert looked_up == [rhine, blanc, []]


# ---------------------------------------------------------------- searched like passages


@pytest.mark.parametrize("method", METHODS, ids=registry.label)
def test_flat_schemes_find_triples(method: Scheme, workspace: Index) -> None:
    retriever = workspace.open_method(method)
    hit = retriever.retrieve([Query("q", "Rotterdam has harbour")], 3)[0].hits[0]
    assert (hit.id, hit.kind, hit.title, hit.text) == ("C#t0000", "triple", "", "Rotterdam has harbour")
    assert (hit.passage_ids, hit.doc_ids, hit.metadata) == (("C",), ("C",), {"C": {"id": "C"}})
    only = retriever.retrieve([Query("q", "Rotterdam has harbour", meta("id", "A"))], 3)[0].hits
    assert {hit.doc_ids for hit in only} == {("A",)}


# ---------------------------------------------------------------- over several syncs


def test_metadata_that_changes_alone_reaches_the_triples(tmp_path: Path) -> None:
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", [A]), [A])
    workspace.build(Triples())
    workspace.add([Document("A", A.title, A.text, {"id": "other"})])
    workspace.build(Triples())
    assert {row["metadata"] for row in rows(workspace, Triples())} == {'{"A": {"id": "other"}}'}
    assert [row["meta.id"] for row in rows(workspace, Triples())] == [["other"], ["other"]]
    workspace.remove(["A"])
    workspace.build()
    assert rows(workspace, Triples()) == []


def test_the_registry_makes_it_again() -> None:
    part = Triples(entity_key="casefold")
    assert registry.part(registry.describe(part)) == part
    assert registry.label(part) == "triples(entity_key=casefold)"
