"""Answers of language models, kept in SQLite as they came: no call is paid twice.

A row is committed before anybody reads the answer. An answer is found by everything it depends on, and says what it
cost when it was first given. Keys and messages are not kept: the place of an answer is a hash of them.
"""

import os
import sqlite3
import time
import warnings
import weakref
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeAlias

from filelock import FileLock

from ragindex import durable_files
from ragindex.canonical import encodable
from ragindex.durable_files import MendedWarning
from ragindex.errors import StoreError
from ragindex.llm import key_locks

_PATIENCE = 60.0  # seconds to wait for another process's commit
_VERSION = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, and what that cost when it was first asked.

    `structure` says how it was asked for: schema, json or text. `finish` is the server's reason for stopping. Tokens
    are the server's, `estimated` where they are ours; `cached_tokens` are among the input tokens. `money` is None for
    a model without a price. `seconds` are those of the request that was answered, `at` is when (Unix time).
    """

    text: str
    finish: str
    refusal: str
    structure: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    estimated: bool
    money: float | None
    seconds: float
    at: float


@dataclass(frozen=True, slots=True)
class Origin:
    """Who was asked what, for people to read: the key holds it all, and more."""

    task: str
    version: int
    provider: str
    model: str
    base_url: str


class CallCache(Protocol):
    """Where answers are kept. Safe for threads."""

    def get(self, key: str) -> Answer | None:
        """The answer kept under `key`."""
        ...

    def put(self, key: str, origin: Origin, answer: Answer) -> None:
        """Keep it, in place of another under the same key. Durable when it returns."""
        ...

    def claimed(self, key: str) -> AbstractContextManager[None]:
        """Held by one at a time: whoever gets it looks first, and asks only for what is still missing."""
        ...


class NoCache:
    """Keeps nothing: every call is asked and paid."""

    def get(self, key: str) -> Answer | None:
        """Nothing."""
        return None

    def put(self, key: str, origin: Origin, answer: Answer) -> None:
        """Nothing."""

    def claimed(self, key: str) -> AbstractContextManager[None]:
        """Everybody at once."""
        return nullcontext()


Row: TypeAlias = tuple[str | int | float | None, ...]
COLUMNS = ("key", *(field.name for field in fields(Origin)), *(field.name for field in fields(Answer)))
_TYPES = {"key": "TEXT PRIMARY KEY", "money": "REAL", "seconds": "REAL NOT NULL", "at": "REAL NOT NULL"}
_INTEGERS = {"version", "input_tokens", "cached_tokens", "output_tokens", "estimated", "checksum"}
_SCHEMA = ", ".join(
    f"{name} {_TYPES.get(name, 'INTEGER NOT NULL' if name in _INTEGERS else 'TEXT NOT NULL')}"
    for name in (*COLUMNS, "checksum")
)
KEPT = (*COLUMNS, "checksum")
"""SQLite has none: the CRC-32 of the other columns."""
_READ = f"SELECT {', '.join(KEPT)} FROM calls WHERE key = ?"  # noqa: S608
_WRITE = f"INSERT OR REPLACE INTO calls ({', '.join(KEPT)}) VALUES ({', '.join('?' * len(KEPT))})"  # noqa: S608
_ADD = _WRITE.replace("OR REPLACE", "OR IGNORE")
_using = Lock()  # held while this process is inside SQLite: no fork may copy a lock or half a transaction


def _summed(row: Row) -> Row:
    told = [float(value) if isinstance(value, int | float) else value for value in row]  # as SQLite gives it back
    return (*row, zlib.crc32(repr(told).encode("utf-8", "surrogatepass")))


def whole(kept: Row) -> Row | None:
    """A row as `COLUMNS` has it; None where it is not as it was written: its call is asked again."""
    if _summed(kept[:-1]) == kept:
        return kept[:-1]
    warnings.warn("A kept call is not as it was written: it is asked again.", MendedWarning, stacklevel=2)
    return None


class Cache:
    """The SQLite file `path`, in WAL mode. Safe for threads, processes and forks; closed when it is forgotten.

    Equal calls at the same moment, in whichever process and by whichever cache of the file, wait for the first.
    Nothing is opened before it is needed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: deque[Row] = deque()
        self._opened: sqlite3.Connection | None = None
        _caches.add(self)

    def get(self, key: str) -> Answer | None:
        """The answer kept under `key`, where it is as it was written. Raises StoreError."""
        with self.connection() as connection:
            kept = connection.execute(_READ, (key,)).fetchone()
        row = None if kept is None else whole(kept)
        if row is None:
            return None
        answer = Answer(*row[-len(fields(Answer)) :])  # type: ignore[arg-type]  # as COLUMNS has them
        return replace(answer, estimated=bool(answer.estimated))

    def put(self, key: str, origin: Origin, answer: Answer) -> None:
        """Keep it, in place of another under the same key; on the disk when it returns. Raises StoreError."""
        row = (key, *astuple(origin), *astuple(answer))
        self._waiting.append(tuple(encodable(value) if isinstance(value, str) else value for value in row))
        with self.connection() as connection:  # whoever comes first writes what others wait to write: one flush for all
            rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                with connection:
                    connection.executemany(_WRITE, map(_summed, rows))
            except BaseException:
                self._waiting.extendleft(reversed(rows))  # so that those who wait fail too
                raise

    def add(self, rows: Sequence[Row]) -> int:
        """Keep rows as `COLUMNS` has them, unless their keys are there; how many were new. Raises StoreError."""
        with self.connection() as connection, connection:
            return connection.executemany(_ADD, map(_summed, rows)).rowcount

    def claimed(self, key: str) -> AbstractContextManager[None]:
        """Held by one thread of one process at a time, whatever path the file has there. Raises StoreError."""
        return key_locks.held(self.path, key)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection, for one thread of the process at a time. Raises StoreError for what goes wrong inside."""
        with _using, _told(self.path):
            if self._opened is None:
                self._opened = _open(self.path)
                weakref.finalize(self, self._opened.close)
            yield self._opened

    def close(self) -> None:
        """Let go of the file; it is opened again when it is needed. Only while no thread is inside."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


