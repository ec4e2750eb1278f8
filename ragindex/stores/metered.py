"""Collections as methods use them: lookups and searches are timed, and several are searched in one round trip."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ragindex.accounting import timing
from ragindex.filters import Filter
from ragindex.interfaces import Collection, InMemoryVectors, Schema, SearchRequest, SearchResult


@dataclass(frozen=True, slots=True)
class MeteredCollection(Collection):
    """A collection that records lookup and search time as store time, and holds the lease on the version it reads."""

    inner: Collection
    lease: object = None

    @property
    def schema(self) -> Schema:
        """The schema that the collection was created with."""
        return self.inner.schema

    @property
    def version(self) -> int:
        """The version that is read."""
        return self.inner.version

    @property
    def identity(self) -> str:
        """The identity of the inner collection."""
        return self.inner.identity

    def fields(self) -> tuple[str, ...]:
        """Return the names of all fields."""
        return self.inner.fields()

    def upsert(self, records: pa.RecordBatch) -> None:
        """Call the inner collection."""
        self.inner.upsert(records)

    def delete(self, ids: Iterable[str]) -> None:
        """Call the inner collection."""
        self.inner.delete(ids)

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
        """Call the inner collection and record the time."""
        start = time.perf_counter()
        records = self.inner.get(ids, fields)
        timing.add_seconds("store", time.perf_counter() - start)
        return records

    def scan(self, fields: Sequence[str], where: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """Call the inner collection."""
        return self.inner.scan(fields, where)

    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Call the inner collection and record the time."""
        start = time.perf_counter()
        results = self.inner.search(requests)
        timing.add_seconds("store", time.perf_counter() - start)
        return results

    def resident(self) -> InMemoryVectors | None:
        """Call the inner collection. The time is not recorded, because reading memory is no work of the store."""
        return self.inner.resident()

    def count(self) -> int:
        """Return the number of records."""
        return self.inner.count()

    def finish(self) -> None:
        """Call the inner collection."""
        self.inner.finish()

    def describe(self) -> Mapping[str, str | int | float]:
        """Call the inner collection."""
        return self.inner.describe()


def search_together(searches: Sequence[tuple[Collection, Sequence[SearchRequest]]]) -> list[list[SearchResult]]:
    """Search several collections, each with its own requests, in one round trip if the store supports it.

    Elasticsearch sends all requests as one `_msearch`; other collections are searched one after the other. The time is
    recorded as store time.
    """
    bare = [
        (collection.inner if isinstance(collection, MeteredCollection) else collection, requests)
        for collection, requests in searches
    ]
    start = time.perf_counter()
    results = bare[0][0].search_with(bare) if bare else None
    if results is None:
        return [collection.search(requests) for collection, requests in searches]
    timing.add_seconds("store", time.perf_counter() - start)
    return results
