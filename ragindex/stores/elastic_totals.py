"""What a whole index holds, in figures that searches need: kept with a finished state, counted anew before."""

from typing import Any

from ragindex.stores.elastic_client import Server

_MOST_KEYS = 5000


def count(server: Server, index: str) -> dict[str, Any]:
    """Count: `records`; `stale` deleted ones that the engine's statistics still hold; of records with text how many
    (`filled`), all their `tokens` and the `longest`; metadata `fields`, and those with several values (`groups`).
    """
    doing = f"count the index {index}"
    aggregations = {
        "filled": {"value_count": {"field": "length"}},
        "tokens": {"sum": {"field": "length"}},
        "longest": {"max": {"field": "length"}},
        "fields": {"terms": {"field": "fields", "size": _MOST_KEYS}},
        "groups": {"terms": {"field": "groups", "size": _MOST_KEYS}},
    }
    server.ask(doing, lambda client: client.indices.refresh(index=index))
    found = server.ask(
        doing, lambda client: client.search(index=index, size=0, aggs=aggregations, track_total_hits=True)
    )
    counts = found["aggregations"]
    return {
        "records": int(found["hits"]["total"]["value"]),
        "stale": figures(server, index)["deleted"],
        **{name: int(counts[name]["value"] or 0) for name in ("filled", "tokens", "longest")},
        **{name: sorted(one["key"] for one in counts[name]["buckets"]) for name in ("fields", "groups")},
    }


def figures(server: Server, index: str) -> dict[str, int]:
    """Documents `deleted` and not yet merged away, and `bytes`, both of the primary shards."""
    answer = server.ask(
        f"measure the index {index}", lambda client: client.indices.stats(index=index, metric="docs,store")
    )
    primaries = answer["_all"]["primaries"]
    return {"deleted": int(primaries["docs"]["deleted"]), "bytes": int(primaries["store"]["size_in_bytes"])}
