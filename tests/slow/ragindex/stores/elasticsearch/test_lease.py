"""The writer's lease on a real server: one holder, renewed while it lives, taken over when it does not."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elasticsearch_node.node import store as elasticsearch_store

from ragindex.errors import StoreError, WriterBusyError
from ragindex.interfaces import Schema
from ragindex.plugins import registry
from ragindex.stores.elasticsearch import lease as elastic_lease

CHILD = """
import sys, time
from pathlib import Path
from ragindex.plugins import registry

store = registry.store(sys.argv[1]).open(Path(sys.argv[2]))
with store.lease("the child"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def written() -> Iterator[str]:
    with elasticsearch_store(lease_seconds=1.0) as usable:
        yield usable


@pytest.fixture
def pair(written: str, tmp_path: Path) -> tuple[Any, Any]:
    """Two processes' stores of one index, as far as the server can tell."""
    first, second = (registry.store(written).open(tmp_path / "store") for _ in range(2))
    return first, second


@pytest.fixture
def child(written: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lease."""
    command = [sys.executable, "-c", CHILD, written, str(tmp_path / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_holder_that_lives_keeps_it_beyond_its_time(pair: tuple[Any, Any]) -> None:
    first, second = pair
    with first.lease("the first"):
        begun = first.writer_lease.seen
        while first.writer_lease.seen == begun:  # renewed at least once
            time.sleep(0.05)
        with pytest.raises(WriterBusyError, match=r"writing to the index: the first \(process \d+ on .*Wait for it"):
            second.lease("the second").__enter__()
    with second.lease("the second"):
        assert first.writer_lease is None


def test_one_whose_process_has_died_here_is_taken_over_at_once(child: subprocess.Popen[str], pair: Any) -> None:
    with pytest.raises(WriterBusyError, match="the child"):
        pair[0].lease("the next").__enter__()
    child.kill()
    child.wait()
    with pair[0].lease("the next"):
        assert pair[0].writer_lease.document["owner"] == "the next"


def test_one_that_died_on_another_machine_is_taken_over_when_nobody_renews_it(
    child: subprocess.Popen[str], pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic_lease, "_machine", lambda: "another")
    child.kill()
    child.wait()
    with pytest.raises(WriterBusyError, match="the child"):  # it may live, for all one knows
        pair[0].lease("the next").__enter__()
    taken = _patiently(pair[0])
    assert taken.document["owner"] == "the next"
    taken.release()


def _patiently(store: Any) -> elastic_lease.WriterLease:
    while True:
        try:
            return elastic_lease.acquire_lease(store.server, store._state, "the next", 1.0)
        except WriterBusyError:
            continue


def test_a_clock_that_is_ahead_takes_nothing_from_a_holder_that_lives(
    pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    with first.lease("the first"):
        now = time.time
        monkeypatch.setattr(elastic_lease.time, "time", lambda: now() + (0 if _renewing() else 3600))
        monkeypatch.setattr(elastic_lease, "_WATCHED", 1.0)
        with pytest.raises(WriterBusyError, match="the first"):
            second.lease("the second").__enter__()


def _renewing() -> bool:
    return threading.current_thread().name == "ragindex-lease"


def test_a_holder_that_has_lost_it_writes_no_more(pair: tuple[Any, Any]) -> None:
    first, second = pair
    collection = first.create("texts", Schema(stored=("text",)))
    with first.lease("the sleeper"):
        first.writer_lease._stop.set()  # its thread sleeps as the machine does
        first.writer_lease._thread.join()
        lost = {**first.writer_lease.document, "owner": "the second", "token": "another"}
        elastic_lease._put(second.server, second._state, lost, first.writer_lease.seen)
        first.writer_lease._renewed -= 10
        with pytest.raises(StoreError, match=r"was taken over by the second \(.*Nothing more is written\. Run"):
            collection.delete(["a"])
        with pytest.raises(StoreError, match="was taken over"):
            collection.finish()
    lease, _ = elastic_lease._read(second.server, second._state)  # type: ignore[misc]
    assert lease["owner"] == "the second"  # what is not ours is not given back


def test_of_many_who_ask_at_once_one_gets_it(pair: tuple[Any, Any]) -> None:
    store, taken, busy = pair[0], [], []

    def ask(number: int) -> None:
        try:
            taken.append(elastic_lease.acquire_lease(store.server, store._state, f"number {number}", 30.0))
        except WriterBusyError as error:
            busy.append(str(error))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(busy)) == (1, 7)
    assert all(taken[0].document["owner"] in error for error in busy)
    taken[0].release()


def test_an_answer_that_was_lost_on_the_way(pair: tuple[Any, Any]) -> None:
    """The try before has written it: the next one meets a conflict, with itself."""
    store = pair[0]
    lease = elastic_lease.acquire_lease(store.server, store._state, "the first", 30.0)
    before = lease.seen
    assert elastic_lease._put(store.server, store._state, lease.document, before) is not None
    again = elastic_lease._put(store.server, store._state, lease.document, before)
    assert again is not None
    assert again != before
    lease.release()
