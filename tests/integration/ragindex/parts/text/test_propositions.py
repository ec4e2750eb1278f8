"""Propositions: by rules, by three calls of a model behind HTTP, and with the paragraph before as context."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from made_extractions import asking, notes, rows
from openai_server import KEY, OpenAIServer, chat

from ragindex.corpus import Chunking
from ragindex.index.index import Index
from ragindex.llm import openai_chat
from ragindex.llm.output import read_json
from ragindex.llm.tasks import render_messages
from ragindex.parts.text.preceding import Preceding
from ragindex.parts.text.propositions import (
    ENTITIES,
    PROPOSITIONS,
    REWRITE_PARAGRAPH,
    Entity,
    EntityList,
    Fact,
    Propositions,
)
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.testing import check_filter, check_hits
from ragindex.types import Document
from ragindex_baselines.bm25 import BM25

FIELDS = ("text", "entities", "position", "passage_ids", "doc_ids", "kind", "title", "metadata")
MILLER = Document("a", "Ada Miller", "Ada Miller was a glass painter. She was born in Lindau.", {"page": 3})


def test_the_rules_by_hand(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, chunking=None, create=True)
    workspace.add([MILLER, Document("b", "Blank", " \n")])
    workspace.build(Propositions())
    first, second = rows(workspace, Propositions(), *FIELDS)
    assert first == {
        "id": "a#p0000",
        "text": "Ada Miller was a glass painter.",
        "entities": ["Ada Miller"],
        "position": 0.0,
        "passage_ids": ["a"],
        "doc_ids": ["a"],
        "kind": "proposition",
        "title": "",
        "metadata": '{"a": {"page": 3}}',
    }
    assert (second["id"], second["text"]) == ("a#p0001", "Ada Miller was born in Lindau.")
    assert (second["entities"], second["position"]) == (["Ada Miller", "Lindau"], 1.0)
    assert notes(workspace, "propositions") == ["Propositions were made by rules, not by a language model."]


def test_contract(tmp_path: Path) -> None:
    for check in (check_hits, check_filter):
        check(registry.scheme("bm25(over=propositions)"), tmp_path / check.__name__, "lsa", built=tmp_path / "built")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        monkeypatch.setenv("EMBEDDING_BASE_URL", running.url)
        running.write = write
        yield running


def task_of(body: Mapping[str, Any]) -> str:
    return str(body["response_format"]["json_schema"]["schema"]["required"][0])


def read_content(body: Mapping[str, Any]) -> str:
    """What stands after instructions and demonstrations, of which the rewriting has two."""
    return str(body["messages"][5 if task_of(body) == "paragraph" else 3]["content"])


def write(body: Mapping[str, Any]) -> str:
    """Rewrites a paragraph as what it was given, names the words in capitals, and makes a proposition of each line."""
    match task_of(body):
        case "paragraph":
            return json.dumps({"paragraph": read_content(body).replace("\n\n", "\n")})
        case "entities":
            entities = [word for word in read_content(body).split() if word.isupper()]
            return json.dumps({"entities": [{"name": word, "type": "word", "aliases": []} for word in entities]})
    lines = read_content(body).partition("Paragraph:\n")[2].splitlines()
    facts = [{"text": line, "triplets": [[*line.split()[:2], "x"], ["broken"]]} for line in lines]
    return json.dumps({"propositions": facts})


def test_three_calls_a_passage(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = asking(tmp_path, server)
    workspace.add([Document("a", "T", "RHINE flows FAR"), Document("b", "", "")])
    parts = [Propositions(), Propositions(entities="all")]
    workspace.build(*parts)
    assert [task_of(request.body) for request in server.requests] == [
        "paragraph",
        "entities",
        "propositions",
    ]  # once for both
    assert [read_content(request.body) for request in server.requests] == [
        "Title: T\n\nParagraph:\nRHINE flows FAR",
        "Title: T\n\nParagraph:\nTitle: T\nParagraph:\nRHINE flows FAR",
        "Entities: T; RHINE; FAR\n\nParagraph:\nTitle: T\nParagraph:\nRHINE flows FAR",
    ]
    listed, everything = ([row["entities"] for row in rows(workspace, part, *FIELDS)] for part in parts)
    assert listed == [[], [], ["RHINE"]]
    assert everything == [["Title:", "x"], [], ["RHINE", "x"]]
    assert [row["text"] for row in rows(workspace, parts[0], *FIELDS)] == ["Title: T", "Paragraph:", "RHINE flows FAR"]
    assert notes(workspace, "propositions") == ["4 malformed triplets were dropped."] * 2


def cut(folder: Path, server: OpenAIServer) -> Index:
    """A workspace whose passages are single lines."""
    Index.open(folder, chunking=Chunking(12, 0), encoder="openai:words", create=True)
    return asking(folder, server, chunking="default", encoder="openai:words")


def contents(workspace: Index) -> list[dict[str, Any]]:
    return rows(workspace, Vectors(of=Propositions()), "text", "passage_ids", "entities", "meta.page")


def chats(server: OpenAIServer) -> int:
    return sum(request.path.endswith("/chat/completions") for request in server.requests)


def test_a_passage_is_made_again_when_the_one_before_it_changes(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = cut(tmp_path / "often", server)
    first, other = "ONE two six\n\nTEN she saw\n\nEND it was", "SIX two one\n\nTEN she saw\n\nEND it was"
    scheme = [Vectors(of=Propositions())]
    book = Document("book", "", first, {"page": 1})
    workspace.add([book, Document("leaf#0", "", "ALONE here"), Document("leaf#1", "", "ALSO alone")])
    workspace.build(*scheme)
    assert [row["text"] for row in contents(workspace) if row["passage_ids"] == ["book#1"]] == [
        "Previous paragraph:",
        "ONE two six",
        "Paragraph:",
        "TEN she saw",
    ]
    assert [row["text"] for row in contents(workspace) if row["passage_ids"] == ["leaf#1#0"]] == [
        "Paragraph:",
        "ALSO alone",
    ]
    calls = chats(server)

    workspace.add([Document("book", "", other, {"page": 1})])
    workspace.build(*scheme)
    assert [row["text"] for row in contents(workspace) if row["passage_ids"] == ["book#1"]][1] == "SIX two one"
    assert chats(server) == calls + 6  # the passage and the next; the third stands as it stood

    fresh = cut(tmp_path / "once", server)
    fresh.add(
        [
            Document("book", "", other, {"page": 1}),
            *(document for document in workspace.documents if document.id != "book"),
        ]
    )
    fresh.build(*scheme)
    assert contents(workspace) == contents(fresh)


@pytest.mark.parametrize("task", ["paragraph", "entities", "propositions"])
def test_a_failure_at_any_step_fails_the_passage_alone(task: str, server: OpenAIServer, tmp_path: Path) -> None:
    def choose(received: Any, earlier: int) -> Any:
        fails = task_of(received.body) == task and "BAD" in read_content(received.body)
        return chat(content="No.") if fails else None

    server.choose = choose
    workspace = asking(tmp_path, server)
    workspace.add([Document("1", "", "GOOD news"), Document("2", "", "BAD news")])
    scheme = BM25(over=Propositions())
    workspace.build(scheme, Vectors(of=Propositions()))
    assert list(workspace.failures(scheme)["propositions"]) == ["2"]
    assert {row["passage_ids"][0] for row in rows(workspace, Vectors(of=Propositions()), "passage_ids")} == {"1"}
    server.choose = lambda received, earlier: None
    workspace.build(scheme, Vectors(of=Propositions()))
    assert list(workspace.set_aside()["propositions"]) == ["2"]
    workspace.build(scheme, Vectors(of=Propositions()), retry_failed=True)
    assert workspace.failures(scheme) == {}
    assert {row["passage_ids"][0] for row in rows(workspace, Vectors(of=Propositions()), "passage_ids")} == {"1", "2"}
    assert len(server.requests) == 3 + 3 + 2  # three a passage; the step that failed was asked twice before


def test_a_paragraph_may_stay_as_it_is(server: OpenAIServer, tmp_path: Path) -> None:
    unchanged = json.dumps({"paragraph": " (Unchanged). "})
    server.write = lambda body: unchanged if task_of(body) == "paragraph" else write(body)
    workspace = asking(tmp_path, server)
    workspace.add([Document("a", "Rhine", "Rhine Length 1233 km\nRHINE flows FAR")])
    workspace.build(Propositions())
    records = rows(workspace, Propositions(), "text", "entities")
    assert [row["text"] for row in records] == ["Rhine Length 1233 km", "RHINE flows FAR"]
    assert read_content(server.requests[1].body) == "Title: Rhine\n\nParagraph:\nRhine Length 1233 km\nRHINE flows FAR"


def test_an_alias_counts_as_the_name_it_is_listed_under() -> None:
    listed = EntityList(
        entities=[
            Entity(name="Hollow Ferry", type="ferry", aliases=["Long Chain", "The FERRY", " "]),
            Entity(name="Long Chain", type="book", aliases=["hollow ferry"]),
            Entity(name=" ", type="", aliases=["nobody"]),
            Entity(name="Vell", type="place", aliases=["the ferry"]),
        ]
    ).named()
    assert listed.names == ("Hollow Ferry", "Long Chain", "Vell")
    triplets = [["the  ferry", "is in", "Vell"], ["LONG CHAIN", "is read in", "nobody"], ["VHT", "runs"]]
    fact = Fact(text="", triplets=triplets)
    assert fact.named(listed, "listed") == (("Hollow Ferry", "Vell", "Long Chain"), 1)
    assert fact.named(listed, "all") == (("the  ferry", "Vell", "LONG CHAIN", "nobody"), 1)


def test_the_demonstrations_are_in_the_form_asked_for_and_keep_the_rules() -> None:
    given = {"title": "", "text": "", "previous": "", "entities": []}
    outputs: dict[str, list[Any]] = {}
    for task in (REWRITE_PARAGRAPH, ENTITIES, PROPOSITIONS):
        message = [message.content for message in render_messages(task, given) if message.role == "assistant"]
        assert [read_json(text, task.output)[1] for text in message] == ["strict"] * len(message)
        outputs[task.name] = [read_json(text, task.output)[0] for text in message]
    first, second = outputs["rewrite"]
    assert (second.of("as it is"), first.of("as it is")) == ("as it is", first.paragraph)
    assert [type(first)(paragraph=phrase).of("as it is") for phrase in ("unchanged", "(unchanged)")] == ["as it is"] * 2
    (entities,), (facts,) = outputs["entities"], outputs["propositions"]
    listed = entities.named()
    for fact in facts.propositions:
        names, malformed = fact.named(listed, "listed")
        assert (bool(names), malformed) == (True, 0)
        for triplet in fact.triplets:  # head, predicate and tail, read in a row, use the words of the proposition
            assert any(listed.find(side) for side in (triplet[0], triplet[2])), triplet
            assert triplet[2] in fact.text


def test_an_empty_rewriting_is_no_answer(server: OpenAIServer, tmp_path: Path) -> None:
    server.write = lambda body: json.dumps({"paragraph": "  "})
    workspace = asking(tmp_path, server)
    workspace.add([Document("1", "", "GOOD news")])
    workspace.build(Propositions())
    assert list(workspace.failures(BM25(over=Propositions()))["propositions"]) == ["1"]


def test_whole_documents_have_nothing_before_them(tmp_path: Path) -> None:
    documents = [Document("x#0", "", "one"), Document("x#1", "", "two")]
    undivided, cut_up = (
        Index.open(tmp_path / "whole", chunking=None, create=True),
        Index.open(tmp_path / "cut", chunking=Chunking(6, 0), create=True),
    )
    for workspace, added in ((undivided, documents), (cut_up, [Document("x", "", "one\n\ntwo\n\nthree")])):
        workspace.add(added)
        workspace.build(Preceding())
    passages = undivided.documents.passages(["x#0", "x#1"]).to_pylist()
    assert undivided.open_part(Preceding()).of(passages) == ["", ""]
    passages = cut_up.documents.passages(["x#2", "x#0", "x#1"]).to_pylist()
    assert [passage["text"] for passage in passages] == ["three", "one", "two"]
    assert cut_up.open_part(Preceding()).of(passages) == ["two", "", "one"]
