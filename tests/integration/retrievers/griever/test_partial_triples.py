"""Partial triples: every field by hand, searched by flat schemes, and over several syncs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from letters import ENCODED, Letters
from made_extractions import asking, imported, openie, rows, spelt
from openai_server import KEY, OpenAIServer, chat

from ragindex.filters import Terms, meta
from ragindex.index.index import Index
from ragindex.interfaces import Scheme
from ragindex.parts.triples.extractions import Extractions
from ragindex.parts.triples.triple_json import from_json
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_retrievers.griever.parts.partial_triples import PartialTriples, partial_id

A = spelt("A", "Rhine|rises in|Alps", "Rhine|reaches|Rotterdam", "Rhine|rises in|Alps")
B = spelt("B", "Rhône|rises in|Alps", "Rhine|rises in|Basel")
C = Document("C", "", "Aare|rises in|Alps\nAlps|border|Alps", {})
D = Document("D", "", "Nothing is said here.", {"id": "D"})
METHODS = [registry.scheme(f"{name}(over=partial_triples)") for name in ("bm25", "dense", "hybrid", "composed")]


def build(folder: Path, *documents: Document, encoder: Any = "lsa") -> Index:
    folder.mkdir(parents=True, exist_ok=True)
    return imported(folder / "w", openie(folder / "f.json", (A, B, C, D, *documents)), documents, encoder)


def record(entity: str, predicate: str, inverse: int, text: str, **fields: Any) -> dict[str, Any]:
    shared = {"kind": "partial_triple", "title": "", "text": text, "predicate": predicate, "subject": [entity]}
    return {"id": partial_id(entity, predicate, bool(inverse)), **shared, "in_inverse": float(inverse), **fields}


def sources(ids: str, frequency: int) -> dict[str, Any]:
    """The fields of a record that say where it comes from, for passages that are whole documents A, B and C."""
    metadata = {id: {"id": id} for id in ids if id != "C"}
    terms = [id if id != "C" else None for id in ids]
    return {
        "metadata": json.dumps(metadata) if metadata else "",
        "passage_ids": list(ids),
        "doc_ids": list(ids),
        "frequency": float(frequency),
        "meta.id": terms if metadata else None,
    }


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """All documents, their partial triples made two rows at a time."""
    workspace = build(tmp_path_factory.mktemp("partial"), A, B, C, D, encoder=Letters())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragindex_retrievers.griever.parts.partial_triples._BLOCK", 2)
        workspace.build(PartialTriples(scope="passage"), *METHODS)
    return workspace


def test_every_field_by_hand(workspace: Index) -> None:
    expected = [
        record("Rhine", "rises in", 0, "Rhine rises in", objects=["Alps", "Basel"], **sources("AB", 2)),
        record("Rhine", "reaches", 0, "Rhine reaches", objects=["Rotterdam"], **sources("A", 1)),
        record("Rhône", "rises in", 0, "Rhône rises in", objects=["Alps"], **sources("B", 1)),
        record("Aare", "rises in", 0, "Aare rises in", objects=["Alps"], **sources("C", 1)),
        record("Alps", "border", 0, "Alps border", objects=["Alps"], **sources("C", 1)),
        record("Alps", "rises in", 1, "rises in Alps", objects=["Aare", "Rhine", "Rhône"], **sources("ABC", 3)),
        record("Rotterdam", "reaches", 1, "reaches Rotterdam", objects=["Rhine"], **sources("A", 1)),
        record("Basel", "rises in", 1, "rises in Basel", objects=["Rhine"], **sources("B", 1)),
        record("Alps", "border", 1, "border Alps", objects=["Alps"], **sources("C", 1)),
    ]
    assert rows(workspace, PartialTriples()) == sorted(expected, key=lambda row: str(row["id"]))


def test_a_record_a_passage(workspace: Index) -> None:
    part = PartialTriples(scope="passage")
    fields = ("text", "passage_ids", "doc_ids", "objects", "frequency", "metadata", "meta.id")
    records = {row.pop("id"): row for row in rows(workspace, part, *fields)}
    assert set(records) == {
        *(partial_id("Rhine", "rises in", False, id) for id in "AB"),
        *(partial_id("Alps", "rises in", True, id) for id in "ABC"),
        *(partial_id("Alps", "border", inverse, "C") for inverse in (False, True)),
        partial_id("Aare", "rises in", False, "C"),
        partial_id("Rhine", "reaches", False, "A"),
        partial_id("Rotterdam", "reaches", True, "A"),
        partial_id("Rhône", "rises in", False, "B"),
        partial_id("Basel", "rises in", True, "B"),
    }
    assert records[partial_id("Rhine", "rises in", False, "B")] == {
        "text": "Rhine rises in",
        "passage_ids": ["B"],
        "doc_ids": ["B"],
        "objects": ["Basel"],
        "frequency": 2.0,  # of the corpus
        "metadata": '{"B": {"id": "B"}}',
        "meta.id": ["B"],
    }


def test_spellings_of_one_entity(tmp_path: Path) -> None:
    first = spelt("1", "Mont  Blanc|lies in|France", "MONT BLANC|lies in|Italy", "Mont Blanc|lies in|Italy")
    two = spelt("2", "mont blanc|Lies in|Italy", "Mont Blanc|lies in|FRANCE")
    three = spelt("3", "b|is|x", "B|is|x", "a|is|y", "A|is|y", "a|is|z")
    workspace = build(tmp_path, first, two, three)
    part = PartialTriples(over=Triples(entity_key="casefold"))
    workspace.build(part)
    records = {row["text"]: row for row in rows(workspace, part)}
    texts = ["Mont Blanc lies in", "mont blanc Lies in", "B is", "a is"]
    assert set(records) == {*texts, "lies in Italy", "Lies in Italy", "lies in FRANCE", "is x", "is y", "is z"}
    blanc = records["Mont Blanc lies in"]  # twice so, else once; FRANCE comes before France
    assert (blanc["subject"], blanc["objects"], blanc["frequency"]) == (["mont blanc"], ["france", "italy"], 4.0)
    assert blanc["id"] == partial_id("mont blanc", "lies in", False)
    assert records["lies in FRANCE"]["passage_ids"] == ["1", "2"]


# ---------------------------------------------------------------- searched


@pytest.mark.parametrize("method", METHODS, ids=registry.label)
def test_flat_schemes_find_partials(method: Scheme, workspace: Index) -> None:
    retriever = workspace.open_method(method)
    hits = retriever.retrieve([Query("q", "which river rises in the Alps?")], 9)[0].hits
    (hit,) = [hit for hit in hits if hit.text == "rises in Alps"]
    assert (hit.id, hit.kind, hit.title) == (partial_id("Alps", "rises in", True), "partial_triple", "")
    assert (hit.passage_ids, hit.doc_ids) == (("A", "B", "C"), ("A", "B", "C"))
    assert hit.metadata == {"A": {"id": "A"}, "B": {"id": "B"}}


def test_a_filter_holds_for_every_document_of_a_partial(workspace: Index) -> None:
    retriever = workspace.open_method(registry.scheme("dense(over=partial_triples)"))

    def find_texts(*values: str) -> set[str]:
        return {hit.text for hit in retriever.retrieve([Query("q", "Alps", meta("id", *values))], 9)[0].hits}

    assert find_texts("A") == {"Rhine reaches", "reaches Rotterdam"}
    assert find_texts("B") == {"Rhône rises in", "rises in Basel"}
    assert find_texts("A", "B") == find_texts("A") | find_texts("B") | {
        "Rhine rises in"
    }  # C, which has no id, rises in the Alps too


def test_records_are_looked_up_by_entity_and_by_what_stands_opposite(workspace: Index) -> None:
    opened = workspace.open_part(PartialTriples())
    texts = [
        {row["text"] for batch in opened.scan(("text",), Terms(field, ("Alps",))) for row in batch.to_pylist()}
        for field in ("subject", "objects")
    ]
    assert texts[0] == {"rises in Alps", "Alps border", "border Alps"}
    assert texts[1] == {"Rhine rises in", "Rhône rises in", "Aare rises in", "Alps border", "border Alps"}


def test_each_text_is_encoded_once(tmp_path: Path) -> None:
    ENCODED.clear()
    workspace = build(tmp_path, A, encoder=Letters())
    workspace.build(Vectors(of=PartialTriples()))
    workspace.add([B])
    workspace.build()
    assert sorted(text.strip() for text in ENCODED[4:]) == ["Rhône rises in", "rises in Basel"]


# ---------------------------------------------------------------- passages that fail


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        yield running


def test_what_a_failed_passage_said_is_forgotten_until_it_is_read(server: OpenAIServer, tmp_path: Path) -> None:
    sulking: set[str] = set()

    def choose(received: Any, earlier: int) -> Any:
        text = received.body["messages"][5]["content"]  # after the instructions and two demonstrations
        triples = [line.split("|") for line in text.splitlines()]
        answer = {"entities": [], "triples": triples}
        return chat(content="I would rather not." if text in sulking else json.dumps(answer))

    server.choose = choose
    workspace = asking(tmp_path, server, encoder=Letters())  # type: ignore[arg-type]
    part = Vectors(of=PartialTriples())
    workspace.add([spelt("1", "a|knows|b"), spelt("2", "c|knows|b")])
    workspace.build(part)
    frequencies = {row["text"]: row["frequency"] for row in rows(workspace, part, "text", "frequency")}
    assert frequencies == {"a knows": 1.0, "c knows": 1.0, "knows b": 2.0}
    sulking.add("c|knows|b\nc|knows|d")
    workspace.add([spelt("2", "c|knows|b", "c|knows|d")])
    workspace.build()
    frequencies = {row["text"]: row["frequency"] for row in rows(workspace, part, "text", "frequency")}
    assert frequencies == {"a knows": 1.0, "knows b": 1.0}
    sulking.clear()
    workspace.build(retry_failed=True)
    frequencies = {row["text"]: row["frequency"] for row in rows(workspace, part, "text", "frequency")}
    assert frequencies == {"a knows": 1.0, "c knows": 2.0, "knows b": 2.0, "knows d": 1.0}
    assert [from_json(row["triples"])[-1].object for row in rows(workspace, Extractions(), "triples")] == ["b", "d"]


# ---------------------------------------------------------------- parameters


def test_seconds_of_earlier_finishes_are_kept(tmp_path: Path) -> None:
    """Each finish makes only what has changed: what the part took is what all of them took."""
    documents = [spelt(f"d{n}", f"thing {n}|lies beside|thing {n + 1}") for n in range(4)]
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", documents), documents[:3])
    taken = []
    for added in ([], documents[3:], []):
        workspace.add(added)
        workspace.build(PartialTriples())
        [record] = [part for part in workspace.manifest.parts.values() if part.name == "partial_triples"]
        assert record.seconds > record.finish_seconds > 0
        taken.append(record.finish_seconds)
    assert taken == sorted(taken)
    assert taken[0] < taken[1]
