"""A reader's view of one index, and scans of all its records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from ragindex.filters import Filter
from ragindex.interfaces import Schema
from ragindex.stores.elasticsearch import filters
from ragindex.stores.elasticsearch.client import Server
from ragindex.stores.elasticsearch.records import build_batch, check_fields, source_fields

_KEEP_ALIVE = "10m"
"""The time for which the server keeps a point in time between two batches."""


@dataclass(frozen=True, slots=True)
class IndexView:
    """The view that a search has of an index, including its totals (see `totals`)."""

    server: Server
    index: str
    name: str
    schema: Schema
    shards: int
    analyser: str | None
    vectors: str
    totals: Mapping[str, Any]
    candidates: int

    def query(self, where: Filter | None) -> dict[str, Any]:
        """Translate a filter to a query."""
        return filters.translate_filter(where, self.schema, frozenset(self.totals["groups"]))


def scan_view(view: IndexView, fields: Sequence[str], where: Filter | None) -> Iterator[pa.RecordBatch]:
    """Yield all records that pass `where`, as of the first batch."""
    check_fields(fields, view.schema)
    doing, query = f"read the collection {view.name}", view.query(where)
    size = _choose_batch_size(view.schema, fields)
    point = view.server.ask(doing, lambda client: client.open_point_in_time(index=view.index, keep_alive=_KEEP_ALIVE))[
        "id"
    ]
    after: Any = None
    try:
        while True:
            ask = partial(_fetch_page, point=point, query=query, size=size, fields=fields, after=after)
            answer = view.server.ask(doing, ask)
            hits = answer["hits"]["hits"]
            point = answer.get("pit_id", point)
            if hits:
                yield build_batch([hit["_source"] for hit in hits], fields, view.schema)
            if len(hits) < size:
                return
            after = hits[-1]["sort"]
    finally:
        view.server.ask(doing, lambda client: client.close_point_in_time(id=point))


def _fetch_page(client: Any, point: str, query: Any, size: int, fields: Sequence[str], after: Any) -> Any:
    return client.search(
        pit={"id": point, "keep_alive": _KEEP_ALIVE},
        query=query,
        size=size,
        sort=[{"_shard_doc": "asc"}],
        source=source_fields(fields),
        search_after=after,
        track_total_hits=False,
        allow_partial_search_results=False,
    )


def _choose_batch_size(schema: Schema, fields: Sequence[str]) -> int:
    """Return the number of records per batch, for about 8 MiB of JSON."""
    numbers = (schema.dimensions or 0) if "vector" in fields else 0
    return max(50, min(4000, (8 << 20) // (2000 + 22 * numbers)))
