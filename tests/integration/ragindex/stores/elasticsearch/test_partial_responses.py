"""Answers of which something is missing: failed shards, refused items, time that was over. None is ever believed.

One endpoint after the other, in the words of a server, from a stand-in; a real one: tests/slow.
"""

import ast
import copy
from collections.abc import Iterator
from typing import Any

import pytest
from elasticsearch_stand_in import StandIn
from project import ROOT
from spoilt_answers import FOUND, GOOD, HEADER, REASON, SAYS_NOTHING, spoilt

from ragindex._util.http import RequestProblemError
from ragindex.errors import StoreError
from ragindex.stores.elasticsearch import client as elastic_client
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.responses import RULES

pytest.importorskip("elasticsearch", reason="the extra elasticsearch is not installed")


def bad_answers(kind: tuple[str, str]) -> Iterator[Any]:
    good = GOOD[kind][1]
    yield from (body for _, body in spoilt(good))
    if kind not in SAYS_NOTHING:
        yield from ({other: good[other] for other in good if other != name} for name in needed(good))
        yield {}
    yield from ([], "so")


def needed(good: dict[str, Any]) -> list[str]:
    """What says that an answer is whole; leaving it out, as a filter of what is sent back does, says nothing."""
    says = ("timed_out", "acknowledged", "responses", "docs", "items", "errors", "result", "found", "id")
    return [name for name in good if name in says or (name == "_shards" and "id" not in good)]


@pytest.fixture(scope="module")
def says() -> Iterator[tuple[Server, dict[str, Any]]]:
    """A server that answers what one tells it to."""
    reply: dict[str, Any] = {}
    stand_in = StandIn(lambda *_: (200, reply["body"]))
    yield Server(stand_in.url, elastic_client.create_client([stand_in.url], max_retries=0), (), retries=0), reply
    stand_in.stop()


def test_every_rule_has_an_answer_here() -> None:
    assert GOOD.keys() == RULES.keys() - {("POST", "_bulk")}  # the client writes with PUT


@pytest.mark.parametrize("kind", GOOD, ids=" ".join)
def test_whole_answers_are_believed(kind: tuple[str, str], says: tuple[Server, dict[str, Any]]) -> None:
    server, reply = says
    call, reply["body"] = GOOD[kind]
    assert server.try_to(call).body == reply["body"]


@pytest.mark.parametrize("kind", GOOD, ids=" ".join)
def test_partial_answers_are_not_believed(kind: tuple[str, str], says: tuple[Server, dict[str, Any]]) -> None:
    server, reply = says
    for body in bad_answers(kind):
        reply["body"] = body
        with pytest.raises(RequestProblemError):
            server.try_to(GOOD[kind][0])
            pytest.fail(f"believed: {body}")


def test_what_is_said_of_it(says: tuple[Server, dict[str, Any]]) -> None:
    server, reply = says
    reply["body"] = {"_shards": {"total": 3, "successful": 1, "failed": 1, "failures": [{"reason": REASON}]}}
    with pytest.raises(
        StoreError,
        match=r"could not refresh: 1 of 3 shards have answered: the disk is gone\. Check GET _cluster/health",
    ):
        server.ask("refresh", GOOD["POST", "_refresh"][0])
    reply["body"] = copy.deepcopy(FOUND) | {"aggregations": {"fields": {"buckets": [], "sum_other_doc_count": 7}}}
    with pytest.raises(StoreError, match="there are more fields than it lists"):
        server.ask("count", GOOD["POST", "_search"][0])


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


CLIENTS = {"Elasticsearch", "AsyncElasticsearch", "Transport"}


def test_clients_are_made_in_one_place() -> None:
    makers = {
        (str(file.relative_to(ROOT)), function.name)
        for folder in ("ragindex", "eval", "baselines", "retrievers", "benchmarks")
        for file in (ROOT / folder).rglob("*.py")
        if any(client in (text := file.read_text(encoding="utf-8")) for client in CLIENTS)
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in CLIENTS
    }
    assert makers == {("ragindex/stores/elasticsearch/client.py", "create_client")}
