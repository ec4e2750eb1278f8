"""Searches of several collections in one round trip."""

import time
from collections.abc import Sequence

from ragindex.accounting import timing
from ragindex.interfaces import Collection, MultiSearchCollection, SearchRequest, SearchResult
from ragindex.stores.metered import MeteredCollection


def search_together(asked: Sequence[tuple[Collection, Sequence[SearchRequest]]]) -> list[list[SearchResult]]:
    """Search several collections, each with its own requests, in one round trip if the store supports it.

    Elasticsearch sends all requests as one `_msearch`; other collections are searched one after the other. The time is
    recorded as store time.
    """
    bare = [(_unwrap(collection), requests) for collection, requests in asked]
    first: object = bare[0][0] if bare else None
    start = time.perf_counter()
    found = first.search_with(bare) if isinstance(first, MultiSearchCollection) else None
    if found is None:
        return [collection.search(requests) for collection, requests in asked]
    timing.add_seconds("store", time.perf_counter() - start)
    return found


def _unwrap(collection: Collection) -> Collection:
    return collection.inner if isinstance(collection, MeteredCollection) else collection
