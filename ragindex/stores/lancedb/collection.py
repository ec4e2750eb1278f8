"""Collections of LanceDB: tables that are written, read and searched, from memory or through LanceDB's indexes.

Collections that fit the memory budget are searched exactly in memory (`ragindex.stores.memory.search`); larger ones
through postings and LanceDB's index of vectors (`ragindex.stores.lancedb.index`). LanceDB, whose import takes a second,
is imported when it is first needed: readers of small collections load copies of them (`ragindex.stores.lancedb.files`).
"""

import json
import math
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ragindex._util.cores import search_slot
from ragindex.errors import UsageError
from ragindex.filters import MAPPING, Filter, Ids, refuse_mappings
from ragindex.filters import fields as list_fields
from ragindex.interfaces import Collection, InMemoryVectors, Schema, SearchRequest, SearchResult
from ragindex.stores.lancedb import files, sql
from ragindex.stores.lancedb.engine import fetch_batches, load_lancedb, read_around_damage, wait, wrap_engine_errors
from ragindex.stores.lancedb.files import Copy, map_array
from ragindex.stores.memory.search import MemoryImage
from ragindex.stores.records import (
    column_name,
    combine_chunks,
    field_name,
    read_schema,
    select_columns,
    table_rows,
    widen,
)

if TYPE_CHECKING:
    from ragindex.stores.lancedb.index import SearchTable

_GIB = 1 << 30
_TEXT_FACTOR = 2.0
"""Bytes in memory for each byte of text, including its sparse index (measured, rounded up)."""
_SAMPLE_RECORDS = 1000
_SAMPLE_BYTES = 64 << 20
_BATCH = 8192
"""Records that are read at once."""
_LOOKUPS_FROM = 20_000
"""The number of records from which ids and keywords get an index; below it, a scan is as fast."""
_INDEX_MEMORY_SHARE = 0.25
"""The share of the memory budget above which a collection is indexed, because others may use up the budget first."""
_DELETE_BLOCK = 10_000
"""Records per deletion. Each deletion costs a pass over the collection and a version, whatever its size."""
_MAX_KEYS = 1000
"""The most metadata keys that a collection can filter by; each is a column."""


@dataclass(slots=True)
class Database:
    """The folder of a store's tables, open in LanceDB, and the collections in memory, up to `memory_gib`.

    A memory image is shared by all readers of one version of a collection.
    """

    folder: Path
    memory_gib: float
    float16: bool
    mmap: bool
    images: "weakref.WeakValueDictionary[tuple[str, int], MemoryImage]" = field(
        default_factory=weakref.WeakValueDictionary
    )
    loading: Any = field(default_factory=RLock)
    _connection: Any = None

    @property
    def connection(self) -> Any:
        """The asynchronous LanceDB connection: one step into its thread for a whole operation (see `engine`)."""
        if self._connection is None:
            # absolute, because LanceDB would expand a relative `~`
            self._connection = wait(load_lancedb().connect_async(self.folder.absolute()))
        return self._connection

    def place(self, name: str) -> Path:
        """Return the folder of a collection's files."""
        return self.folder / f"{name}.lance"

    def fits(self, collection: "LanceCollection") -> bool:
        """Return whether the collection fits the memory budget next to the images already held."""
        with self.loading:
            used = sum(self._measure(image) for image in self.images.values())
        return used + collection.estimate() <= self.memory_gib * _GIB

    def image(self, collection: "LanceCollection") -> MemoryImage | None:
        """Return the collection's memory image, or None if it does not fit the memory budget."""
        with self.loading:
            key = (collection.identity, collection.version)
            image = self.images.get(key)
            if image is not None:
                return image
            with wrap_engine_errors(f"read the collection {collection.name} into memory"):
                if not self.fits(collection):
                    return None
                image = collection.load()
            return self.images.setdefault(key, image)

    def _measure(self, image: MemoryImage) -> int:
        vectors = 0 if image.vectors is None or self.mmap else image.vectors.nbytes
        return int(image.table_bytes * _TEXT_FACTOR) + vectors