_caches: "weakref.WeakSet[Cache]" = weakref.WeakSet()


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    key_locks.require_one_name(path)
    durable_files.require_with_its_log(path)
    connection = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False)
    try:
        with FileLock(f"{path}.lock", timeout=_PATIENCE):  # SQLite lets nobody wait for a change of journal mode
            connection.execute("PRAGMA journal_mode = WAL")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                raise StoreError(
                    f"The call cache {path} was made by another version of ragindex ({version}, this one reads "
                    f"{_VERSION}). Use that version, or move the file away."
                )
            with connection:
                connection.execute(f"CREATE TABLE IF NOT EXISTS calls ({_SCHEMA})")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:  # a lock that is not got in time is an OSError too
        hint = "Make sure that there is space and that the folder may be written."
        raise StoreError(f"The call cache {path} cannot be used: {error}. {hint}") from error
    except sqlite3.DatabaseError as error:
        hint = f"Its calls are then paid again, except those of an export. {durable_files.advice(path.parent)}"
        raise StoreError(f"The call cache {path} is broken: {error}. {hint}") from error


def _before_fork() -> None:
    """Connections must not be carried into a child: both open their own when they need one."""
    _using.acquire()
    for cache in list(_caches):
        cache.close()


def _after_fork() -> None:
    _using.release()


def _in_child() -> None:
    global _using
    _using = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


# ---------------------------------------------------------------- what it holds


@dataclass(frozen=True, slots=True)
class Held:
    """What a cache holds of one task: answers, the dollars and tokens they first cost, and when the oldest came.

    `money` is None where that of an answer is not known.
    """

    task: str
    answers: int
    money: float | None
    input_tokens: int
    output_tokens: int
    oldest: float


def held(cache: Cache) -> list[Held]:
    """What there is, by task. Raises StoreError."""
    query = (
        "SELECT task, count(*), CASE WHEN count(money) = count(*) THEN total(money) END, "
        "sum(input_tokens), sum(output_tokens), min(at) FROM calls GROUP BY task ORDER BY task"
    )
    with cache.connection() as connection:
        return [Held(*row) for row in connection.execute(query)]


def size(cache: Cache) -> int:
    """Bytes on the disk."""
    paths = (Path(f"{cache.path}{end}") for end in ("", "-wal", "-shm"))
    return sum(path.stat().st_size for path in paths if path.exists())


def prune(cache: Cache, older_than: float | None = None, task: str | None = None) -> int:
    """Forget answers that came more than `older_than` seconds ago, those of `task`, or those that are both.

    All where neither is given. How many were forgotten; their space is given back. Raises StoreError.
    """
    before = None if older_than is None else time.time() - older_than
    with cache.connection() as connection:
        with connection:
            gone = connection.execute(
                "DELETE FROM calls WHERE (?1 IS NULL OR at < ?1) AND (?2 IS NULL OR task = ?2)", (before, task)
            ).rowcount
        connection.execute("VACUUM")
        with closing(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")) as checkpoint:
            checkpoint.fetchall()
    return gone
