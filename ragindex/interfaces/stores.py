"""Stores: engines with named, versioned collections of records, which are searched by words, vectors and filters."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ragindex.errors import EngineError
from ragindex.filters import Filter
from ragindex.interfaces.encoders import Floats
from ragindex.plugins.base import Plugin

RecordBatch: TypeAlias = pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of a collection, without `id` and the `meta.KEY` fields, which may be added at any time.

    `stored` fields are strings that are returned with results; `keywords` are lists of strings, returned too and used
    in filters; `numbers` are float64. The stored fields in `text` are joined by newlines, analysed in `language`, and
    searched by `TextQuery`. With `dimensions`, records have a float32 `vector` of that length, searched by
    `VectorQuery` (cosine).
    """

    stored: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    language: str = "english"
    dimensions: int | None = None


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """A request for the `k` records with the highest cosine to `vector`; zero vectors neither find nor are found."""

    vector: Floats
    k: int
    fields: tuple[str, ...] = ()
    where: Filter | None = None


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A request for the `k` records with the highest BM25 score for `text`; they share at least one token with it."""

    text: str
    k: int
    fields: tuple[str, ...] = ()
    where: Filter | None = None


@dataclass(frozen=True, slots=True)
class FilterQuery:
    """A request for the first `k` records, sorted by id, that match `where`; their score is 0."""

    where: Filter | None
    k: int
    fields: tuple[str, ...] = ()


SearchRequest: TypeAlias = VectorQuery | TextQuery | FilterQuery


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one request: ids, best first (equal scores by id), their scores, and the requested fields."""

    ids: list[str]
    scores: npt.NDArray[np.float64]
    records: RecordBatch


@dataclass(frozen=True, slots=True)
class InMemoryVectors:
    """Vectors in memory, shape (n, dimensions), float32 or float16: row i belongs to the record `ids[i]`."""

    ids: pa.Array
    vectors: Floats


class Collection(ABC):
    """Base class of sets of records with one schema in a store."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The schema that the collection was created with."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The version to pass to `Store.open` to read the current records; increases with every write."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """A string that differs from that of a dropped collection of the same name, whose versions may be equal."""

    @abstractmethod
    def fields(self) -> tuple[str, ...]:
        """Return the names of all fields except `id` and `vector`, including the `meta.KEY` fields of records."""

    @abstractmethod
    def upsert(self, records: RecordBatch) -> None:
        """Add records, replacing those with the same id; durable on return. Missing `meta.KEY` fields become null."""

    @abstractmethod
    def delete(self, ids: Iterable[str]) -> None:
        """Remove records; unknown ids are ignored."""

    @abstractmethod
    def get(self, ids: Sequence[str], fields: Sequence[str]) -> RecordBatch:
        """Return the existing records among `ids`, in that order, with `id` and `fields`."""

    @abstractmethod
    def scan(self, fields: Sequence[str], where: Filter | None = None) -> Iterator[RecordBatch]:
        """Yield all records that match `where`, with `id` and `fields`, in bounded batches, in no defined order."""

    @abstractmethod
    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Answer all requests in one round trip, in order."""

    def search_with(
        self, searches: Sequence[tuple["Collection", Sequence[SearchRequest]]]
    ) -> list[list[SearchResult]] | None:
        """Search each collection of `searches`, in order, in one round trip (ragindex.stores.metered).

        Return None if one of them belongs to another engine. Default: None, as of an engine without such requests.
        """
        return None

    @abstractmethod
    def resident(self) -> InMemoryVectors | None:
        """Return all vectors if the engine holds them in memory, else None. Callers must not write to them."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of records."""

    @abstractmethod
    def finish(self) -> None:
        """Update the statistics and indexes that searches use. Call it after the last write."""

    @abstractmethod
    def describe(self) -> Mapping[str, str | int | float]:
        """Describe how searches run (`search`: exact or approximate, in memory or not) and the `bytes` on disk."""


class Store(ABC):
    """Base class of storage engines with named, versioned collections."""

    @abstractmethod
    def create(self, name: str, schema: Schema) -> Collection:
        """Open the newest state of `name` for writing, or create it. Raises if it was created with another schema."""

    @abstractmethod
    def open(self, name: str, version: int) -> Collection:
        """Open `name` read-only in its state at `version`. A version can be opened after the next `Collection.finish`.

        A store may keep finished states only: a version before `finish` then opens the newest state, or raises.
        """

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all collections, sorted."""

    @abstractmethod
    def version(self, name: str) -> int | None:
        """Return the newest version of `name`, or None if there is no such collection."""

    @abstractmethod
    def clean(self, name: str, pinned: Set[int]) -> None:
        """Remove the versions of `name` that are neither in `pinned` nor the newest; nobody reads them any more.

        The caller holds the lease. Unknown versions in `pinned` are ignored.
        """

    @abstractmethod
    def drop(self, name: str) -> None:
        """Remove a collection; do nothing if it does not exist."""

    @abstractmethod
    def lease(self, owner: str) -> AbstractContextManager[None]:
        """Acquire the exclusive right to write. Raises WriterBusyError, which names the holder, if it is taken."""

    def is_being_written(self) -> bool:
        """Return whether another process holds the writer's lease, as far as that can be told without taking it."""
        return False

    # What a store can do for collections whose files are damaged. Defaults: those of a store on a server.

    keeps_files: bool = False
    """Whether collections are files in the index's folder, which `find_changed_file`, `rescue` and `set_aside` read."""

    def find_changed_file(self, name: str) -> str | None:
        """Describe a file of a collection that has changed since it was written, or return None. Raises EngineError."""
        return None

    def rescue(self, name: str, version: int) -> Iterator[pa.Table]:
        """Yield the records of a version that can be read, with all their fields. Raises EngineError if none can."""
        raise EngineError(f"The collection {name} has no files that could be read in part.")

    def set_aside(self, name: str) -> Path | None:
        """Move a collection's files out of the way and return their new path."""
        return None


class StorePlugin(Plugin):
    """Base class of a store's parameters."""

    @property
    def finishes_by(self) -> Mapping[str, Any]:
        """The parameters that `Collection.finish` depends on; if they change, the next sync calls it again."""
        return {}

    @abstractmethod
    def open(self, folder: Path) -> Store:
        """Open the engine; an embedded engine keeps its files under `folder`."""
