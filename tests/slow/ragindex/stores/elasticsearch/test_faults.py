"""What happens to a real cluster of three nodes: nothing acknowledged is lost, and who asks again goes on.

They come first among the tests (conftest.py), and `make faults` runs them alone.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from elasticsearch_node.cluster import COUNT, Cluster, cluster
from made_elasticsearch import plain_client

from ragindex.errors import StoreError
from ragindex.index.index import Index
from ragindex.interfaces import Collection, FilterQuery, Schema, TextQuery
from ragindex.plugins import registry
from ragindex.testing import DOCUMENTS, ask_questions, assert_same

pytestmark = pytest.mark.faults
TEXT = Schema(stored=("text",), text=("text",))
BATCH = 50


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as cluster_nodes:
        yield cluster_nodes


def opened(nodes: Cluster, folder: Path, **parameters: Any) -> Any:
    given = {"url": nodes.addresses, **parameters}
    return registry.store({"name": "elasticsearch", "params": given}).open(folder)


def waiting(store: Any, seconds: float, retries: int) -> Any:
    """The same store, with another patience."""
    client = store.server.client.options(request_timeout=seconds)
    return replace(store, server=replace(store.server, client=client, retries=retries))


def write(collection: Collection, batch: int) -> set[str]:
    """The ids of the batch, once they are acknowledged."""
    ids = [f"{batch:03d}-{n:03d}" for n in range(BATCH)]
    collection.upsert(
        pa.RecordBatch.from_pydict({"id": ids, "text": [f"word{n} shared {id}" for n, id in enumerate(ids)]})
    )
    return set(ids)


def read_ids(collection: Collection) -> set[str]:
    return {id for batch in collection.scan(()) for id in batch.column("id").to_pylist()}


def test_a_node_with_the_primary_dies_while_records_are_written(nodes: Cluster, tmp_path: Path) -> None:
    store = opened(nodes, tmp_path)
    collection = store.create("texts", TEXT)
    acknowledged, written = set[str](), threading.Event()

    def writing() -> None:
        for batch in range(30):
            acknowledged.update(write(collection, batch))
            if batch == 5:
                written.set()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(writing)
        assert written.wait(60)
        primary = nodes.with_primary(f"{store.layout.base}-texts-*")
        nodes.kill([primary])
        done.result()
    collection.finish()
    assert len(acknowledged) == 30 * BATCH
    assert read_ids(store.open("texts", collection.version)) == acknowledged
    nodes.bring()
    assert read_ids(opened(nodes, tmp_path).open("texts", collection.version)) == acknowledged


def test_a_node_with_the_primary_dies_while_questions_are_answered(nodes: Cluster, tmp_path: Path) -> None:
    nodes.bring()
    store = opened(nodes, tmp_path)
    collection = store.create("texts", TEXT)
    for batch in range(4):
        write(collection, batch)
    collection.finish()
    reader = store.open("texts", collection.version)
    requests = [TextQuery("word7 shared", 5, ("text",)), FilterQuery(None, 3)]
    expected = [hit.ids for hit in reader.search(requests)]
    nodes.bring()  # the replica is there too
    primary, answers = nodes.with_primary(f"{store.layout.base}-texts-*"), []
    killed = threading.Event()

    def asking() -> None:
        while not killed.is_set() or len(answers) < 40:
            answers.append([hit.ids for hit in reader.search(requests)])

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(asking)
        nodes.kill([primary])
        killed.set()
        done.result()
    assert answers == [expected] * len(answers)


def test_all_nodes_are_gone_and_come_back(nodes: Cluster, tmp_path: Path) -> None:
    """While they are away no write is confirmed; then the same sync goes on to the same index.

    It begins with the two nodes that the test before has left, where it was run.
    """
    nodes.wait("yellow", sum(node.alive() for node in nodes.nodes.values()))
    scheme = registry.scheme("bm25")
    written = {"name": "elasticsearch", "params": {"url": nodes.addresses, "retries": 0}}
    space = Index.open(tmp_path / "w", store=written, chunking=None, create=True)
    space.add(DOCUMENTS[:12])
    space.build(scheme)
    before = scheme.open(space)
    expected = ask_questions(before, 5)
    nodes.kill(range(COUNT))
    for doing in (lambda: space.add(DOCUMENTS[12:]), lambda: ask_questions(before, 5)):
        with pytest.raises(StoreError, match="can be reached, then run the same command to resume"):
            doing()
    nodes.bring()
    assert_same(ask_questions(before, 5), expected, "a reader opened before")
    space.add(DOCUMENTS[12:])
    space.build(scheme)
    undisturbed = Index.open(tmp_path / "lance", chunking=None, create=True)
    undisturbed.add(DOCUMENTS)
    undisturbed.build(scheme)
    assert_same(
        ask_questions(scheme.open(space), 5),
        ask_questions(scheme.open(undisturbed), 5),
        "an index of a store that was never away",
    )


def test_a_full_queue_turns_away_and_nothing_is_lost(nodes: Cluster, tmp_path: Path) -> None:
    """Every node has one thread that writes and a queue of two; twelve writers want more, until one is turned away."""
    nodes.bring()
    store = opened(nodes, tmp_path, retries=10)
    collection, acknowledged = store.create("texts", TEXT), set[str]()
    for first in range(0, 600, 60):
        with ThreadPoolExecutor(12) as pool:
            acknowledged.update(*pool.map(lambda batch: write(collection, batch), range(first, first + 60)))
        assert len(acknowledged) == (first + 60) * BATCH
        if count_rejected(store):
            break
    collection.finish()
    assert read_ids(collection) == acknowledged
    assert count_rejected(store) > 0


def count_rejected(store: Any) -> int:
    """Return how many writes the nodes have turned away since they started."""
    with plain_client(store) as client:  # the framework never asks this
        pools = client.nodes.stats(metric="thread_pool")["nodes"].values()
    return sum(node["thread_pool"]["write"]["rejected"] for node in pools)


def test_nodes_that_are_too_slow(nodes: Cluster, tmp_path: Path) -> None:
    """A write that waits goes on when they answer again; a short wait ends with the reason."""
    nodes.bring()
    store = opened(nodes, tmp_path)
    acknowledged = write(store.create("texts", TEXT), 0)
    collection = waiting(store, 1.0, 8).create("texts", TEXT)
    hasty = waiting(store, 0.5, 0)
    nodes.pause()
    try:
        with pytest.raises(StoreError, match=r"no answer in time: .*then run the same command to resume"):
            hasty.version("texts")
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(write, collection, 1)
            time.sleep(1.5)
            assert not done.done()
            nodes.resume()
            acknowledged |= done.result()
    finally:
        nodes.resume()
    assert read_ids(collection) == acknowledged
