"""Whole answers of an Elasticsearch server to each kind of request, and all ways in which one may not be whole."""

from collections.abc import Callable, Iterator
from typing import Any

from elasticsearch_stand_in import INFO

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
        for at, part in enumerate(value):
            yield from ((f"{at} {how}", [*value[:at], bad, *value[at + 1 :]]) for how, bad in spoilt(part))
        if value:
            yield "one is missing", value[1:]
    if not isinstance(value, dict):
        return
    for name, part in value.items():
        yield from ((f"{name} {how}", {**value, name: bad}) for how, bad in _spoilt_field(name, part))
    if {"timed_out", "found"} & value.keys() or value.keys() in ({"index"}, {"delete"}):
        yield from _with_error(value)


def _spoilt_field(name: str, field: Any) -> Iterator[tuple[str, Any]]:
    if name == "_shards":
        yield "failed", {**field, "successful": 1, "failed": 1, "failures": [{"shard": 0, "reason": REASON}]}
        yield "none", {**field, "successful": 0}
    elif name in ("timed_out", "acknowledged", "blocked", "errors"):
        yield "says so", not field
    elif name == "total":
        yield "is not all", {**field, "relation": "gte"}
    elif name == "indices" and isinstance(field, list):
        yield from ((how, bad) for how, bad in spoilt(field) if bad)  # none: blocked before
    elif name in ("responses", "docs", "items", "hits"):
        yield from spoilt(field)


def _with_error(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if "timed_out" not in value and "found" not in value:
        ((kind, item),) = value.items()
        for status in (400, 429, 500, 503):
            yield f"refused with {status}", {kind: {**item, "status": status, "error": REASON}}
        yield "refused without a status of it", {kind: {**item, "error": REASON}}
        return
    yield "error", {"_id": "a", "error": REASON, "status": 500}
