"""`ragindex index` with batches, killed with SIGKILL at every step: its money is what the server has billed."""

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_extractor import Killer, extract, server_money, start
from batch_server import BatchPlan, BatchServer

PASSAGES = 130
NAMES = ("Anna", "Sarn", "Orla", "Quill", "Nether", "Vell", "Tann", "Moor", "Kest", "Pell")
MOMENTS = [
    ("POST completions", 1, True),
    ("POST files", 1, False),
    ("POST batches", 1, True),
    ("POST batches", 1, False),
    ("GET batches/ID", 1, False),
    ("GET files/ID/content", 1, False),
    ("POST batches", 1, False),
]
"""One for each state of the first batch, and the one of the second in which it could be paid twice.

A request that the server has not acted on leaves what the answer before it left.
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(PASSAGES):
        first, other, third = (NAMES[place % 10] for place in (number, number // 10, number * 7 + 3))
        text = f"# {first} {number}\n\n{first} met {other} at the bridge of {third} in {1800 + number}."
        (folder / f"{number}.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as running:
        running.write, running.cached_tokens = extract, 50
        yield running


def test_killed_and_resumed(data: Path, tmp_path: Path, server: BatchServer) -> None:
    """The first batch expires with 105 of 129 requests unanswered, which come in a second one."""
    server.plans = [BatchPlan("expired", looks=4, unanswered=frozenset(range(20, 125)), errors={3: 500}), BatchPlan()]
    killer, index = Killer(server), tmp_path / "index"
    for path, time, before in MOMENTS:
        killer.aim(path, time, before=before)
        killer.process = start(data, index, server)
        _, errors = killer.process.communicate()
        assert killer.process.returncode == -9, errors
    process = start(data, index, server)
    out, errors = process.communicate()
    assert process.returncode == 0, errors

    assert [batch["status"] for batch in server.batches.values()] == ["expired", "completed"]
    with sqlite3.connect(index / "calls.sqlite") as calls:
        count, money, read, cached, written = calls.execute(
            "SELECT count(*), total(money), sum(input_tokens), sum(cached_tokens), sum(output_tokens) FROM calls"
        ).fetchone()
        assert calls.execute("SELECT count(*) FROM batches").fetchone() == (0,)
    single, batched = server.single, server.batched
    assert count == single.requests + batched.requests == PASSAGES
    assert (read, cached, written) == (
        single.read + batched.read,
        single.cached + batched.cached,
        single.written + batched.written,
    )
    assert money == pytest.approx(server_money(server), rel=1e-12)
    assert single.requests <= 6  # each run that sends a batch proves the form first, and one error is asked alone
    assert json.loads(out)["spent"]["money"] <= money
    assert re.search(r"extract: batch batch_\d completed", errors)
    manifest = json.loads((index / "workspace.json").read_text(encoding="utf-8"))
    built = [part["money"] for key, part in manifest["parts"].items() if part["input_tokens"]]
    assert built == [pytest.approx(money, rel=1e-9)]
