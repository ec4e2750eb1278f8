"""The LanceDB store: embedded, with its data in a folder and without a server. LanceDB stores records with versions."""

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from filelock import FileLock, Timeout
from pydantic import Field

from ragindex.errors import WriterBusyError
from ragindex.interfaces import Schema, Store, StorePlugin
from ragindex.stores.lancedb import files
from ragindex.stores.lancedb.collection import Database, LanceCollection
from ragindex.stores.lancedb.engine import wait, wrap_engine_errors
from ragindex.stores.records import arrow_schema, field_name, require_schema

if sys.platform != "win32":
    import fcntl


class LanceDB(StorePlugin):
    """The parameters of the LanceDB store, which keeps collections in a folder.

    `memory_gib` limits the data held in memory; collections beyond it are searched through LanceDB's indexes. `float16`
    halves the memory of vectors. `mmap` keeps them in a memory-mapped file.
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
        """The memory budget, because indexes are built for collections that may exceed it, and the kind of these."""
        return {"memory_gib": self.memory_gib, "postings": 1}

    def open(self, folder: Path) -> "LanceStore":
        """Open the store in `folder`, creating the folder if needed. Raises StoreError if that fails."""
        with wrap_engine_errors(f"open its folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        return LanceStore(Database(folder, self.memory_gib, float16=self.float16, mmap=self.mmap))


@dataclass(frozen=True, slots=True)
class LanceStore(Store):
    """The LanceDB implementation of ragindex.interfaces.Store."""

    database: Database
    keeps_files = True

    def create(self, name: str, schema: Schema) -> "LanceCollection":
        """Open a collection for writing, creating it if needed. Raises StoreError if it has another schema."""
        with wrap_engine_errors(f"make the collection {name}"):
            if self.version(name) is not None:
                collection = LanceCollection(self.database, name)
            else:
                table = wait(self.database.connection.create_table(name, schema=arrow_schema(schema)))
                collection = LanceCollection(self.database, name, _opened=table)
            stored = collection.schema
        require_schema(name, stored, schema)
        return collection

    def open(self, name: str, version: int) -> "LanceCollection":
        """Open a collection at one version. Raises StoreError if it does not exist."""
        with wrap_engine_errors(f"open the collection {name} at version {version}"):
            copy = files.find_copy(self.database.place(name), version)
            collection = LanceCollection(self.database, name, version, copy)
            if copy is None:
                _ = collection.table
            return collection

    def names(self) -> list[str]:
        """Return the names of all collections, sorted."""
        with wrap_engine_errors("list its collections"):
            return files.list_collections(self.database.folder)

    def version(self, name: str) -> int | None:
        """Return the newest version of a collection, or None if it does not exist.

        A process that dies while creating a collection leaves a folder that LanceDB cannot open. It has no version, so
        it does not exist.
        """
        with wrap_engine_errors(f"look for the collection {name}"):
            return files.find_newest_version(self.database.place(name))

    def drop(self, name: str) -> None:
        """Remove a collection. Its folder is moved away first, so that a crash cannot leave half of it."""
        with wrap_engine_errors(f"remove the collection {name}"):
            dropped = self.database.folder / "dropped"
            if self.database.place(name).exists():
                dropped.mkdir(exist_ok=True)
                self.database.place(name).replace(dropped / f"{name}-{time.time_ns()}")
            shutil.rmtree(dropped, ignore_errors=True)
            for mapped in self._mapped(name):
                mapped.unlink(missing_ok=True)

    def set_aside(self, name: str) -> Path | None:
        """Move a collection's files to the folder `damaged` and return their path, or None if there are none."""
        place = self.database.folder.parent / "damaged" / f"{name}-{time.time_ns()}.lance"
        with wrap_engine_errors(f"move the collection {name}"):
            if not self.database.place(name).exists():
                return None
            place.parent.mkdir(exist_ok=True)
            self.database.place(name).replace(place)
        return place

    def find_changed_file(self, name: str) -> str | None:
        """Describe a file of a collection that has changed since the last `finish`, or return None."""
        with wrap_engine_errors(f"check the collection {name}"):
            return files.find_changed_file(self.database.place(name))

    def rescue(self, name: str, version: int) -> Iterator[pa.Table]:
        """Yield the records of a version that can be read, without vectors: of its copy, else around the damage."""
        with wrap_engine_errors(f"open the collection {name} at version {version}"):
            copy = files.find_copy(self.database.place(name), version)
            collection = LanceCollection(self.database, name, version, copy)
            tables = iter([copy.read()] if copy is not None else collection.read_readable())
        while (table := next(tables, None)) is not None:
            yield table.rename_columns([field_name(name) for name in table.column_names])

    def clean(self, name: str, pinned: Set[int]) -> None:
        """Remove all versions except `pinned` and the newest, with the files that only they need."""
        with wrap_engine_errors(f"clean the collection {name}"):
            folder = self.database.place(name)
            versions = files.list_versions(folder)
            needed = {max(versions), *(pinned & versions)}
            texts = [files.find_text_index(files.read_version(folder, number)) for number in sorted(needed)]
            needed |= {index.made_from for index in texts if index is not None}
            if versions - needed:
                files.remove_other_versions(folder, needed, wait(_count_newest(self.database.connection, name)))
            for mapped in self._mapped(name):
                if mapped.name.rsplit("-", 2)[1] not in map(str, needed):
                    mapped.unlink(missing_ok=True)  # a process that has it open can still read it

    def _mapped(self, name: str) -> list[Path]:
        return list((self.database.folder / "mapped").glob(f"{name}-*"))

    @contextmanager
    def lease(self, owner: str) -> Iterator[None]:
        """Hold the writer's lease, a file lock that the operating system frees when the process ends for any reason.

        Raises WriterBusyError, naming the holder, if another process has it. The file that says who holds it is locked
        too, so that a reader can look without keeping a writer off for a moment.
        """
        process = {"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%F %T")}
        lock, holder = FileLock(self.database.folder / "writer.lock"), self._holder
        with wrap_engine_errors("take the writer's lease"):
            try:
                lock.acquire(timeout=0)
            except Timeout as error:
                raise WriterBusyError(_describe_holder(holder)) from error
        with ExitStack() as exits:
            exits.callback(lock.release)
            with wrap_engine_errors("write down who holds the writer's lease"):
                file = exits.enter_context(holder.open("w", encoding="utf-8"))
                if sys.platform != "win32":
                    fcntl.flock(file, fcntl.LOCK_EX)
                file.write(json.dumps(process))
                file.flush()
            yield

    def is_being_written(self) -> bool:
        """Return whether the file that says who holds the writer's lease is locked; False on Windows."""
        if sys.platform == "win32":
            return False
        try:
            with self._holder.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError as error:
            return isinstance(error, BlockingIOError)
        return False

    @property
    def _holder(self) -> Path:
        return self.database.folder / "writer.json"


async def _count_newest(connection: Any, name: str) -> int:
    return int(await (await connection.open_table(name)).count_rows())


def _describe_holder(holder: Path) -> str:
    try:
        process = json.loads(holder.read_text())
        return f"{process['owner']} (process {process['pid']} on {process['host']}, since {process['since']})"
    except (OSError, ValueError, KeyError):
        return "another process"
