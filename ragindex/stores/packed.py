"""Collections as Arrow files that are read and never written: the store of a packed retriever.

Each file holds all records of one version of a collection, sorted by id, so that equal records give equal bytes. It is
memory-mapped and searched exactly (`ragindex.stores.memory.search`), without the engine that it was made with.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ragindex._util.cores import search_slot
from ragindex.errors import DamagedError, StoreError, UsageError
from ragindex.filters import Filter
from ragindex.interfaces import (
    Collection,
    FilterQuery,
    InMemoryVectors,
    Schema,
    SearchRequest,
    SearchResult,
    Store,
    StorePlugin,
)
from ragindex.stores.memory.search import MemoryImage
from ragindex.stores.records import LARGE_STRING, LARGE_STRING_LIST, map_arrow_file, narrow, read_schema, widen

_END = ".arrow"
_HEADER = b"ragindex"
_HIDDEN = frozenset({"id", "tokens", "vector"})
_BATCH = 8192


@runtime_checkable
class ImageCollection(Protocol):
    """A collection that can be held in memory as a whole, and therefore packed."""

    def image(self) -> MemoryImage | None:
        """Return all records in memory, or None if they are too many to be searched there."""
        ...


# ---------------------------------------------------------------- writing


def packed_name(collection: str) -> str:
    """Return the name of the file of a collection."""
    return f"{collection}{_END}"


def write_packed(path: Path, image: MemoryImage, version: int, identity: str) -> None:
    """Write the records of a collection to the new file `path`. Raises OSError."""
    order = pc.sort_indices(image.columns["id"])
    columns = {name: column.take(order) for name, column in sorted(image.columns.items())}
    if image.vectors is not None:
        rows = np.ascontiguousarray(image.vectors[order.to_numpy()])
        columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    header = {"schema": asdict(image.schema), "version": version, "identity": identity}
    table = pa.table(columns).replace_schema_metadata({_HEADER: json.dumps(header, sort_keys=True)})
    with path.open("xb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)


# ---------------------------------------------------------------- reading


class Packed(StorePlugin):
    """The store of a packed retriever. It has no parameters and is not registered: nothing can be built in it."""

    def open(self, folder: Path) -> "PackedStore":
        """Open the collections in `folder`."""
        return PackedStore(folder)


@dataclass(slots=True)
class PackedStore(Store):
    """The read-only implementation of ragindex.interfaces.Store."""

    folder: Path
    _opened: dict[str, "PackedCollection"] = field(default_factory=dict)
    _opening: Any = field(default_factory=RLock)

    def create(self, name: str, schema: Schema) -> Collection:
        """Raise UsageError."""
        _refuse_writing()

    def open(self, name: str, version: int) -> "PackedCollection":
        """Open a collection. Raises StoreError if it is not there at this version, DamagedError if it is no Arrow."""
        collection = self._read(name)
        if collection.version != version:
            raise StoreError(f"The packed collection {name} has the version {collection.version}, not {version}.")
        return collection

    def names(self) -> list[str]:
        """Return the names of all collections, sorted."""
        return sorted(path.name.removesuffix(_END) for path in self.folder.glob(f"*{_END}"))

    def version(self, name: str) -> int | None:
        """Return the version of a collection, or None if it does not exist."""
        return self._read(name).version if (self.folder / packed_name(name)).exists() else None

    def clean(self, name: str, pinned: Set[int]) -> None:
        """Raise UsageError."""
        _refuse_writing()

    def drop(self, name: str) -> None:
        """Raise UsageError."""
        _refuse_writing()

    def lease(self, owner: str) -> AbstractContextManager[None]:
        """Raise UsageError."""
        _refuse_writing()

    def _read(self, name: str) -> "PackedCollection":
        with self._opening:
            if name not in self._opened:
                self._opened[name] = _read_packed(self.folder / packed_name(name), name)
            return self._opened[name]


class PackedCollection(Collection):
    """The read-only implementation of ragindex.interfaces.Collection."""

    def __init__(self, path: Path, table: pa.Table, schema: Schema, version: int, identity: str) -> None:
        self.path, self.table = path, table
        self._schema, self._version, self._identity = schema, version, identity

    @property
    def schema(self) -> Schema:
        """The schema that the collection was created with."""
        return self._schema

    @property
    def version(self) -> int:
        """The version that was packed."""
        return self._version

    @property
    def identity(self) -> str:
        """The identity of the collection that was packed."""
        return self._identity

    def image(self) -> MemoryImage:
        """Return all records, mapped from the file. Raises DamagedError unless vectors have the declared length."""
        return self._image

    @cached_property
    def _image(self) -> MemoryImage:
        vectors = None
        try:
            if self.schema.dimensions is not None:
                column = self.table.column("vector").combine_chunks()
                chunk = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
                numbers = chunk.flatten().to_numpy(zero_copy_only=False)
                vectors = numbers.reshape(len(self.table), self.schema.dimensions)
        except (ValueError, KeyError) as error:
            raise _damaged(self.path, error) from error
        bare = self.table.drop_columns(["vector"]) if "vector" in self.table.column_names else self.table
        return MemoryImage(self.schema, bare, vectors)

    def fields(self) -> tuple[str, ...]:
        """Return the names of all fields, including `meta.` fields, without id, vector and tokens."""
        return tuple(name for name in self.table.column_names if name not in _HIDDEN)

    def upsert(self, records: pa.RecordBatch) -> None:
        """Raise UsageError."""
        _refuse_writing()

    def delete(self, ids: Iterable[str]) -> None:
        """Raise UsageError."""
        _refuse_writing()

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
        """Return the existing records among `ids`, in that order."""
        with search_slot():
            return self._image.get(ids, fields)

    def scan(self, fields: Sequence[str], where: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the records that pass `where`, sorted by id."""
        (result,) = self.search([FilterQuery(where, len(self.table), tuple(fields))])
        for start in range(0, len(result.ids), _BATCH):
            yield narrow(result.records.slice(start, _BATCH))

    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Answer requests exactly, from memory."""
        with search_slot():
            return self._image.search(requests)

    def resident(self) -> InMemoryVectors | None:
        """Return the vectors, or None if the collection has none."""
        image = self._image
        return None if image.vectors is None else InMemoryVectors(image.columns["id"], image.vectors)

    def count(self) -> int:
        """Return the number of records."""
        return len(self.table)

    def finish(self) -> None:
        """Raise UsageError."""
        _refuse_writing()

    def describe(self) -> Mapping[str, str | int | float]:
        """Return how searches are answered (`search`) and the `bytes` on disk."""
        return {"search": "exact, from memory", "bytes": self.path.stat().st_size}


def _read_packed(path: Path, name: str) -> PackedCollection:
    try:
        table = map_arrow_file(path)
        header = json.loads(table.schema.metadata[_HEADER])
        schema = read_schema(header["schema"])
        _require_columns(table, schema)
        return PackedCollection(path, table, schema, int(header["version"]), str(header["identity"]))
    except FileNotFoundError as error:
        raise StoreError(f"The packed retriever in {path.parents[2]} has no collection {name}.") from error
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise _damaged(path, error) from error


def _require_columns(table: pa.Table, schema: Schema) -> None:
    """Raise ValueError unless the columns are those of the schema, and metadata."""
    texts = dict.fromkeys(("id", *schema.stored, *(["tokens"] if schema.text else [])), LARGE_STRING)
    expected = texts | dict.fromkeys(schema.keywords, LARGE_STRING_LIST) | dict.fromkeys(schema.numbers, pa.float64())
    types = {field.name: field.type for field in widen(table.slice(0, 0)).schema if field.name != "vector"}
    lacking = [name for name, kind in expected.items() if types.get(name) != kind]
    unknown = [
        name
        for name, kind in types.items()
        if name not in expected and not (name.startswith("meta.") and kind == LARGE_STRING_LIST)
    ]
    if lacking or unknown:
        raise ValueError(f"its columns are not those of its schema: {', '.join([*lacking, *unknown])}")


def _damaged(path: Path, error: Exception) -> DamagedError:
    return DamagedError(f"{path} is not a packed collection: {' '.join(str(error).split())[:300]}")


def _refuse_writing() -> NoReturn:
    raise UsageError("A packed retriever cannot be changed. Change the index that it was made from, and export again.")
