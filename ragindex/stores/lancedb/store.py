"""LanceDB, the embedded engine: a folder, no server.

LanceDB keeps the records durable and versioned. What fits the memory budget is searched from memory, exactly
(`ragindex.stores.memory.search`); beyond it LanceDB's own text and vector indexes answer
(`ragindex.stores.lancedb.index`).
"""

import json
import os
import shutil
import socket
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from pydantic import Field

from ragindex.errors import EngineError, StoreError, UsageError, WriterBusyError
from ragindex.filters import Filter, Ids
from ragindex.interfaces import Collection, InMemoryVectors, Schema, SearchRequest, SearchResult, StorePlugin
from ragindex.stores.lancedb import bm25_statistics, files, index, maintenance, sql
from ragindex.stores.lancedb.records import arrow_schema, combine_chunks, select_columns, table_rows
from ragindex.stores.large_strings import widen
from ragindex.stores.memory.mapped_vectors import map_array
from ragindex.stores.memory.search import MemoryImage

_GIB = 1 << 30
_POSTINGS = 2.0
"""What text in memory takes for each of its bytes on disk, its sparse index included (measured, rounded up)."""
_SAMPLE = 64 << 20
_LOOKUPS_FROM = 20_000
"""Below so many records a pass over them is as quick as an index of ids and keywords."""
_INDEXED_FROM = 0.25
"""The share of the memory budget beyond which a collection is indexed: others may have taken the budget before it."""
_DELETED_AT_ONCE = 10_000
"""A deletion costs a pass over the collection and a version, however many records it names."""
_MOST_KEYS = 1000
"""Metadata keys that a collection can filter on: each is a column."""


