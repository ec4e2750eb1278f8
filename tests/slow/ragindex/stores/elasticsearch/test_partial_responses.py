"""A real server, with one of its answers spoilt, and with an index of which it has really lost a shard."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from elasticsearch_node.node import store as elasticsearch_store
from made_elasticsearch import plain_client, texts
from spoilt_answers import GOOD, SAYS_NOTHING, spoilt

from ragindex.errors import StoreError, WriterBusyError
from ragindex.interfaces import FilterQuery, Schema, TextQuery
from ragindex.plugins import registry
from ragindex.stores.elasticsearch import client as elastic_client
from ragindex.stores.elasticsearch import indices, responses
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.responses import RULES

SCHEMA = Schema(stored=("text",), text=("text",), dimensions=4)
GIVEN = {f"{n:02d}": f"word{n} shared" for n in range(12)}


def batch(given: dict[str, str]) -> pa.RecordBatch:
    vectors = np.random.default_rng(1).standard_normal((len(given), 4)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    return texts(given).append_column("vector", column)


def history(written: str, folder: Path) -> list[Any]:
    """All that a store does: written, finished, written on, removed from, given a graph, read in every way, dropped."""
    store = registry.store(written).open(folder)
    with store.lease("the test"):
        collection = store.create("texts", SCHEMA)
        collection.upsert(batch(GIVEN))
        collection.finish()
        with pytest.raises(WriterBusyError), registry.store(written).open(folder).lease("another"):
            pass
        collection.delete(["none"])
        indices.block_writes(store.server, "texts", collection._now())  # as a finish that was cut short
        collection.upsert(batch({"new": "new words"}))
        collection.delete(["00"])
        collection.finish()
        reader = store.open("texts", collection.version)
        seen = [reader.count(), reader.search([TextQuery("shared", 20), FilterQuery(None, 20)])[0].ids]
        seen += [sorted(id for records in reader.scan(()) for id in records.column("id").to_pylist())]
        seen += [reader.get(["01", "new"], ()).num_rows, reader.describe()["bytes"] > 0, store.names(), reader.fields()]
        store.clean("texts", frozenset())
        store.drop("texts")
    return seen


class Spoiling:
    """Spoils the answers to one kind of request: all, or only the first. `heard` are the kinds of all."""

    def __init__(self, patch: pytest.MonkeyPatch, kind: tuple[str, str] | None = None, once: bool = False) -> None:
        from elastic_transport import Transport

        self.heard: list[tuple[str, str]] = []
        self.spoilt = 0
        inner = Transport.perform_request

        def perform(server: Any, method: str, target: str, **how: Any) -> Any:
            answer = inner(server, method, target, **how)
            self.heard.append(responses.parse_endpoint(method, target))
            bad = dict(spoilt(answer.body)) if self.heard[-1] == kind and answer.meta.status < 300 else {}
            if not bad or (once and self.spoilt):
                return answer
            self.spoilt += 1
            return replace_body(answer, next(iter(bad.values())))

        patch.setattr(Transport, "perform_request", perform)


def replace_body(answer: Any, body: Any) -> Any:
    return type(answer)(answer.meta, body)


@pytest.fixture(scope="module")
def impatient() -> Iterator[str]:
    with elasticsearch_store(shards=2, retries=0, exact_up_to=5) as written:
        yield written


def test_the_history_asks_all_that_there_is_a_rule_for(
    impatient: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Spoiling(monkeypatch)
    expected = ["new", *sorted(GIVEN)[1:]]
    seen = history(impatient, tmp_path)
    assert (seen[0], seen[2]) == (12, sorted(expected))
    never = {("POST", "_bulk"), ("POST", "_doc"), ("GET", "_cluster")}  # the last where a shard takes its time
    assert set(heard.heard) >= RULES.keys() - never


@pytest.mark.parametrize("kind", sorted(GOOD.keys() - SAYS_NOTHING - {("GET", ""), ("POST", "_doc")}), ids=" ".join)
def test_a_history_with_a_spoilt_answer_stops(
    kind: tuple[str, str], impatient: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoiling = Spoiling(monkeypatch, kind)
    if kind == ("GET", "_cluster"):
        monkeypatch.setattr(elastic_client.Server, "try_to", _never_acknowledged(elastic_client.Server.try_to))
    with pytest.raises(StoreError, match="The store at http"):
        history(impatient, tmp_path)
    assert spoiling.spoilt >= 1


def _never_acknowledged(ask: Any) -> Any:
    """An index whose shards take longer than the server waits for them."""

    def tried(server: Server, call: Any, **how: Any) -> Any:
        answer = ask(server, call, **how)
        body = getattr(answer, "body", None)
        late = isinstance(body, dict) and body.get("shards_acknowledged") is True and "index" in body
        return {**body, "shards_acknowledged": False} if late and body is not None else answer

    return tried


# ---------------------------------------------------------------- a real server that has lost a shard


@pytest.fixture(scope="module")
def halved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A store with a collection of two shards, one of which no node may hold any more; and one not yet finished."""
    with elasticsearch_store(shards=2, replicas=0, retries=0, timeout=5) as written:
        store = registry.store(written).open(tmp_path_factory.mktemp("halved"))
        collection = store.create("texts", SCHEMA)
        collection.upsert(batch(GIVEN))
        collection.finish()
        reader = store.open("texts", collection.version)
        half = store.create("open", SCHEMA)
        half.upsert(batch(GIVEN))
        with plain_client(store) as client:
            for index in (reader._now().index, half._now().index):
                lose_a_shard(client, index)
        yield reader, half


def lose_a_shard(client: Any, index: str) -> None:
    """Of two: its files are gone when the index is opened again."""
    nodes = client.nodes.info(metric="settings", flat_settings=True)["nodes"].values()
    uuid = client.indices.get_settings(index=index)[index]["settings"]["index"]["uuid"]
    paths = [node["settings"].get("path.data", "") for node in nodes]
    files = [file for path in paths for file in Path(str(path)).glob(f"indices/{uuid}/1/index/segments_*")]
    if not files:
        pytest.skip("the server's files are not on this machine")
    client.indices.close(index=index, wait_for_active_shards=0)
    for file in files[0].parent.glob("segments_*"):
        file.unlink()
    client.indices.open(index=index, wait_for_active_shards=0)
    while client.cluster.health(index=index)["status"] != "red" or client.cluster.health()["initializing_shards"]:
        pass
    assert client.search(index=index, size=0, allow_partial_search_results=True)["_shards"]["successful"] == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda reader, _: reader.search([TextQuery("shared", 20)]),
        lambda reader, _: reader.search([FilterQuery(None, 20)]),
        lambda reader, _: list(reader.scan(("text",))),
        lambda reader, _: reader.get(list(GIVEN), ()),
        lambda reader, _: reader.describe(),
        lambda _, half: half.count(),
        lambda _, half: half.fields(),
        lambda _, half: half.version,
        lambda _, half: half.describe(),
        lambda _, half: half.search([FilterQuery(None, 20)]),
        lambda _, half: half.upsert(batch(GIVEN)),
        lambda _, half: half.finish(),
    ],
    ids=["match", "where", "scan", "get", "describe", "count", "fields", "version", "bytes", "search", "write", "seal"],
)
def test_half_an_index_answers_nothing(ask: Callable[[Any, Any], Any], halved: Any) -> None:
    with pytest.raises(StoreError, match="The store at http|shards of the index"):
        ask(*halved)
    assert halved[1]._now().sealed is None