@dataclass(slots=True)
class LanceCollection(Collection):
    """The LanceDB implementation of ragindex.interfaces.Collection."""

    database: Database
    name: str
    pinned: int | None = None
    """The version that is read; None: the newest, which a writer changes."""
    copy: Copy | None = None
    _opened: Any = None
    _schema: Schema | None = None
    _ids: set[str] | None = None
    _image: MemoryImage | None = None
    _estimate: int | None = None
    _table: "SearchTable | None" = None
    _columns: pa.Schema | None = None
    _comparable: set[str] = field(default_factory=set)
    """Fields of metadata that are a mapping in no record."""

    @property
    def table(self) -> Any:
        """The asynchronous LanceDB table."""
        if self._opened is None:
            self._opened, columns = wait(_open_table(self.database.connection, self.name, self.pinned))
            if self.copy is None:
                self._columns = columns
        return self._opened

    @property
    def schema(self) -> Schema:
        """The schema, stored in the table's metadata."""
        if self._schema is None:
            self._schema = read_schema(self._read_stored())
        return self._schema

    @property
    def identity(self) -> str:
        """The identity, stored in the table's metadata."""
        return str(self._read_stored()["identity"])

    def _read_stored(self) -> dict[str, Any]:
        """Return the schema and the identity. Raises EngineError, also if a byte of them has changed."""
        with wrap_engine_errors(f"read the schema of the collection {self.name}"):
            stored: dict[str, Any] = json.loads((self.columns.metadata or {}).get(b"ragindex", b""))
            missing = {"identity", *Schema.__dataclass_fields__} - stored.keys()
            if missing:
                raise ValueError(f"it has no {min(missing)}")
        return stored

    @property
    def columns(self) -> pa.Schema:
        """The table's Arrow schema, cached because reading it takes LanceDB longer than a small query."""
        if self._columns is None and self.copy is not None:
            self._columns = self.copy.schema
        elif self._columns is None:
            table = self.table  # opening it reads the schema
            if self._columns is None:
                self._columns = wait(table.schema())
        return self._columns

    @property
    def version(self) -> int:
        """The version that is read; a writer's version increases with every write."""
        return int(wait(self.table.version())) if self.pinned is None else self.pinned

    def fields(self) -> tuple[str, ...]:
        """Return the names of all fields, including `meta.` fields, without id, vector and tokens."""
        hidden = {"id", "vector", "tokens"}
        return tuple(field_name(name) for name in self.columns.names if name not in hidden)

    def upsert(self, records: pa.RecordBatch) -> None:
        """Add or replace records. Raises UsageError if fields are missing, StoreError if writing fails."""
        with wrap_engine_errors(f"write to the collection {self.name}"):
            self._add_columns(records)
            rows = table_rows(records, self.schema, self.columns, self.name)
            if len(rows) == 0:
                return
            ids = rows.column("id").to_pylist()
            if self._existing(ids):
                merge = self.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
                wait(merge.execute(rows))
            else:
                wait(self.table.add(rows))
            if self._ids is not None:
                self._ids.update(ids)
            self._image = self._estimate = self._table = None
            self._comparable.clear()

    def delete(self, ids: Iterable[str]) -> None:
        """Delete records by id, in blocks; each block makes a new version."""
        all_ids = list(ids)
        with wrap_engine_errors(f"remove records of the collection {self.name}"):
            for start in range(0, len(all_ids), _DELETE_BLOCK):
                wait(self.table.delete(self._condition(Ids(tuple(all_ids[start : start + _DELETE_BLOCK])))))
        if self._ids is not None:
            self._ids.difference_update(all_ids)
        self._image = self._estimate = self._table = None

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
        """Return records by id, from the memory image if there is one, or from a copy of the collection, or LanceDB."""
        image = self._image if self.copy is None else self.image()
        with search_slot(), wrap_engine_errors(f"read the collection {self.name}"):
            if image is not None:
                return image.get(ids, fields)
            tables = [self._read(fields, Ids(tuple(ids[start : start + 1000]))) for start in range(0, len(ids), 1000)]
            records = pa.concat_tables(tables) if tables else self._read(fields, Ids(()))
            place = {id: row for row, id in enumerate(records.column("id").to_pylist())}
            order = pa.array([place[id] for id in ids if id in place], pa.int64())
            return combine_chunks(records.take(order))

    def scan(self, fields: Sequence[str], where: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the records that pass `where`, in LanceDB's batches."""
        with wrap_engine_errors(f"read the collection {self.name}"):
            batches = fetch_batches(self.table, self._query(fields, where), _BATCH)
        while True:
            with wrap_engine_errors(f"read the collection {self.name}"):
                batch = next(batches, None)
            if batch is None:
                return
            yield select_columns(batch, ("id", *fields))

    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Answer requests from memory within the budget, else through indexes on disk."""
        image = self.image()
        with search_slot(), wrap_engine_errors(f"search the collection {self.name}"):
            return _search_tables([(self, requests)])[0] if image is None else image.search(requests)

    def search_with(
        self, searches: Sequence[tuple[Collection, Sequence[SearchRequest]]]
    ) -> list[list[SearchResult]] | None:
        """Search several collections, those beyond memory at once. Return None if one is not in LanceDB."""
        ours = [(other, requests) for other, requests in searches if isinstance(other, LanceCollection)]
        if len(ours) < len(searches):
            return None
        images = [other.image() for other, _ in ours]
        beyond = [search for search, image in zip(ours, images, strict=True) if image is None]
        with search_slot(), wrap_engine_errors(f"search the collection {self.name} and others"):
            results = iter(_search_tables(beyond) if beyond else ())
            return [
                next(results) if image is None else image.search(requests)
                for (_, requests), image in zip(ours, images, strict=True)
            ]

    def resident(self) -> InMemoryVectors | None:
        """Return the vectors in memory, or None if the collection exceeds the memory budget or has no vectors."""
        image = self.image()
        return None if image is None or image.vectors is None else InMemoryVectors(image.columns["id"], image.vectors)

    def image(self) -> MemoryImage | None:
        """Return all records in memory, or None if they exceed the memory budget."""
        if self._image is None:
            self._image = self.database.image(self)
        return self._image

    def count(self) -> int:
        """Return the number of records."""
        with wrap_engine_errors(f"count the records of the collection {self.name}"):
            return int(wait(self.table.count_rows()))

    def finish(self) -> None:
        """Compact the table, build the indexes that searches will use, copy a small collection, and hash new files.

        Indexes that lack many records are rebuilt.
        """
        from ragindex.stores.lancedb import maintenance

        with wrap_engine_errors(f"finish the collection {self.name}"):
            version, count = wait(_read_state(self.table))
            if maintenance.compact_table(self.table, self._folder, version):
                version, count = wait(_read_state(self.table))
            if count >= _LOOKUPS_FROM:
                maintenance.build_scalar_indexes(self.table, self.schema)
                version = self.version
            if self.schema.text or self.schema.keywords or self.schema.dimensions:
                self._prepare_searches(version, count)
            files.hash_new_files(self._folder)
            self._table = None

    def _prepare_searches(self, version: int, count: int) -> None:
        """Build the search indexes if the collection may exceed the memory budget, else copy it if readers want that.

        The texts of a small collection are read once, for its estimate and its copy.
        """
        from ragindex.stores.lancedb import maintenance

        texts = None
        if count <= _SAMPLE_RECORDS and not self.schema.dimensions:
            texts = self._read_texts()
            self._estimate = int(texts.nbytes * _TEXT_FACTOR)
        size = self.estimate()
        if size > _INDEX_MEMORY_SHARE * self.database.memory_gib * _GIB:
            maintenance.build_search_indexes(self.table, self._folder, self.schema)
            return
        needs_copy = files.wants_copy(self.schema, int(size / _TEXT_FACTOR))
        if needs_copy and files.find_copy(self._folder, version) is None:
            records = self._read_texts() if texts is None else texts
            files.write_copy(self._folder, version, records, self.columns.metadata)

    def describe(self) -> Mapping[str, str | int | float]:
        """Return how searches are answered (`search`) and the `bytes` on disk of this version, including indexes."""
        database = self.database
        with wrap_engine_errors(f"look at the collection {self.name}"):
            in_memory = self._image is not None or self.database.fits(self)
            now = files.read_version(self._folder, self.version)
            text = files.find_text_index(now)
            bases = [] if text is None else [files.read_version(self._folder, text.made_from)]
            size = sum(files.list_needed_files(self._folder, [now, *bases]).values())
        holding = max(0.1, math.ceil(10 * self.estimate() / _GIB) / 10)
        beyond = (
            f"{'approximate' if self.schema.dimensions else 'exact'}, indexes on disk "
            f"(over {database.memory_gib:g} GiB; alone it takes memory_gib={holding:g})"
        )
        storage = "float16, " * database.float16 + "memory-mapped, " * database.mmap
        search = f"exact, {storage}from memory" if in_memory else beyond
        return {"search": search, "bytes": size}

    @property
    def _folder(self) -> Path:
        return self.database.place(self.name)

    # ------------------------------------------------------------ memory

    def estimate(self) -> int:
        """Return the estimated bytes of this collection in memory, from its first 1000 records or 64 MiB."""
        if self._estimate is None and self.copy is not None:
            self._estimate = int(self.copy.bytes * _TEXT_FACTOR)
        if self._estimate is None:
            rows = size = 0
            with wrap_engine_errors(f"read the collection {self.name}"):
                texts = self._select(self._text_columns()).limit(_SAMPLE_RECORDS)
                for batch in fetch_batches(self.table, texts, 100):
                    rows, size = rows + len(batch), size + batch.nbytes
                    if size > _SAMPLE_BYTES:
                        break
            text = size / max(1, rows) * _TEXT_FACTOR
            bytes_a_number = 2 if self.database.float16 else 4
            vectors = 0 if self.database.mmap else (self.schema.dimensions or 0) * bytes_a_number
            self._estimate = int(self.count() * (text + vectors))
        return self._estimate

    def load(self) -> MemoryImage:
        """Read the whole collection into memory; vectors are mapped from a file if the store's `mmap` is set."""
        table = self._read_texts() if self.copy is None else self.copy.read()
        table = widen(table.rename_columns([field_name(name) for name in table.column_names])).combine_chunks()
        return MemoryImage(self.schema, table, self._load_vectors())

    def read_readable(self) -> Iterator[pa.Table]:
        """Yield the records that can be read although others are damaged, without their vectors."""
        columns = self._text_columns()

        def read(rows: Sequence[int]) -> pa.Table:
            with wrap_engine_errors(f"read the collection {self.name}"):
                return wait(self.table.take_offsets(list(rows)).select(columns).to_arrow())

        return read_around_damage(read, self.count())

    def _read_texts(self) -> pa.Table:
        """Read all records without their vectors."""
        return wait(self._select(self._text_columns()).to_arrow())

    def _load_vectors(self) -> Any:
        if self.schema.dimensions is None:
            return None
        shape, dtype = (self.count(), self.schema.dimensions), np.float16 if self.database.float16 else np.float32
        if not self.database.mmap:
            return self._fill(np.empty(shape, dtype=dtype))
        state = f"{self.identity}-{self.version}-{np.dtype(dtype).name}"

        def write(path: Path) -> None:
            self._fill(np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)).flush()

        return map_array(self.database.folder / "mapped", self.name, state, write)

    def _fill(self, vectors: Any) -> Any:
        at = 0
        for batch in fetch_batches(self.table, self._select(["vector"]), _BATCH):
            values = batch.column(0).flatten().to_numpy(zero_copy_only=False)
            vectors[at : at + len(batch)] = values.reshape(len(batch), -1)
            at += len(batch)
        return vectors

    def _text_columns(self) -> list[str]:
        return [name for name in self.columns.names if name != "vector"]

    # ------------------------------------------------------------ records

    def _existing(self, ids: list[str]) -> bool:
        """Return whether one of `ids` exists. If none does, records are added, which costs no pass over the table."""
        if self._ids is None and len(ids) <= 64:
            return bool(wait(_has_any(self.table, self._condition(Ids(tuple(ids))))))
        if self._ids is None:
            self._ids = set(self._read(()).column("id").to_pylist())
        return not self._ids.isdisjoint(ids)

    def _add_columns(self, records: pa.RecordBatch) -> None:
        columns = [column_name(name) for name in records.schema.names if name.startswith("meta.")]
        new = [pa.field(name, pa.list_(pa.string())) for name in columns if name not in self.columns.names]
        if new and len(new) + len(self.columns.names) > _MAX_KEYS:
            self._free_columns(
                records.column("id").to_pylist(), columns, len(new) + len(self.columns.names) - _MAX_KEYS
            )
        if new:
            wait(self.table.add_columns(new))
            self._columns = None

    def _free_columns(self, ids: list[str], fields: Sequence[str], count: int) -> None:
        """Remove the columns of metadata keys that no record has once the records `ids` are replaced.

        The replaced records go first, because they may be the last that have them. Raises UsageError, with nothing
        removed, if that frees less than `count` columns.
        """
        metadata = [name for name in self.columns.names if field_name(name).startswith("meta.")]
        others = f"NOT ({self._condition(Ids(tuple(ids)))})"
        unused = [
            name
            for name in metadata
            if name not in fields and not wait(self.table.count_rows(f"{name} IS NOT NULL AND {others}"))
        ]
        if len(unused) < count:
            raise UsageError(
                f"A collection has at most {_MAX_KEYS} metadata keys to filter by; {self.name} would have more. "
                "Put values that nothing filters by under one key, as a mapping."
            )
        self.delete(ids)
        wait(self.table.drop_columns(unused))
        self._columns = None

    def _select(self, columns: list[str]) -> Any:
        return self.table.query().select(columns)

    def _query(self, fields: Sequence[str], where: Filter | None) -> Any:
        present = set(self.columns.names)
        columns = [column_name(name) for name in ("id", *fields)]
        query = self._select([name for name in columns if name in present])
        return query if where is None else query.where(self._condition(where))

    def _read(self, fields: Sequence[str], where: Filter | None = None) -> pa.Table:
        return widen(pa.table(select_columns(wait(self._query(fields, where).to_arrow()), ("id", *fields))))

    def _condition(self, where: Filter) -> str:
        self._require_comparable(where)
        return sql.translate_to_sql(where, sql.TableColumns.of(self.columns))

    def _require_comparable(self, where: Filter | None) -> None:
        """Raise UsageError if a value of a field of metadata that `where` uses is a mapping."""
        keys = {name for name in list_fields(where) if name.startswith("meta.")} - self._comparable
        for name in keys:
            column, is_mapping = column_name(name), f"array_has({column_name(name)}, {sql.quote(MAPPING)})"
            if column in self.columns.names and wait(self.table.count_rows(is_mapping)):
                raise refuse_mappings(name)
        self._comparable |= keys


async def _open_table(connection: Any, name: str, version: int | None) -> tuple[Any, pa.Schema]:
    table = await connection.open_table(name)
    if version is not None:
        await table.checkout(version)
    return table, await table.schema()


async def _read_state(table: Any) -> tuple[int, int]:
    """Return the version of a table and the number of its records."""
    return await table.version(), await table.count_rows()


async def _has_any(table: Any, condition: str) -> bool:
    """Return whether a table has a record with `condition`. Counting takes half as long as reading the record."""
    return bool(await table.count_rows()) and await table.count_rows(condition) > 0  # an empty table is not searched


def _search_tables(searches: Sequence[tuple[LanceCollection, Sequence[SearchRequest]]]) -> list[list[SearchResult]]:
    from ragindex.stores.lancedb import index

    for collection, requests in searches:
        for request in requests:
            collection._require_comparable(request.where)
    opened = list[tuple[index.SearchTable, Sequence[SearchRequest]]]()
    for collection, requests in searches:
        if collection._table is None:
            place = (collection._folder, collection.name, collection.version)
            collection._table = index.open_table(collection.database.connection, *place, collection.schema)
        opened.append((collection._table, requests))
    return index.search_tables(opened)