class LanceDB(StorePlugin):
    """Collections in a folder. `memory_gib` bounds what is held in memory; beyond it LanceDB's indexes search.

    `float16` halves the memory of vectors, `mmap` leaves them in a file that the system pages in and out.
    """

    memory_gib: float = Field(
        default=1.0,
        ge=0,
        description="Memory for searching, in GiB, shared by all collections. What does not fit is searched "
        "through on-disk indexes.",
    )
    float16: bool = Field(default=False, description="Keep vectors in memory as 16-bit floats: half the memory.")
    mmap: bool = Field(
        default=False, description="Leave vectors in a memory-mapped file that the system pages in and out."
    )

    @property
    def finishes_by(self) -> Mapping[str, float]:
        """Indexes are made for what may lie beyond the memory budget."""
        return {"memory_gib": self.memory_gib}

    def open(self, folder: Path) -> "LanceStore":
        """The store in `folder`, which is made if it is not there. Raises StoreError where it cannot be."""
        import lancedb

        with _engine(f"open its folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            return LanceStore(self, folder, lancedb.connect(folder))


@dataclass(slots=True)
class LanceStore:
    """See ragindex.interfaces.Store. Images are shared by all readers of one version of one collection."""

    settings: LanceDB
    folder: Path
    connection: Any
    images: "weakref.WeakValueDictionary[tuple[str, int], MemoryImage]" = field(
        default_factory=weakref.WeakValueDictionary
    )
    loading: Any = field(default_factory=RLock)
    _reading: Any = None

    @property
    def reading(self) -> Any:
        """The connection that searches beyond memory go through: LanceDB's asynchronous one."""
        if self._reading is None:
            self._reading = index.connect_async(self.folder)
        return self._reading

    def create(self, name: str, schema: Schema) -> "LanceCollection":
        """Raises StoreError if `name` was made with another schema."""
        with _engine(f"make the collection {name}"):
            if self.version(name) is not None:
                collection = LanceCollection(self, name, self.connection.open_table(name))
            else:
                table = self.connection.create_table(name, schema=arrow_schema(schema))
                collection = LanceCollection(self, name, table)
            held = collection.schema
        if held != schema:
            raise StoreError(f"The collection {name} was created with {held}, not with {schema}.")
        return collection

    def open(self, name: str, version: int) -> "LanceCollection":
        """Open a collection at one version. Raises StoreError if it does not exist."""
        with _engine(f"open the collection {name} at version {version}"):
            table = self.connection.open_table(name)
            table.checkout(version)
            return LanceCollection(self, name, table)

    def names(self) -> list[str]:
        """The names of all collections, sorted."""
        with _engine("list its collections"):
            page = self.connection.list_tables()
            names: list[str] = list(page.tables)
            while page.page_token:
                page = self.connection.list_tables(page_token=page.page_token)
                names += page.tables
        return sorted(name for name in names if self.version(name) is not None)

    def version(self, name: str) -> int | None:
        """The newest version, None where there is no such collection.

        A process that died while it made the collection left a folder that LanceDB lists and cannot open: it has no
        version.
        """
        with _engine(f"look for the collection {name}"):
            return files.find_newest_version(self.place(name))

    def drop(self, name: str) -> None:
        """Remove the collection and its files. It is gone at once: files removed one by one would leave half of it."""
        with _engine(f"remove the collection {name}"):
            doomed = self.folder / "dropped"
            if self.place(name).exists():
                doomed.mkdir(exist_ok=True)
                self.place(name).replace(doomed / f"{name}-{time.time_ns()}")
            shutil.rmtree(doomed, ignore_errors=True)
            for mapped in self._mapped(name):
                mapped.unlink(missing_ok=True)

    def set_aside(self, name: str) -> Path | None:
        """Move a collection's files to the folder `damaged`; where they lie now, None where there are none."""
        place = self.folder.parent / "damaged" / f"{name}-{time.time_ns()}.lance"
        with _engine(f"move the collection {name}"):
            if not self.place(name).exists():
                return None
            place.parent.mkdir(exist_ok=True)
            self.place(name).replace(place)
        return place

    def clean(self, name: str, kept: Set[int]) -> None:
        """Remove all versions but `kept` and the newest, with the files that only they need."""
        with _engine(f"clean the collection {name}"):
            folder = self.place(name)
            held = files.read_versions(folder)
            wanted = {max(held), *(kept & held.keys())}
            wanted |= {one.made_from for number in wanted for one in bm25_statistics.list_text_indexes(held[number])}
            if held.keys() - wanted:
                files.remove_other_versions(folder, wanted, self.connection.open_table(name).count_rows())
            for mapped in self._mapped(name):
                if mapped.name.rsplit("-", 2)[1] not in map(str, wanted):
                    mapped.unlink(missing_ok=True)  # whoever has it open keeps it

    def place(self, name: str) -> Path:
        """The folder of a collection's files."""
        return self.folder / f"{name}.lance"

    def _mapped(self, name: str) -> list[Path]:
        return list((self.folder / "mapped").glob(f"{name}-*"))

    @contextmanager
    def lease(self, owner: str) -> Iterator[None]:
        """A lock on a file: the system frees it when its holder dies, however it dies."""
        who = {"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%F %T")}
        lock, holder = FileLock(self.folder / "writer.lock"), self.folder / "writer.json"
        with _engine("take the writer's lease"):
            try:
                lock.acquire(timeout=0)
            except Timeout as error:
                raise WriterBusyError(_busy(holder)) from error
        try:
            with _engine("write down who holds the writer's lease"):
                holder.write_text(json.dumps(who))
            yield
        finally:
            lock.release()

    def fits(self, collection: "LanceCollection") -> bool:
        """Whether the collection can be held in memory beside what is."""
        with self.loading:
            held = sum(_bytes_in_memory(image, self.settings) for image in self.images.values())
        return held + collection.estimate() <= self.settings.memory_gib * _GIB

    def image(self, collection: "LanceCollection") -> MemoryImage | None:
        """The collection in memory, None where that would go beyond the budget."""
        with self.loading:
            return self._image(collection)

    def _image(self, collection: "LanceCollection") -> MemoryImage | None:
        key = (collection.identity, collection.version)
        image = self.images.get(key)
        if image is not None:
            return image
        with _engine(f"read the collection {collection.name} into memory"):
            if not self.fits(collection):
                return None
            mapped = self.folder if self.settings.mmap else None
            image = collection.load(mapped, float16=self.settings.float16)
        return self.images.setdefault(key, image)


