"""Summary trees of many equal passages, and of a process that is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tree_child
from made_language import answering
from made_trees import around, at, drawn, named, nodes, opened, shown, summaries, write
from openai_server import KEY, OpenAIServer, Received
from tree_child import GROUPS, TREE

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


def test_killed_in_the_middle_of_the_second_level(server: OpenAIServer, tmp_path: Path) -> None:
    level_two = threading.Event()
    hold = threading.Event()

    def choose(received: Received, earlier: int) -> Any:
        if not shown(received.body)[0].startswith("(") or hold.is_set():
            return None
        if level_two.is_set():  # the second request of the level: its answer never arrives
            hold.wait(30)
            return lambda answer: None
        level_two.set()
        return None

    server.choose = choose
    child = subprocess.Popen(
        [sys.executable, str(Path(tree_child.__file__)), str(tmp_path / "killed"), server.url],
        env={**os.environ, "OPENAI_API_KEY": KEY},
    )
    while len(server.requests) < len(GROUPS) + 2:
        assert child.poll() is None
        threading.Event().wait(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    hold.set()
    paid = server.sent
    assert paid == len(GROUPS) + 1
    killed, undisturbed = (
        tree_child.bring(tmp_path / "killed", server.url),
        tree_child.bring(tmp_path / "other", server.url),
    )
    assert nodes(killed, TREE) == nodes(undisturbed, TREE)
    assert len(drawn(killed, TREE)) == len(GROUPS) + 3
    calls = [json.dumps(request.body) for request in server.requests]
    everything = len(GROUPS) + 3
    assert len(calls) == everything + 1 + everything  # the killed build asked for one that it did not get
    assert server.sent == 2 * everything
