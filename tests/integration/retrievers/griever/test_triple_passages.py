"""Passages with their triples: what they hold, that they are searched as passages are, and passages that fail."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from built_retriever import built_retriever
from letters import ENCODED, Letters
from made_extractions import asking, imported, openie, rows, spelt
from openai_server import KEY, OpenAIServer, chat

from ragindex.errors import UsageError
from ragindex.filters import Terms, meta
from ragindex.interfaces import TextQuery
from ragindex.parts.text.passages import Passages
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex.workspace import sync
from ragindex.workspace.workspace import Workspace
from ragindex_retrievers.griever.parts.triple_passages import TriplePassages

A = Document("A", "Rivers", "Rhine|rises in|Alps\nRhine|reaches|Rotterdam\nRhine|rises in|Alps", {"id": "A"})
B = spelt("B", "Mont  Blanc|lies in|Alps", "rhine|rises in|Alps")
C = Document("C", "The Aare", "Aare|rises in|Alps", {})
D = Document("D", "", "Nothing is said of the Rhine.", {"id": "D", "year": 1900})
CASEFOLD = TriplePassages(over=Triples(entity_key="casefold"))


def made(folder: Path, *documents: Document, encoder: Any = "lsa") -> Workspace:
    folder.mkdir(parents=True, exist_ok=True)
    return imported(folder / "w", openie(folder / "f.json", (A, B, C, D)), documents, encoder)


def test_every_field_by_hand(tmp_path: Path) -> None:
    workspace = made(tmp_path, A, B, C, D)
    workspace.sync([TriplePassages(), CASEFOLD])
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


@pytest.mark.parametrize("method", ["bm25", "dense", "hybrid", "composed"])
def test_flat_schemes_answer_as_over_passages(method: str, tmp_path: Path) -> None:
    workspace = made(tmp_path, A, B, C, D, encoder=Letters())
    plain, ours = built_retriever(workspace, method), built_retriever(workspace, f"{method}(over=triple_passages)")
    questions = [
        Query("1", "Where does the Aare rise?"),
        Query("2", "rivers of the Alps"),
        Query("3", "the Rhine", meta("id", "D", "A")),
        Query("4", "xyzzy"),
    ]

    def answers(retriever: Any) -> list[list[tuple[Any, ...]]]:
        given = retriever.retrieve(questions, 3)
        return [[(hit.id, hit.kind, hit.title, hit.text, hit.score, hit.metadata) for hit in one.hits] for one in given]

    found = answers(ours)
    assert found == answers(plain)
    assert (found[0][0][0], {hit[0] for hit in found[2]}) == ("C", {"A", "D"})


def test_vectors_come_from_the_cache(tmp_path: Path) -> None:
    ENCODED.clear()
    workspace = made(tmp_path, A, B, C, D, encoder=Letters())
    workspace.sync([Vectors(), Vectors(of=TriplePassages())])
    assert len(ENCODED) == 4
    vectors = [rows(workspace, part, "vector") for part in (Vectors(), Vectors(of=TriplePassages()))]
    assert vectors[0] == vectors[1]


def test_passages_are_filtered_by_what_they_name(tmp_path: Path) -> None:
    workspace = made(tmp_path, A, B, C, D)
    workspace.sync([TriplePassages()])
    wanted = [
        TextQuery("alps rhine", 9, where=Terms(*one)) for one in (("subjects", ("Rhine",)), ("objects", ("Alps",)))
    ]
    assert [sorted(found.ids) for found in workspace.open_part(TriplePassages()).search(wanted)] == [["A"], [*"ABC"]]


# ---------------------------------------------------------------- over several syncs


def test_the_law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragindex.workspace.sync._BATCH", 1)
    vectors = Vectors(of=TriplePassages())
    once = made(tmp_path / "once", A, B, D, encoder=Letters())
    once.sync([vectors])
    often = made(tmp_path / "often", D, C, encoder=Letters())
    often.sync([vectors])
    file = openie(tmp_path / "all.json", [A, B, C, D, spelt("A", "Aare|reaches|Rhine")])
    often.import_part("extractions", file)
    often.add([spelt("A", "Aare|reaches|Rhine"), B])
    often.sync([vectors])
    assert rows(often, TriplePassages(), "subjects")[0] == {"id": "A", "subjects": ["Aare"]}
    often.remove(["C", "B"])
    often.sync([TriplePassages()])
    often.add([A, B])
    often.sync([vectors])
    assert rows(often, TriplePassages()) == rows(once, TriplePassages())
    assert rows(often, vectors) == rows(once, vectors)
    often.remove(["A", "B", "D"])
    often.sync()
    assert rows(often, TriplePassages()) == rows(often, vectors) == []


def test_a_batch_that_comes_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once, twice = made(tmp_path / "once", A, B, C, D), made(tmp_path / "twice", A, B, C, D)
    once.sync([TriplePassages()])

    def dying(task: Any, *given: Any) -> None:
        if task.name == "triple_passages":
            raise KeyboardInterrupt
        real(task, *given)

    real = sync._cover
    with monkeypatch.context() as patch:
        patch.setattr(sync, "_cover", dying)
        with pytest.raises(KeyboardInterrupt):
            twice.sync([TriplePassages()])
    twice.sync([TriplePassages()])
    assert rows(twice, TriplePassages()) == rows(once, TriplePassages())


# ---------------------------------------------------------------- passages that fail


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        yield running


@pytest.mark.slow
def test_a_failed_passage_is_found_by_its_text(server: OpenAIServer, tmp_path: Path) -> None:
    sulking = {"c|likes|tea", "c|likes|milk"}

    def choose(received: Any, earlier: int) -> Any:
        text = received.body["messages"][5]["content"]  # after the instructions and two demonstrations
        answer = {"entities": [], "triples": [line.split("|") for line in text.splitlines()]}
        sulks = any(one in text for one in sulking)  # a server that misfits is told the schema besides
        return chat(content="I would rather not." if sulks else json.dumps(answer))

    def held() -> list[tuple[Any, ...]]:
        fields = ("text", "triples", "subjects", "extracted")
        return [tuple(row[name] for name in ("id", *fields)) for row in rows(workspace, TriplePassages(), *fields)]

    def found(method: str) -> list[str]:
        hits = built_retriever(workspace, method).retrieve([Query("q", "likes tea milk")], 2)[0].hits
        return [hit.id for hit in hits]

    server.choose = choose
    workspace = asking(tmp_path, server, encoder=Letters())  # type: ignore[arg-type]
    parts = [Vectors(of=TriplePassages()), Vectors()]
    workspace.add([spelt("1", "a|knows|b"), spelt("2", "c|likes|tea")])
    workspace.sync(parts)
    first = ("1", "a|knows|b", '[["a", "knows", "b"]]', ["a"], 1.0)
    assert held() == [first, ("2", "c|likes|tea", "[]", [], 0.0)]
    assert (found("bm25(over=triple_passages)"), found("hybrid(over=triple_passages)")) == (["2"], ["1", "2"])
    assert (found("dense(over=triple_passages)"), found("dense")) == (
        ["1"],
        ["2", "1"],
    )  # no vector of it over this part

    workspace.add([spelt("2", "c|likes|milk")])  # it fails again, with another text
    workspace.sync(parts)
    assert held() == [first, ("2", "c|likes|milk", "[]", [], 0.0)]
    sulking.clear()
    workspace.sync(parts)
    assert held() == [first, ("2", "c|likes|milk", '[["c", "likes", "milk"]]', ["c"], 1.0)]
    assert found("dense(over=triple_passages)") == ["2", "1"]
    sulking.add("c|likes|tea")
    workspace.add([spelt("2", "c|likes|tea")])  # what was read off it is gone with its text
    workspace.sync(parts)
    assert held() == [first, ("2", "c|likes|tea", "[]", [], 0.0)]
    workspace.remove(["2"])
    workspace.sync(parts)
    assert held() == [first]


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize(("name", "needed", "got"), [("of", "passages", "triples"), ("over", "triples", "vectors")])
def test_other_parts_are_refused(name: str, needed: str, got: str) -> None:
    message = f"The '{name}' parameter of triple_passages must be {needed}. Got '{got}' instead."
    with pytest.raises(UsageError, match=message):
        registry.part(f"triple_passages({name}={got})")


def test_the_registry_makes_it_again() -> None:
    assert registry.part(registry.describe(CASEFOLD)) == CASEFOLD
    assert registry.label(CASEFOLD) == "triple_passages(over=triples(entity_key=casefold))"
