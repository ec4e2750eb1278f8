"""A collection whose searches and writes are booked as the store's time."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ragindex.accounting import timing
from ragindex.filters import Filter
from ragindex.interfaces import Collection, InMemoryVectors, Schema, SearchRequest, SearchResult


@dataclass(frozen=True, slots=True)
class MeteredCollection:
    """A collection that books its time as the store's, and holds the lease on the version that it reads."""

    inner: Collection
    lease: object = None

    @property
    def schema(self) -> Schema:
        """What the collection was made with."""
        return self.inner.schema

    @property
    def version(self) -> int:
        """The version read."""
        return self.inner.version

    @property
    def identity(self) -> str:
        """Passed on."""
        return self.inner.identity

    def fields(self) -> tuple[str, ...]:
        """The names of all fields."""
        return self.inner.fields()

    def upsert(self, records: pa.RecordBatch) -> None:
        """Passed on."""
        self.inner.upsert(records)

    def delete(self, ids: Iterable[str]) -> None:
        """Passed on."""
        self.inner.delete(ids)

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
        """Timed."""
        start = time.perf_counter()
        found = self.inner.get(ids, fields)
        timing.add_seconds("store", time.perf_counter() - start)
        return found

    def scan(self, fields: Sequence[str], where: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """Passed on."""
        return self.inner.scan(fields, where)

    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Timed."""
        start = time.perf_counter()
        found = self.inner.search(requests)
        timing.add_seconds("store", time.perf_counter() - start)
        return found

    def resident(self) -> InMemoryVectors | None:
        """Passed on: no engine works when memory is read."""
        return self.inner.resident()

    def count(self) -> int:
        """How many records there are."""
        return self.inner.count()

    def finish(self) -> None:
        """Passed on."""
        self.inner.finish()

    def describe(self) -> Mapping[str, str | int | float]:
        """Passed on."""
        return self.inner.describe()
