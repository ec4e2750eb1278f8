"""Summary trees of many equal passages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from made_language import answering
from made_trees import around, at, drawn, named, nodes, opened, summaries, write
from openai_server import OpenAIServer

from ragindex.parts.trees.summary_tree import SummaryTree
from ragindex.types import Document

FLAT = SummaryTree(dimensions=2, stop_at=2)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with answering(monkeypatch, write) as running:
        yield running


def test_500_identical_passages(server: OpenAIServer, tmp_path: Path) -> None:
    same = [Document(f"s{number:03d}", "", "same @0,0,1") for number in range(500)]
    workspace = opened(tmp_path, server, same)
    workspace.build(SummaryTree())
    assert len(nodes(workspace, SummaryTree())) == 500
    assert server.requests == []  # one text is no cluster
    workspace.add([*around("a", 0, 0.2, 6), *around("b", 1, 0.2, 6), at("t", 0, 0.05, 1)])
    workspace.build(FLAT)
    drawing = drawn(workspace, FLAT)
    ids = [node.id for node in same]
    (row,) = (row for row in nodes(workspace, FLAT).values() if named(row["text"]) == "(same t)")
    assert row["passage_ids"] == row["children"] == [*ids, "t"]  # each is a child; the text was shown once
    assert "(a1 a2 a3 a4 a5 a6)" in drawing
    assert ["same", "t"] in summaries(server)
