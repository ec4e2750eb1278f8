"""Searching several collections at once, for a step that needs an answer from each before it can go on."""

import time
from collections.abc import Sequence

from ragindex.accounting import timing
from ragindex.interfaces import Collection, MultiSearchCollection, SearchRequest, SearchResult
from ragindex.stores.metered import MeteredCollection


def search_together(asked: Sequence[tuple[Collection, Sequence[SearchRequest]]]) -> list[list[SearchResult]]:
    """Search several collections, each with its requests, in one round trip if the engine can.

    Elasticsearch sends all as one `_msearch`; from memory one is answered after the other. Booked as the store's time.
    """
    bare = [(_bare(collection), requests) for collection, requests in asked]
    first: object = bare[0][0] if bare else None
    start = time.perf_counter()
    found = first.search_with(bare) if isinstance(first, MultiSearchCollection) else None
    if found is None:
        return [collection.search(requests) for collection, requests in asked]
    timing.add_seconds("store", time.perf_counter() - start)
    return found


def _bare(collection: Collection) -> Collection:
    return collection.inner if isinstance(collection, MeteredCollection) else collection
