"""Passages with their triples of which a model fails to read some, over several syncs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from built_retriever import built_retriever
from letters import Letters
from made_extractions import asking, rows, spelt
from openai_server import KEY, OpenAIServer, chat

from ragindex.parts.vectors.vectors import Vectors
from ragindex.types import Query
from ragindex_retrievers.griever.parts.triple_passages import TriplePassages


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        yield running


def test_a_failed_passage_is_found_by_its_text(server: OpenAIServer, tmp_path: Path) -> None:
    sulking = {"c|likes|tea", "c|likes|milk"}

    def choose(received: Any, earlier: int) -> Any:
        text = received.body["messages"][5]["content"]  # after the instructions and two demonstrations
        answer = {"entities": [], "triples": [line.split("|") for line in text.splitlines()]}
        sulks = any(passage in text for passage in sulking)  # a server that misfits gets the schema besides
        return chat(content="I would rather not." if sulks else json.dumps(answer))

    def read_records() -> list[tuple[Any, ...]]:
        fields = ("text", "triples", "subjects", "extracted")
        return [tuple(row[name] for name in ("id", *fields)) for row in rows(workspace, TriplePassages(), *fields)]

    def find_ids(method: str) -> list[str]:
        hits = built_retriever(workspace, method).retrieve([Query("q", "likes tea milk")], 2)[0].hits
        return [hit.id for hit in hits]

    server.choose = choose
    workspace = asking(tmp_path, server, encoder=Letters())  # type: ignore[arg-type]
    parts = [Vectors(of=TriplePassages()), Vectors()]
    workspace.add([spelt("1", "a|knows|b"), spelt("2", "c|likes|tea")])
    workspace.build(*parts)
    first = ("1", "a|knows|b", '[["a", "knows", "b"]]', ["a"], 1.0)
    assert read_records() == [first, ("2", "c|likes|tea", "[]", [], 0.0)]
    assert (find_ids("bm25(over=triple_passages)"), find_ids("hybrid(over=triple_passages)")) == (["2"], ["1", "2"])
    assert (find_ids("dense(over=triple_passages)"), find_ids("dense")) == (
        ["1"],
        ["2", "1"],
    )  # no vector of it over this part

    workspace.add([spelt("2", "c|likes|milk")])  # it fails again, with another text
    workspace.build(*parts)
    assert read_records() == [first, ("2", "c|likes|milk", "[]", [], 0.0)]
    sulking.clear()
    workspace.build(*parts, retry_failed=True)
    assert read_records() == [first, ("2", "c|likes|milk", '[["c", "likes", "milk"]]', ["c"], 1.0)]
    assert find_ids("dense(over=triple_passages)") == ["2", "1"]
    sulking.add("c|likes|tea")
    workspace.add([spelt("2", "c|likes|tea")])  # what was read off it is gone with its text
    workspace.build(*parts)
    assert read_records() == [first, ("2", "c|likes|tea", "[]", [], 0.0)]
    workspace.remove(["2"])
    workspace.build(*parts)
    assert read_records() == [first]
