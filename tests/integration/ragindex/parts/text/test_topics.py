"""Topics: the rule by hand, a model behind HTTP, changes and failures, what they cost, and what they group together."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from made_language import answering
from made_trees import nodes, notes, opened, task_of
from openai_server import OpenAIServer

from ragindex.corpus import Corpus
from ragindex.estimate import estimate
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.parts.text.topics import TOPIC, Topics
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_baselines.dense import Dense

TOWER = Document("a", "Lindau", "The tower of Lindau is an old lighthouse in Bavaria. Many visit it.", {"page": 3})
SCHEME = Dense(over=Topics())


def by_rule(title: str, text: str, language: str = "english") -> str:
    assert TOPIC.rule is not None
    return TOPIC.rule({"title": title, "text": text, "language": language}).topic


@pytest.mark.parametrize(
    ("title", "text", "topic"),
    [
        ("Lindau", TOWER.text, "old lighthouse"),
        ("Ann", "Ann was a glass painter who was born in 1871.", "glass painter"),
        ("Song", "It rains. The song was one of the 1985 hits by Ann.", "hits"),
        ("Film", "Film is a 1997 comedy directed by Bob.", "comedy"),
        ("", "He was the last of them.", "last"),
        ("Ferry", "The ferry waits. Ferries wait and the boat waits too.", "Ferry waits boat"),
        ("", "?!", "?!"),
    ],
)
def test_the_rule(title: str, text: str, topic: str) -> None:
    assert by_rule(title, text) == topic


def test_the_rule_in_another_language() -> None:
    assert by_rule("Fähre", "Die Fähre wartet, die Fähren fahren.", "german") == "Fähre wartet"


def test_a_record_a_passage_by_rules(tmp_path: Path) -> None:
    with Index.open(tmp_path, chunking=None, create=True) as workspace:
        workspace.add([TOWER, Document("b", "Blank", " \n")])
        workspace.build(Topics())
        assert nodes(workspace, Topics()) == {
            "a#topic": {
                "kind": "topic",
                "title": "",
                "text": "old lighthouse",
                "metadata": '{"a": {"page": 3}}',
                "passage_ids": ["a"],
                "doc_ids": ["a"],
                "meta.page": ["3"],
            }
        }
        assert notes(workspace, "topics") == ["Topics were made by rules, not by a language model."]


_TOPIC = re.compile(r"~(\S+)")


def write(body: Mapping[str, Any]) -> str:
    """The topic is what stands after the tilde: a place, so that topics have directions of their own."""
    assert task_of(body) == "topic"
    match = _TOPIC.search(str(body["messages"][-1]["content"]))
    return json.dumps({"topic": f"  @{match[1]} " if match else ""})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch, write) as running:
        yield running


def make_document(id: str, place: str, topic: str) -> Document:
    return Document(id, id.upper(), f"{id} @{place} ~{topic}")


def topics(workspace: Index) -> dict[str, str]:
    return {id: row["text"] for id, row in nodes(workspace, Topics()).items()}


def test_a_call_a_passage_and_again_for_what_changed(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = opened(tmp_path, server, [make_document("a", "1,0,0", "0,0,1"), make_document("b", "1,0,0", "0,1,0")])
    workspace.build(SCHEME)
    assert topics(workspace) == {"a#topic": "@0,0,1", "b#topic": "@0,1,0"}
    assert [task_of(request.body) for request in server.requests] == ["topic"] * 2
    contents = sorted(str(request.body["messages"][-1]["content"]) for request in server.requests)
    assert contents == ["Title: A\n\na @1,0,0 ~0,0,1", "Title: B\n\nb @1,0,0 ~0,1,0"]
    (hit,) = SCHEME.open(workspace).retrieve([Query("q", "@0,0,1")], 1)[0].hits
    assert (hit.kind, hit.doc_ids) == ("topic", ("a",))
    workspace.add([make_document("b", "1,0,0", "1,1,0"), make_document("c", "0,0,1", "1,0,0")])
    workspace.remove(["a"])
    workspace.build()
    assert topics(workspace) == {"b#topic": "@1,1,0", "c#topic": "@1,0,0"}
    assert len(server.requests) == 4


def test_the_estimate_counts_every_call(server: OpenAIServer) -> None:
    documents = (*(make_document(f"d{n}", "1,0,0", "0,0,1") for n in range(7)), Document("blank", "", " "))
    corpus = Corpus("made", "made", documents, 0, (), True)
    (estimated,) = estimate(corpus, [SCHEME], registry.llm("openai:small"), LLMSettings())
    assert (estimated.task, estimated.calls) == ("topic", 7)
    assert server.requests == []
