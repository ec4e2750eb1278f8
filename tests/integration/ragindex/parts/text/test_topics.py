"""Topics: the rule by hand, a model behind HTTP, changes and failures, what they cost, and what they group together."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_language import answering
from made_trees import Compass, around, at, failed, nodes, notes, opened, task_of
from openai_server import OpenAIServer, Received, chat

from ragindex.corpus import Corpus
from ragindex.estimate import estimate
from ragindex.index.index import Index
from ragindex.interfaces.llm import LLMSettings
from ragindex.parts.text.topics import TOPIC, Topics
from ragindex.plugins import registry
from ragindex.types import Document, Query
from ragindex_baselines.dense import Dense
from ragindex_eval.results.records import Coverage, Grouping
from ragindex_eval.run.tree_coverage import measure_coverage

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


# ---------------------------------------------------------------- a model

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


def test_failed_topic_is_counted_and_retried_on_request(server: OpenAIServer, tmp_path: Path) -> None:
    def choose(received: Received, earlier: int) -> Any:
        return chat(content="{}") if "~0,0,1" in json.dumps(received.body) else None

    server.choose = choose
    workspace = opened(tmp_path, server, [make_document("a", "1,0,0", "0,0,1"), make_document("b", "1,0,0", "0,1,0")])
    workspace.build(Topics())
    assert topics(workspace) == {"b#topic": "@0,1,0"}
    assert failed(workspace, "topics") == ["a"]
    server.choose = lambda received, earlier: None
    workspace.build(Topics())
    assert failed(workspace, "topics") == ["a"]
    workspace.build(Topics(), retry_failed=True)
    assert topics(workspace) == {"a#topic": "@0,0,1", "b#topic": "@0,1,0"}
    assert failed(workspace, "topics") == []


def test_the_estimate_counts_every_call(server: OpenAIServer) -> None:
    documents = (*(make_document(f"d{n}", "1,0,0", "0,0,1") for n in range(7)), Document("blank", "", " "))
    corpus = Corpus("made", "made", documents, 0, (), True)
    (estimated,) = estimate(corpus, [SCHEME], registry.llm("openai:small"), LLMSettings())
    assert (estimated.task, estimated.calls) == ("topic", 7)
    assert server.requests == []


# ---------------------------------------------------------------- what they group together


def test_coverage_by_topics_beside_a_tree(server: OpenAIServer, tmp_path: Path) -> None:
    """The tree puts together what stands in one direction, topics what the model calls one topic."""
    rings = [*around("a", 0, 0.2, 9), *around("b", 1, 0.2, 9)]
    topic = ("0,0,1", "0,1,0")
    documents = [replace(ring, text=f"{ring.text} ~{topic[n % 2]}") for n, ring in enumerate(rings, start=1)]

    def answer(body: Mapping[str, Any]) -> str:
        return write(body) if task_of(body) == "topic" else json.dumps({"summary": "@1,1,1"})

    server.write = answer
    workspace = opened(tmp_path, server, documents)
    tree = registry.scheme("raptor(tree=summary_tree(dimensions=2, stop_at=2, levels=2))")
    workspace.build(tree, SCHEME)
    gold = [["a1", "a2"], ["a1", "b2"], ["a1", "a3", "b4"], ["a3", "b1"]]
    name = "summary_tree(levels=2, stop_at=2, dimensions=2), level 1"
    assert measure_coverage(workspace, {"tree": tree, "topics": SCHEME}, gold) == Coverage(
        4,
        6,  # a1-a2 a1-b2 a1-a3 a1-b4 a3-b4 a3-b1
        (Grouping(name, 2, 9.0, 72 / 153, 2, {"topics": 1}), Grouping("topics", 2, 9.0, 72 / 153, 4, {name: 1})),
        {"tree": 20},
    )
    assert measure_coverage(workspace, {"tree": tree, "bm25": registry.scheme("bm25(over=topics)")}, gold) == Coverage(
        4, 6, (Grouping(name, 2, 9.0, 72 / 153, 2, {}),), {"tree": 20}
    )
    assert measure_coverage(workspace, {"topics": SCHEME}, gold) is None


def test_topics_of_nothing_have_no_clusters(tmp_path: Path) -> None:
    tree = registry.scheme("raptor")
    with Index.open(tmp_path, chunking=None, encoder=Compass(), create=True) as workspace:
        workspace.add([at("a", 1, 0, 0)])
        workspace.build(SCHEME, tree)
        workspace.remove(["a"])
        workspace.build()
        groupings = tuple(
            Grouping(name, 0, 0.0, 0.0, 0, {other: 0})
            for name, other in (("summary_tree, level 1", "topics"), ("topics", "summary_tree, level 1"))
        )
        assert measure_coverage(workspace, {"tree": tree, "topics": SCHEME}, []) == Coverage(
            0, 0, groupings, {"tree": 0}
        )
