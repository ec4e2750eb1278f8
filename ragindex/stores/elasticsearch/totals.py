"""The totals of an index that searches need: stored with a finished state, counted for an unfinished one."""

from collections.abc import Mapping, Sequence
from typing import Any

from ragindex.errors import StoreError
from ragindex.stores.elasticsearch.client import Server

_MAX_KEYS = 30_000
"""The most metadata keys to list. The server allows 65,536 buckets; a truncated list is rejected (see `responses`)."""


def count_totals(server: Server, index: str, shards: int) -> dict[str, Any]:
    """Count the totals of an index.

    Returns the number of `records`; of `stale` ones, which are deleted but still in the server's statistics; of records
    with text (`filled`), their `tokens` and the `longest`; the metadata `fields`, and those with several values
    (`groups`).
    """
    doing = f"count the index {index}"
    aggregations = {
        "filled": {"value_count": {"field": "length"}},
        "tokens": {"sum": {"field": "length"}},
        "longest": {"max": {"field": "length"}},
        "fields": {"terms": {"field": "fields", "size": _MAX_KEYS}},
        "groups": {"terms": {"field": "groups", "size": _MAX_KEYS}},
    }
    server.ask(doing, lambda client: client.indices.refresh(index=index))
    found = server.ask(
        doing,
        lambda client: client.search(
            index=index, size=0, aggs=aggregations, track_total_hits=True, allow_partial_search_results=False
        ),
    )
    counts = found["aggregations"]
    return {
        "records": int(found["hits"]["total"]["value"]),
        "stale": read_disk_figures(server, index, shards)["deleted"],
        **{name: int(counts[name]["value"] or 0) for name in ("filled", "tokens", "longest")},
        **{name: sorted(one["key"] for one in counts[name]["buckets"]) for name in ("fields", "groups")},
    }


def read_disk_figures(server: Server, index: str, shards: int) -> dict[str, int]:
    """Return the number of `deleted` documents not yet merged away, and the `bytes`, of the primary shards."""
    asked = ("docs.deleted", "store.size_in_bytes")
    held = read_primary_shards(server, f"measure the index {index}", index, shards, "docs,store", asked)
    return {
        "deleted": sum(int(one["docs"]["deleted"]) for one in held),
        "bytes": sum(int(one["store"]["size_in_bytes"]) for one in held),
    }


def read_primary_shards(
    server: Server, doing: str, index: str, shards: int, metric: str, fields: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the statistics of each primary shard. Raises StoreError if one of the `shards` is unavailable.

    The server's own sums silently leave out shards that it cannot reach.
    """
    wanted = ("routing.primary", *fields)
    answer = server.ask(
        doing,
        lambda client: client.indices.stats(
            index=index,
            level="shards",
            metric=metric,
            filter_path=["_shards", *(f"indices.*.shards.*.{field}" for field in wanted)],
        ),
    )
    copies = [copy for one in answer.get("indices", {}).values() for held in one["shards"].values() for copy in held]
    parts = [field.partition(".")[0] for field in fields]
    held = [copy for copy in copies if copy["routing"]["primary"] and all(part in copy for part in parts)]
    if len(held) < shards:
        raise StoreError(
            f"{len(held)} of {shards} shards of the index {index} at {server.where} answer. "
            "Check GET _cluster/health, and run the command again once no index is red."
        )
    return held