@dataclass(slots=True)
class LanceCollection:
    """See ragindex.interfaces.Collection."""

    store: LanceStore
    name: str
    table: Any
    _schema: Schema | None = None
    _ids: set[str] | None = None
    _image: MemoryImage | None = None
    _estimate: int | None = None
    _table: index.SearchTable | None = None
    _columns: pa.Schema | None = None

    @property
    def schema(self) -> Schema:
        """Kept in the table's own metadata."""
        if self._schema is None:
            with _engine(f"read the schema of the collection {self.name}"):
                stored: dict[str, Any] = json.loads(self.columns.metadata[b"ragindex"])
            lists = {key: tuple(stored[key]) for key in ("stored", "keywords", "numbers", "text")}
            self._schema = Schema(**lists, language=stored["language"], dimensions=stored["dimensions"])
        return self._schema

    @property
    def identity(self) -> str:
        """Kept in the table's own metadata."""
        return str(json.loads(self.columns.metadata[b"ragindex"])["identity"])

    @property
    def columns(self) -> pa.Schema:
        """The table's own schema, kept: the engine takes longer to tell it than to answer a small question."""
        if self._columns is None:
            self._columns = self.table.schema
        return self._columns

    @property
    def version(self) -> int:
        """The version read; a writer's rises with every write."""
        return int(self.table.version)

    def fields(self) -> tuple[str, ...]:
        """Every field that can be asked for, `meta.` fields included; without id, vector and tokens."""
        hidden = {"id", "vector", "tokens"}
        return tuple(sql.field_name(name) for name in self.columns.names if name not in hidden)

    def upsert(self, records: pa.RecordBatch) -> None:
        """Raises UsageError on missing fields, StoreError where the disk fails."""
        with _engine(f"write to the collection {self.name}"):
            self._add_columns(records)
            rows = table_rows(records, self.schema, self.columns, self.name)
            if len(rows) == 0:
                return
            ids = rows.column("id").to_pylist()
            if self._existing(ids):
                merge = self.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
                merge.execute(rows)
            else:
                self.table.add(rows)
            if self._ids is not None:
                self._ids.update(ids)
            self._image = self._estimate = self._table = None

    def delete(self, ids: Iterable[str]) -> None:
        """In blocks, each one version."""
        doomed = list(ids)
        with _engine(f"remove records of the collection {self.name}"):
            for start in range(0, len(doomed), _DELETED_AT_ONCE):
                self.table.delete(self._condition(Ids(tuple(doomed[start : start + _DELETED_AT_ONCE]))))
        if self._ids is not None:
            self._ids.difference_update(doomed)
        self._image = self._estimate = self._table = None

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
        """From memory where an image is held, else from disk."""
        with _engine(f"read the collection {self.name}"):
            return self._get(ids, fields) if self._image is None else self._image.get(ids, fields)

    def _get(self, ids: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
        tables = [self._read(fields, Ids(tuple(ids[start : start + 1000]))) for start in range(0, len(ids), 1000)]
        found = pa.concat_tables(tables) if tables else self._read(fields, Ids(()))
        place = {id: row for row, id in enumerate(found.column("id").to_pylist())}
        order = pa.array([place[id] for id in ids if id in place], pa.int64())
        return combine_chunks(found.take(order))

    def scan(self, fields: Sequence[str], where: Filter | None = None) -> Iterator[pa.RecordBatch]:
        """In LanceDB's batches."""
        with _engine(f"read the collection {self.name}"):
            batches = iter(self._query(fields, where).to_batches(8192))
        while True:
            with _engine(f"read the collection {self.name}"):
                batch = next(batches, None)
            if batch is None:
                return
            yield select_columns(batch, ("id", *fields))

    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """From memory, exactly, within the budget; else by LanceDB's indexes."""
        image = self._in_memory()
        with _engine(f"search the collection {self.name}"):
            return index.search_tables([(self._indexed(), requests)])[0] if image is None else image.search(requests)

    def search_with(
        self, asked: Sequence[tuple[Collection, Sequence[SearchRequest]]]
    ) -> list[list[SearchResult]] | None:
        """What lies beyond memory is asked for all at once; what is in memory is answered as quickly one by one."""
        ours = [(one, requests) for one, requests in asked if isinstance(one, LanceCollection)]
        if len(ours) < len(asked):
            return None
        images = [one._in_memory() for one, _ in ours]
        beyond = [one for one, image in zip(ours, images, strict=True) if image is None]
        with _engine(f"search the collection {self.name} and others"):
            found = iter(
                index.search_tables([(one._indexed(), requests) for one, requests in beyond]) if beyond else ()
            )
            return [
                next(found) if image is None else image.search(requests)
                for (_, requests), image in zip(ours, images, strict=True)
            ]

    def resident(self) -> InMemoryVectors | None:
        """Within the budget."""
        image = self._in_memory()
        return None if image is None or image.vectors is None else InMemoryVectors(image.columns["id"], image.vectors)

    def count(self) -> int:
        """How many records there are."""
        with _engine(f"count the records of the collection {self.name}"):
            return int(self.table.count_rows())

    def finish(self) -> None:
        """Build the indexes that searches will use, again once they lack many records."""
        with _engine(f"finish the collection {self.name}"):
            maintenance.compact_table(self.table, self._folder)
            if self.count() >= _LOOKUPS_FROM:
                maintenance.build_scalar_indexes(self.table, self.schema)
            if self.estimate() > _INDEXED_FROM * self.store.settings.memory_gib * _GIB:
                maintenance.build_search_indexes(self.table, self._folder, self.schema)
            self._table = None

    def describe(self) -> Mapping[str, str | int | float]:
        """`search`: how it is answered; `bytes` on disk of all files that this version needs, its indexes included."""
        settings = self.store.settings
        with _engine(f"look at the collection {self.name}"):
            held = self._image is not None or self.store.fits(self)
            now = files.read_version(self._folder, self.version)
            bases = [files.read_version(self._folder, one.made_from) for one in bm25_statistics.list_text_indexes(now)]
            size = sum(files.list_needed_files(self._folder, [now, *bases]).values())
        beyond = f"approximate, LanceDB indexes (over {settings.memory_gib:g} GiB)"
        kept = "float16, " * settings.float16 + "memory-mapped, " * settings.mmap
        search = f"exact, {kept}from memory" if held else beyond
        return {"search": search, "bytes": size}

    @property
    def _folder(self) -> Path:
        return self.store.place(self.name)

    # ------------------------------------------------------------ memory

    def estimate(self) -> int:
        """Bytes that this collection would take in memory, from its first thousand records, or 64 MiB of them."""
        if self._estimate is None:
            rows = taken = 0
            with _engine(f"read the collection {self.name}"):
                for batch in self.table.search().select(self._text_columns()).limit(1000).to_batches(100):
                    rows, taken = rows + len(batch), taken + batch.nbytes
                    if taken > _SAMPLE:
                        break
            text = taken / max(1, rows) * _POSTINGS
            bytes_a_number = 2 if self.store.settings.float16 else 4
            vectors = 0 if self.store.settings.mmap else (self.schema.dimensions or 0) * bytes_a_number
            self._estimate = int(self.count() * (text + vectors))
        return self._estimate

    def load(self, map_folder: Path | None, *, float16: bool) -> MemoryImage:
        """Read everything; vectors into one matrix, mapped from a file under `map_folder` if one is given."""
        columns = self._text_columns()
        table = self.table.search().select(columns).limit(None).to_arrow()
        table = widen(table.rename_columns([sql.field_name(name) for name in columns])).combine_chunks()
        return MemoryImage(self.schema, table, self._load_vectors(map_folder, np.float16 if float16 else np.float32))

    def _load_vectors(self, map_folder: Path | None, dtype: "type[np.floating[Any]]") -> Any:
        dimensions = self.schema.dimensions
        if dimensions is None:
            return None
        shape = (self.count(), dimensions)
        if map_folder is None:
            return self._fill(np.empty(shape, dtype=dtype))
        state = f"{self.identity}-{self.version}-{np.dtype(dtype).name}"

        def write(path: Path) -> None:
            self._fill(np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)).flush()

        return map_array(map_folder / "mapped", self.name, state, write)

    def _fill(self, vectors: Any) -> Any:
        at = 0
        for batch in self.table.search().select(["vector"]).limit(None).to_batches(8192):
            values = batch.column(0).flatten().to_numpy(zero_copy_only=False)
            vectors[at : at + len(batch)] = values.reshape(len(batch), -1)
            at += len(batch)
        return vectors

    def _in_memory(self) -> MemoryImage | None:
        if self._image is None:
            self._image = self.store.image(self)
        return self._image

    def _text_columns(self) -> list[str]:
        return [name for name in self.columns.names if name != "vector"]

    # ------------------------------------------------------------ records

    def _existing(self, ids: list[str]) -> bool:
        """Whether any of `ids` is there: a merge costs a pass over the table, adding does not."""
        if self._ids is None and len(ids) <= 64:
            return len(self._read((), Ids(tuple(ids)))) > 0
        if self._ids is None:
            self._ids = set(self._read(()).column("id").to_pylist())
        return not self._ids.isdisjoint(ids)

    def _add_columns(self, records: pa.RecordBatch) -> None:
        columns = (sql.column_name(name) for name in records.schema.names if name.startswith("meta."))
        new = [pa.field(name, pa.list_(pa.string())) for name in columns if name not in self.columns.names]
        if len(new) + len(self.columns.names) > _MOST_KEYS:
            raise UsageError(f"A collection has at most {_MOST_KEYS} metadata keys to filter by; {self.name} has more.")
        if new:
            self.table.add_columns(new)
            self._columns = None

    def _query(self, fields: Sequence[str], where: Filter | None) -> Any:
        present = set(self.columns.names)
        columns = [sql.column_name(name) for name in ("id", *fields)]
        query = self.table.search().select([name for name in columns if name in present]).limit(None)
        return query if where is None else query.where(self._condition(where))

    def _read(self, fields: Sequence[str], where: Filter | None = None) -> pa.Table:
        return widen(pa.table(select_columns(self._query(fields, where).to_arrow(), ("id", *fields))))

    def _condition(self, where: Filter) -> str:
        return sql.translate_to_sql(where, sql.TableColumns.of(self.columns))

    def _indexed(self) -> index.SearchTable:
        if self._table is None:
            self._table = index.open_table(self.store.reading, self._folder, self.name, self.version, self.schema)
        return self._table


def _bytes_in_memory(image: MemoryImage, settings: LanceDB) -> int:
    vectors = 0 if image.vectors is None or settings.mmap else image.vectors.nbytes
    return int(image.table_bytes * _POSTINGS) + vectors


def _busy(holder: Path) -> str:
    try:
        who = json.loads(holder.read_text())
        name = f"{who['owner']} (process {who['pid']} on {who['host']}, since {who['since']})"
    except (OSError, ValueError, KeyError):
        name = "another process"
    return f"Another process is writing to the index: {name}. Wait for it or stop it."


@contextmanager
def _engine(doing: str) -> Iterator[None]:
    """What LanceDB and the disk raise, as StoreError."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, MemoryError, pa.ArrowException) as error:
        raise _failure(doing, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # LanceDB's, over damaged files; no Exception, and not importable
            raise
        raise _failure(doing, error) from error


def _failure(doing: str, error: BaseException) -> EngineError:
    reason = " ".join(str(error).split())[:500] or type(error).__name__
    return EngineError(f"The store could not {doing}: {reason}")
