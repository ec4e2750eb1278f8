"""Answers of which something is missing: failed shards, refused items, time that was over. None is ever believed.

First the words of a server, one endpoint after the other, from a stand-in; then a real server, with one of its answers
spoilt, and with an index of which it has really lost a shard.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from elasticsearch_node.node import store as elasticsearch_store
from elasticsearch_stand_in import INFO, StandIn
from made_elasticsearch import plain_client, texts
from project import ROOT

from ragindex.errors import StoreError, WriterBusyError
from ragindex.http import TroubleError
from ragindex.interfaces import FilterQuery, Schema, TextQuery
from ragindex.plugins import registry
from ragindex.stores.elasticsearch import client as elastic_client
from ragindex.stores.elasticsearch import indices, responses
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.responses import RULES

pytest.importorskip("elasticsearch", reason="the extra elasticsearch is not installed")
REASON = {"type": "engine_failed", "reason": "the disk is gone"}
SHARDS = {"total": 2, "successful": 2, "failed": 0}
FOUND = {"timed_out": False, "_shards": {**SHARDS, "skipped": 0}, "hits": {"hits": [], "total": {"value": 0}}}
FOUND["hits"]["total"]["relation"] = "eq"  # type: ignore[index]
WRITTEN = {"result": "created", "_shards": {"total": 2, "successful": 1, "failed": 0}, "_seq_no": 0}
MADE = {"acknowledged": True, "shards_acknowledged": True}
WHOLE = {"allow_partial_search_results": False}
HEADER = {"index": "i", **WHOLE}
GOOD: dict[tuple[str, str], tuple[Callable[[Any], Any], dict[str, Any]]] = {
    ("GET", ""): (lambda client: client.info(), INFO),
    ("GET", "INDEX"): (lambda client: client.indices.get(index="i*"), {"i": {"mappings": {}}}),
    ("PUT", "INDEX"): (lambda client: client.indices.create(index="i"), MADE),
    ("DELETE", "INDEX"): (lambda client: client.indices.delete(index="i"), {"acknowledged": True}),
    ("PUT", "_clone"): (lambda client: client.indices.clone(index="i", target="j"), MADE),
    ("PUT", "_block"): (
        lambda client: client.indices.add_block(index="i", block="write"),
        {**MADE, "indices": [{"name": "i", "blocked": True}]},
    ),
    ("PUT", "_mapping"): (lambda client: client.indices.put_mapping(index="i", meta={}), {"acknowledged": True}),
    ("PUT", "_settings"): (lambda client: client.indices.put_settings(index="i", settings={}), {"acknowledged": True}),
    ("POST", "_refresh"): (lambda client: client.indices.refresh(index="i"), {"_shards": SHARDS}),
    ("POST", "_flush"): (lambda client: client.indices.flush(index="i"), {"_shards": SHARDS}),
    ("POST", "_forcemerge"): (lambda client: client.indices.forcemerge(index="i"), {"_shards": SHARDS}),
    ("GET", "_stats"): (lambda client: client.indices.stats(index="i"), {"_shards": SHARDS, "indices": {}}),
    ("GET", "_cluster"): (lambda client: client.cluster.health(index="i"), {"timed_out": False, "status": "green"}),
    ("POST", "_pit"): (
        lambda client: client.open_point_in_time(index="i", keep_alive="1m"),
        {"id": "p", "_shards": {**SHARDS, "skipped": 0}},
    ),
    ("DELETE", "_pit"): (lambda client: client.close_point_in_time(id="p"), {"succeeded": True, "num_freed": 1}),
    ("POST", "_search"): (lambda client: client.search(index="i", **WHOLE), FOUND),
    ("POST", "_msearch"): (lambda client: client.msearch(searches=[HEADER, {}] * 2), {"responses": [FOUND, FOUND]}),
    ("POST", "_mget"): (
        lambda client: client.mget(index="i", ids=["a", "b"]),
        {"docs": [{"_id": "a", "found": True, "_source": {}}, {"_id": "b", "found": False}]},
    ),
    ("PUT", "_bulk"): (
        lambda client: client.bulk(operations=[b'{"index": {}}', b"{}", b'{"delete": {}}'], index="i"),
        {"errors": False, "items": [{"index": {"status": 201, "_shards": SHARDS}}, {"delete": {"status": 404}}]},
    ),
    ("GET", "_doc"): (lambda client: client.get(index="i", id="a"), {"found": True, "_source": {}}),
    ("PUT", "_doc"): (lambda client: client.index(index="i", id="a", document={}), WRITTEN),
    ("POST", "_doc"): (lambda client: client.index(index="i", document={}), WRITTEN),
    ("DELETE", "_doc"): (lambda client: client.delete(index="i", id="a"), {**WRITTEN, "result": "deleted"}),
}
SAYS_NOTHING = {("GET", "INDEX"), ("DELETE", "_pit")}
"""Nothing is counted there: what is known of all indices, and memory that is let go of."""


def spoilt(value: Any) -> Iterator[tuple[str, Any]]:
    """Each way in which one thing of an answer, however deep, may say that it is not whole."""
    if isinstance(value, list):
        for at, one in enumerate(value):
            yield from ((f"{at} {how}", [*value[:at], bad, *value[at + 1 :]]) for how, bad in spoilt(one))
        if value:
            yield "one is missing", value[1:]
    if not isinstance(value, dict):
        return
    for name, one in value.items():
        yield from ((f"{name} {how}", {**value, name: bad}) for how, bad in _spoilt_field(name, one))
    if {"timed_out", "found"} & value.keys() or value.keys() in ({"index"}, {"delete"}):
        yield from _with_error(value)


def _spoilt_field(name: str, one: Any) -> Iterator[tuple[str, Any]]:
    if name == "_shards":
        yield "failed", {**one, "successful": 1, "failed": 1, "failures": [{"shard": 0, "reason": REASON}]}
        yield "none", {**one, "successful": 0}
    elif name in ("timed_out", "acknowledged", "blocked", "errors"):
        yield "says so", not one
    elif name == "total":
        yield "is not all", {**one, "relation": "gte"}
    elif name == "indices" and isinstance(one, list):
        yield from ((how, bad) for how, bad in spoilt(one) if bad)  # none: blocked before
    elif name in ("responses", "docs", "items", "hits"):
        yield from spoilt(one)


def _with_error(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if "timed_out" not in value and "found" not in value:
        ((kind, item),) = value.items()
        for status in (400, 429, 500, 503):
            yield f"refused with {status}", {kind: {**item, "status": status, "error": REASON}}
        yield "refused without a status of it", {kind: {**item, "error": REASON}}
        return
    yield "error", {"_id": "a", "error": REASON, "status": 500}


def cases() -> Iterator[Any]:
    for kind, (_, good) in GOOD.items():
        bad = list(spoilt(good))
        if kind not in SAYS_NOTHING:
            bad += [
                (f"without {name}", {other: good[other] for other in good if other != name}) for name in needed(good)
            ]
            bad += [("nothing", {})]
        bad += [("a list", []), ("a text", "so")]
        yield from (pytest.param(kind, body, id=f"{' '.join(kind)}: {how}") for how, body in bad)


def needed(good: dict[str, Any]) -> list[str]:
    """What says that an answer is whole; leaving it out, as a filter of what is sent back does, says nothing."""
    says = ("timed_out", "acknowledged", "responses", "docs", "items", "errors", "result", "found", "id")
    return [name for name in good if name in says or (name == "_shards" and "id" not in good)]


@pytest.fixture(scope="module")
def says() -> Iterator[tuple[Server, dict[str, Any]]]:
    """A server that answers what one tells it to."""
    told: dict[str, Any] = {}
    stand_in = StandIn(lambda *_: (200, told["body"]))
    yield Server(stand_in.url, elastic_client.create_client([stand_in.url], max_retries=0), (), retries=0), told
    stand_in.stop()


def test_every_rule_has_an_answer_here() -> None:
    assert GOOD.keys() == RULES.keys() - {("POST", "_bulk")}  # the client writes with PUT


@pytest.mark.parametrize("kind", GOOD, ids=" ".join)
def test_whole_answers_are_believed(kind: tuple[str, str], says: tuple[Server, dict[str, Any]]) -> None:
    server, told = says
    call, told["body"] = GOOD[kind]
    assert server.try_to(call).body == told["body"]


@pytest.mark.parametrize(("kind", "body"), list(cases()))
def test_no_other_answer_is(kind: tuple[str, str], body: Any, says: tuple[Server, dict[str, Any]]) -> None:
    server, told = says
    told["body"] = body
    with pytest.raises(TroubleError):
        server.try_to(GOOD[kind][0])


def test_what_is_said_of_it(says: tuple[Server, dict[str, Any]]) -> None:
    server, told = says
    told["body"] = {"_shards": {"total": 3, "successful": 1, "failed": 1, "failures": [{"reason": REASON}]}}
    with pytest.raises(
        StoreError,
        match=r"could not refresh: 1 of 3 shards have answered: the disk is gone\. Check GET _cluster/health",
    ):
        server.ask("refresh", GOOD["POST", "_refresh"][0])
    told["body"] = copy.deepcopy(FOUND) | {"aggregations": {"fields": {"buckets": [], "sum_other_doc_count": 7}}}
    with pytest.raises(StoreError, match="there are more fields than it lists"):
        server.ask("count", GOOD["POST", "_search"][0])


# ---------------------------------------------------------------- no way around it


def test_requests_without_a_rule_are_not_sent() -> None:
    stand_in = StandIn(lambda *_: (200, FOUND))
    client = elastic_client.create_client([stand_in.url])
    for call in (
        lambda: client.reindex(source={"index": "i"}, dest={"index": "j"}),
        lambda: client.delete_by_query(index="i", query={}),
        lambda: client.count(index="i"),
        lambda: client.cat.shards(),
        lambda: client.search(index="i"),
        lambda: client.search(index="i", allow_partial_search_results=True),
        lambda: client.msearch(searches=[HEADER, {}, {"index": "i"}, {}]),
        lambda: client.options(ignore_status=404).count(index="i"),
    ):
        with pytest.raises(NotImplementedError):
            call()
    assert stand_in.heard == []
    stand_in.stop()


def test_clients_are_made_in_one_place() -> None:
    makers = {
        (str(file.relative_to(ROOT)), function.name)
        for folder in ("ragindex", "eval", "baselines", "retrievers", "benchmarks")
        for file in (ROOT / folder).rglob("*.py")
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in CLIENTS
    }
    assert makers == {("ragindex/stores/elasticsearch/client.py", "create_client")} | PLUGINS


CLIENTS = {"Elasticsearch", "AsyncElasticsearch", "Transport"}
PLUGINS: set[tuple[str, str]] = set()


# ---------------------------------------------------------------- a real server, with an answer spoilt

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
        seen += [sorted(id for one in reader.scan(()) for id in one.column("id").to_pylist())]
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

        def perform(one: Any, method: str, target: str, **how: Any) -> Any:
            answer = inner(one, method, target, **how)
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


@pytest.mark.slow
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
