"""Dying at the n-th durable write: what a process leaves that is killed there.

Everything that changes a workspace's folder or its store is counted. Once a process is dead nothing of it is written:
what cleans up while the error travels finds itself dead too.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import lancedb.db
import lancedb.table
import pytest
import regex

from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.index.coverage import Journal
from ragindex.llm.cache import SQLiteCache
from ragindex.stores.elasticsearch import bulk, indices, store
from ragindex.stores.lancedb import collection as lance_collection
from ragindex.stores.lancedb import maintenance
from ragindex.stores.lancedb import store as lance

HOWS = ("before", "after", "half", "interrupted before", "interrupted after")
"""Before or after the write, or with half of its records written; interrupted: the process lives on (Ctrl-C)."""


class Death(BaseException):
    """No error that anything handles."""


@dataclass
class Faults:
    """Dies at write number `at`, counted from 1 (0: never), or at the first write of that name.

    `where` says in what, once it has.
    """

    folder: Path
    at: int | str = 0
    how: str = "before"
    count: int = 0
    where: str = ""
    writes: list[str] = field(default_factory=list)

    @property
    def dead(self) -> bool:
        return bool(self.where) and not self.how.startswith("interrupted")

    def write(self, name: str, real: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        if self.dead:
            raise Death(self.where)
        self.count += 1
        self.writes.append(name)
        if self.at not in (self.count, name) or self.where:
            return real()
        if self.how == "half" and half is not None:
            half()
        elif self.how != "before" and self.how != "interrupted before":
            real()
        self.where = f"{name} ({self.how}, write {self.count})"
        raise Death(self.where)


@contextmanager
def dying(folder: Path, at: int | str, how: str) -> Iterator[Faults]:
    """Inside, writes are counted, and one of them is the last."""
    assert how in HOWS, how
    faults = Faults(folder, at, how)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, half in _WRITES:
            _count(patch, faults, owner, name, half)
        for owner, name, half in _FILES:
            _count_files(patch, faults, owner, name, half)
        yield faults


def _half_upsert(real: Any, collection: Any, records: Any) -> None:
    if len(records) > 1:
        real(collection, records.slice(0, len(records) // 2))


def _half_delete(real: Any, collection: Any, ids: Any) -> None:
    if half := list(ids)[: len(list(ids)) // 2]:
        real(collection, half)


def _half_made(real: Any, connection: Any, name: str, **named: Any) -> None:
    """The folder of a table without a version."""
    (Path(connection.uri) / f"{name}.lance" / "_versions").mkdir(parents=True, exist_ok=True)


def _half_dropped(real: Any, connection: Any, name: str) -> None:
    _half_removed(real, Path(connection.uri) / f"{name}.lance")


def _half_removed(real: Any, folder: Path, **named: Any) -> None:
    """A folder is removed file by file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files[: (len(files) + 1) // 2]:
        os.unlink(path)


def _half_appended(real: Any, journal: Journal, *entry: Any, **named: Any) -> None:
    """The last line is cut short."""
    real(journal, *entry, **named)
    written = journal.path.read_bytes()
    last = len(written.rstrip(b"\n").rpartition(b"\n")[2])
    journal.path.write_bytes(written[: len(written) - last // 2 - 1])


def _half_added(real: Any, calls: SQLiteCache, rows: Any) -> None:
    real(calls, rows[: len(rows) // 2])


_INDEX_WRITES = (
    *("create_generation", "clone_generation", "seal_generation", "unblock_writes"),
    *("write_note", "merge_segments", "delete_indices"),
)
_WRITES: tuple[tuple[Any, str, Any], ...] = (
    (lance_collection.LanceCollection, "upsert", _half_upsert),
    (lance_collection.LanceCollection, "delete", _half_delete),
    (lance.LanceStore, "clean", None),
    (lancedb.db.LanceDBConnection, "create_table", _half_made),
    (lancedb.db.LanceDBConnection, "drop_table", _half_dropped),
    (lancedb.table.LanceTable, "add_columns", None),
    (lancedb.table.LanceTable, "optimize", None),
    (lancedb.table.LanceTable, "create_index", None),
    (bulk, "_once", None),
    (store.ElasticsearchStore, "_make", None),
    *((indices, name, None) for name in _INDEX_WRITES),
    (CachedEncoder, "_write_rows", None),
    (SQLiteCache, "put", None),
    (SQLiteCache, "add", _half_added),
    (Journal, "append", _half_appended),
    (Journal, "start", None),
)
_FILES: tuple[tuple[Any, str, Any], ...] = (
    *((Path, name, None) for name in ("replace", "write_text", "unlink")),
    (os, "link", None),
    (shutil, "rmtree", _half_removed),
    (shutil, "copyfile", None),
)


def _count(patch: pytest.MonkeyPatch, faults: Faults, owner: Any, name: str, halved: Any) -> None:
    real = getattr(owner, name)

    @wraps(real)
    def counted(*args: Any, **named: Any) -> Any:
        half = None if halved is None else lambda: halved(real, *args, **named)
        return faults.write(f"{name}{_of(args)}", lambda: real(*args, **named), half)

    patch.setattr(owner, name, counted)


def _of(args: tuple[Any, ...]) -> str:
    """Which collection is written, without what tells its part from others of the name: ` passages.records`."""
    if args and isinstance(args[0], Journal):
        return f" journal {_HASH.sub('', args[0].path.stem)}"
    if args and isinstance(args[0], SQLiteCache):
        return " calls"
    names = (arg if isinstance(arg, str) else getattr(arg, "name", None) for arg in args[:3])
    first = next((name for name in names if isinstance(name, str)), "")
    return f" {_HASH.sub('', first)}" if first else ""


_HASH = regex.compile(r"-[0-9a-f]{16}")


def _count_files(patch: pytest.MonkeyPatch, faults: Faults, owner: Any, name: str, halved: Any) -> None:
    """Files of the workspace and beside it, but not those that say who writes and who reads: those are no data."""
    real = getattr(owner, name)

    @wraps(real)
    def counted(*args: Any, **named: Any) -> Any:
        path = Path(args[1] if name in ("link", "copyfile", "replace") else args[0])
        if faults.folder.parent not in path.parents or path.name in ("writer.json", "writer.lock"):
            return real(*args, **named)
        if path.parent.name == "readers":
            return real(*args, **named)
        half = None if halved is None else lambda: halved(real, path)
        what = path.relative_to(faults.folder.parent).parts[1]
        return faults.write(f"{name} in {what}", lambda: real(*args, **named), half)

    patch.setattr(owner, name, counted)


@contextmanager
def pressed(batch: int, fragments: int) -> Iterator[None]:
    """Small batches, early compactions, and few records a request, so that a small corpus has many durable writes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_BATCH", "_DEAR_BATCH"):
            patch.setattr(f"ragindex.index.sync.{name}", batch)
        patch.setattr(maintenance, "_FRAGMENTS", fragments)
        patch.setattr(bulk, "_MOST", 2)
        yield


class Clock:
    """The time of day, which can be moved on."""

    def __init__(self, real: Any) -> None:
        self.real, self.ahead = real, 0.0

    def time(self) -> float:
        return float(self.real.time() + self.ahead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@contextmanager
def clock() -> Iterator[Clock]:
    """What decides by the time of day how long something is kept asks this clock."""
    import time

    moved = Clock(time)
    with pytest.MonkeyPatch.context() as patch:
        for module in (
            *("index.index", "index.sync", "index.leases", "index.coverage"),
            *("index.versioned_files", "stores.elasticsearch.store"),
        ):
            patch.setattr(f"ragindex.{module}.time", moved)
        yield moved
