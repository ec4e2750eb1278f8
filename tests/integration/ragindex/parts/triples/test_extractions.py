"""Entities and triples of passages: from rules, from a model behind HTTP, from a file; and what becomes of failures."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_extractions import asking, imported, notes, openie, rows, spells_out, spelt
from openai_server import KEY, OpenAIServer, chat

from ragindex.index.index import Index
from ragindex.llm import openai_chat
from ragindex.llm.output import read_json
from ragindex.llm.tasks import Task, render_messages
from ragindex.parts.triples import extractions
from ragindex.parts.triples.extractions import EXTRACT, NAMES, RELATE, Extractions
from ragindex.parts.triples.triple_json import from_json
from ragindex.parts.triples.triples import Triples
from ragindex.text_analysis import analyse
from ragindex.types import Document, Query, Triple
from ragindex_baselines.bm25 import BM25
from ragindex_retrievers.gear.triple_graph import TripleGraph
from ragindex_retrievers.griever.parts.alias_pairs import alias_predicate

FIELDS = ("entities", "triples", "passage_ids", "doc_ids", "source", "kept", "dropped")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setattr(openai_chat, "_memories", {})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        running.write = spells_out
        yield running


# ---------------------------------------------------------------- rules


def test_the_rules_by_hand(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, chunking=None, create=True)
    workspace.add(
        [
            Document("a", "Ada Miller", "Ada Miller was a glass painter who was born in Lindau in 1871."),
            Document("b", "Rotterdam", "Rotterdam has the largest harbour of Europe."),
        ]
    )
    numbers, sequential = Extractions(numbers_as_entities=True), Extractions(calls="sequential")
    workspace.build(Extractions(), numbers, sequential)
    a, b = rows(workspace, Extractions(), *FIELDS)
    assert a["entities"] == ["Ada Miller", "Lindau"]
    assert rows(workspace, numbers, "entities")[0]["entities"] == ["Ada Miller", "Lindau", "1871"]
    assert rows(workspace, sequential, *FIELDS) == [a, b]
    assert from_json(a["triples"]) == [
        Triple("Ada Miller", "was", "glass painter"),
        Triple("Ada Miller", "was born in", "Lindau"),
        Triple("Ada Miller", "was born", "in 1871"),
    ]
    assert b == {
        "id": "b",
        "entities": ["Rotterdam", "Europe"],
        "triples": '[["Rotterdam", "has the largest harbour of", "Europe"]]',
        "passage_ids": ["b"],
        "doc_ids": ["b"],
        "source": "rules",
        "kept": 1.0,
        "dropped": 0.0,
    }
    assert notes(workspace, "extractions") == ["2 passages were read by rules, not by a language model."] * 3


def test_what_the_rules_could_not_read_is_said(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, chunking=None, create=True)
    shouted = "THE HARBOUR OF THE TOWN WAS BUILT LONG AGO."
    workspace.add([Document("a", "", shouted), Document("b", "", f"{shouted} TWICE."), Document("c", "A title", " ")])
    workspace.build(Triples())
    assert notes(workspace, "extractions") == [
        "2 passages were read by rules, not by a language model.",
        "1 passage has no text.",
        "2 passages: The text is in capitals: only its title, quoted titles, dates and numbers are found.",
    ]


# ---------------------------------------------------------------- a model


def test_one_call_a_passage_and_malformed_triples_are_dropped_and_counted(server: OpenAIServer, tmp_path: Path) -> None:
    written: list[Any] = [
        ["Rhine", "rises in", "Alps"],
        ["Rhine", "is long"],
        ["Rhine", "flows", "through", "Basel"],
        {"subject": "Rhine", "predicate": "reaches", "object": "Rotterdam"},
        "(Rhine, is, river)",  # a text
        ["Rhine", "has", " "],
        ["Rhine", "has", None],
        [" Rhine ", "is a", "\ud800"],
        7,
    ]
    server.write = lambda body: json.dumps({"entities": ["Rhine", " Alps", "Rhine", ""], "triples": written})
    workspace = asking(tmp_path, server)
    workspace.add([Document("a", "Rhine", "The Rhine rises in the Alps."), Document("b", "", "  ")])
    workspace.build(Extractions())
    a, b = rows(workspace, Extractions(), *FIELDS)
    assert a["entities"] == ["Rhine", "Alps"]
    assert from_json(a["triples"]) == [
        Triple("Rhine", "rises in", "Alps"),
        Triple("Rhine", "reaches", "Rotterdam"),
        Triple("Rhine", "is a", "?"),
    ]
    assert (a["source"], a["kept"], a["dropped"]) == ("model", 3.0, 6.0)
    assert (b["source"], b["triples"]) == ("blank", "[]")
    assert notes(workspace, "extractions") == [
        "1 passage has no text.",
        "6 of 9 triples were malformed and dropped.",
    ]
    assert len(server.requests) == 1
    last = server.requests[0].body["messages"][-1]
    assert last == {"role": "user", "content": "Title: Rhine\n\nThe Rhine rises in the Alps."}
    schema = server.requests[0].body["response_format"]["json_schema"]["schema"]
    triple = {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3}
    assert (schema["required"], schema["properties"]["triples"]["items"]) == (["entities", "triples"], triple)
    assert workspace.build(Extractions()).made == 0
    (record,) = workspace.manifest.parts.values()
    assert (record.failed, record.output_tokens > 10) == ({}, True)
    assert len(server.requests) == 1


def test_names_first_then_triples_of_these_names(server: OpenAIServer, tmp_path: Path) -> None:
    """The names, stripped and once each, are in the second request; a passage whose names fail has no second one."""

    def write(body: Mapping[str, Any]) -> str:
        if "sulks" in json.dumps(body["messages"]):
            return "I would rather not."
        content = body["messages"][-1]["content"]
        if "Names:" in content:
            return json.dumps({"triples": [["Rhine", "rises in", "Alps"], ["Rhine"]]})
        return json.dumps({"entities": ["Rhine", " Alps", "Rhine", ""]})

    server.write = write
    part, workspace = Extractions(calls="sequential"), asking(tmp_path, server)
    workspace.add([Document("a", "Rhine", "The Rhine rises in the Alps."), Document("b", "", "It sulks.")])
    workspace.build(part)
    (a,) = rows(workspace, part, *FIELDS)
    assert (a["entities"], a["triples"]) == (["Rhine", "Alps"], '[["Rhine", "rises in", "Alps"]]')
    assert (a["source"], a["kept"], a["dropped"]) == ("model", 1.0, 1.0)
    contents = [request.body["messages"][-1]["content"] for request in server.requests]
    assert contents.count("Title: Rhine\n\nThe Rhine rises in the Alps.") == 1
    assert contents.count("Title: Rhine\n\nThe Rhine rises in the Alps.\n\nNames:\n- Rhine\n- Alps\n") == 1
    assert len(contents) == 4  # one of each for a, and the names of b twice
    (record,) = workspace.manifest.parts.values()
    assert list(record.failed) == ["b"]


def test_triples_that_are_no_list_are_requested_again(server: OpenAIServer, tmp_path: Path) -> None:
    lists = [{"t1": ["A", "p", "B"], "t2": ["A"]}, [["A", "p", "B"], ["A"]]]
    server.write = lambda body: json.dumps({"entities": ["A"], "triples": lists[len(server.requests) > 1]})
    workspace = asking(tmp_path, server)
    workspace.add([Document("a", "", "A p B")])
    workspace.build(Extractions())
    (a,) = rows(workspace, Extractions(), *FIELDS)
    assert (a["triples"], a["dropped"], len(server.requests)) == ('[["A", "p", "B"]]', 1.0, 2)


def find_ids(workspace: Index, question: str) -> list[str]:
    return [hit.id for hit in BM25(over=Triples()).open(workspace).retrieve([Query("q", question)], 5)[0].hits]


def test_a_failed_passage_is_counted_and_tried_again_with_all_that_is_made_of_it(
    server: OpenAIServer, tmp_path: Path
) -> None:
    sulking = {"c|likes|tea"}
    parts = [BM25(over=Triples()), TripleGraph()]

    def choose(received: Any, earlier: int) -> Any:
        passage = received.body["messages"][5]["content"]  # after the instructions and two demonstrations
        return chat(content="I would rather not.") if passage in sulking else None

    server.choose = choose
    workspace = asking(tmp_path, server)
    workspace.add([spelt("1", "a|knows|b"), spelt("2", "c|likes|tea"), spelt("3", "b|knows|c")])
    workspace.build(*parts)
    failed = workspace.failures(BM25(over=Triples()))
    assert {name: list(reasons) for name, reasons in failed.items()} == {"extractions": ["2"]}
    assert "gave no usable answer" in failed["extractions"]["2"]
    assert [row["id"] for row in rows(workspace, Extractions(), "source")] == ["1", "3"]
    assert find_ids(workspace, "tea") == []
    assert workspace.open_part(TripleGraph()).neighbours(["3#t0000"]) == [["1#t0000"]]
    assert len(server.requests) == 4  # the one that failed was asked twice

    workspace.build(*parts)  # it is set aside
    assert len(server.requests) == 4
    workspace.build(*parts, retry_failed=True)  # it fails again
    assert list(workspace.failures(BM25(over=Triples()))["extractions"]) == ["2"]
    assert len(server.requests) == 6  # what was answered is not asked again

    sulking.clear()
    assert workspace.build(*parts, retry_failed=True).made == 3  # one passage in each of three parts
    assert workspace.failures(BM25(over=Triples())) == {}
    assert find_ids(workspace, "tea") == ["2#t0000"]
    assert workspace.open_part(TripleGraph()).neighbours(["3#t0000"]) == [["1#t0000", "2#t0000"]]
    assert len(server.requests) == 7

    sulking.add("c|likes|milk")
    workspace.add([spelt("2", "c|likes|milk")])  # a change that fails: what was known of it is gone
    workspace.build(*parts)
    assert [row["id"] for row in rows(workspace, Triples(), "text")] == ["1#t0000", "3#t0000"]
    assert workspace.open_part(TripleGraph()).neighbours(["3#t0000"]) == [["1#t0000"]]


# ---------------------------------------------------------------- identity


def test_another_model_prompt_or_file_gives_another_part_beside(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [spelt("1", "a|knows|b")]

    def keys(workspace: Index) -> set[str]:
        workspace.build(Triples())
        return {key for key, record in workspace.manifest.parts.items() if record.name == "extractions"}

    folder = tmp_path / "w"
    first = Index.open(folder, chunking=None, create=True)
    first.add(documents)
    assert len(keys(first)) == 1
    assert len(keys(asking(folder, server))) == 2
    assert len(keys(asking(folder, server))) == 2
    assert len(keys(asking(folder, server, model="other"))) == 3
    prompt = tmp_path / "other.jinja"
    prompt.write_text("Another way to ask.\n{{ text }}")
    with monkeypatch.context() as patch:
        patch.setattr(extractions, "EXTRACT", replace(extractions.EXTRACT, prompt=prompt))
        assert len(keys(asking(folder, server))) == 4
    assert len(server.requests) == 3
    other = imported(folder, openie(tmp_path / "one.json", documents))
    assert len(keys(other)) == 4  # what the rules had made is replaced: no sync would bring it up again
    other.import_part("extractions", openie(tmp_path / "two.json", [*documents, spelt("2", "c|knows|d")]))
    assert len(keys(other)) == 4
    second = Index.open(folder, chunking=None, create=True)
    assert len(keys(imported(folder, tmp_path / "one.json"))) == 4  # the model is not asked, whichever it is
    assert len({key for key, record in other.manifest.parts.items() if record.name == "triples"}) == 4
    outdated = sorted(key.split("-")[0] for key in Index.open(folder, create=True).manifest.outdated)
    assert outdated == ["extractions", "triples"]  # of the second file, which somebody reads; nobody reads the rules'
    assert second.open_part(Triples()).count() == 1  # a reader from before goes on


# ---------------------------------------------------------------- the prompts

TEXTS = ("Hollow Ferry is a chain ferry on the River Sarn.", "The cellist studied with Paul Renk in Tarsby")


@pytest.mark.parametrize("task", [EXTRACT, NAMES, RELATE], ids=lambda task: task.name)
def test_the_demonstrations_state_what_their_texts_state(task: Task[Any]) -> None:
    messages = render_messages(task, {"title": "", "text": "", "names": []})
    message = [read_json(message.content, task.output) for message in messages if message.role == "assistant"]
    assert [reading.stage for reading in message] == ["strict"] * len(message)
    for place, (answer, *_) in enumerate(message):
        shown = messages[1 + 2 * place].content
        assert TEXTS[place] in shown
        triples = [Triple(*fields) for fields in getattr(answer, "triples", [])]
        words = set(analyse(f"{shown} also called", "english"))
        for triple in triples:
            assert set(analyse(f"{triple.subject} {triple.predicate} {triple.object}", "english")) <= words, triple
        assert "chain ferry" not in [
            triple.object for triple in triples
        ]  # a kind alone would join all things of the kind
        aliases = [triple.object for triple in triples if alias_predicate(triple.predicate)]
        assert aliases == (["VHT"] if triples and place == 0 else [])  # as `same_as` reads them
