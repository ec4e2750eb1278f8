"""Cache of LLM responses in SQLite: no request is paid for twice.

A response is committed before it is returned. Its key is a hash of what it depends on; neither API keys nor messages
are stored. Beside it are a hash of the question, whatever the settings, and the settings that it was asked with. It
keeps the cost of the request that it first answered.
"""

import json
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
from typing import IO, Annotated, Any, Protocol, TypeAlias, get_type_hints

from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt, ValidationError, create_model

from ragindex._util import durable_files
from ragindex._util.canonical import encodable
from ragindex._util.durable_files import RepairWarning
from ragindex._util.sqlite import require_sqlite_log, use_sqlite_log
from ragindex.errors import DataError, StoreError
from ragindex.llm import key_locks

_LOCK_TIMEOUT = 60.0  # seconds to wait for a commit of another process
_VERSION = 2
_ROWS_AT_ONCE = 1000  # of an export or import
_CUT = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})  # finish reasons, of different servers


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """The response of a server, and the cost of its request.

    `structure` is the requested format: schema, json or text. `finish` is the finish reason. Tokens are counted
    by the server, or by us where `estimated`; `cached_tokens` are part of the input tokens. `money` is None for a model
    without a price. `seconds` is the latency of the request, `at` its time (Unix time).
    """

    text: str
    finish: str
    refusal: str
    structure: str
    input_tokens: NonNegativeInt
    cached_tokens: NonNegativeInt
    output_tokens: NonNegativeInt
    estimated: bool
    money: float | None
    seconds: NonNegativeFloat
    at: float

    @property
    def is_cut(self) -> bool:
        """Whether the answer ended because its token limit was reached."""
        return self.finish.casefold() in _CUT


@dataclass(frozen=True, slots=True)
class CallSource:
    """Task, model and endpoint of a request, for people and for pruning, and what else is known of it.

    `question` is a hash of task and inputs alone, `settings` the parameters as JSON; both are "" if they are not known.
    """

    task: str
    version: int
    provider: str
    model: str
    base_url: str
    question: str = ""
    settings: str = ""


CacheEntry: TypeAlias = tuple[str, CallSource, CachedResponse]
"""A response with its key."""


class ResponseCache(Protocol):
    """A cache of LLM responses. Thread-safe."""

    def get(self, key: str) -> CachedResponse | None:
        """Return the response cached under `key`, or None if there is none."""
        ...

    def put(self, key: str, source: CallSource, response: CachedResponse) -> None:
        """Store a response, replacing one with the same key. It is durable when this returns."""
        ...

    def claimed(self, key: str) -> AbstractContextManager[None]:
        """Hold `key` exclusively: the holder looks up the key first, and sends a request only if it is missing."""
        ...

    def find_question(self, question: str) -> list[tuple[CallSource, CachedResponse]]:
        """Return the responses to a question under whatever settings, the newest first."""
        ...


class NoCache:
    """A cache that stores nothing: every request is sent and paid."""

    def get(self, key: str) -> CachedResponse | None:
        """Return None."""
        return None

    def put(self, key: str, source: CallSource, response: CachedResponse) -> None:
        """Do nothing."""

    def claimed(self, key: str) -> AbstractContextManager[None]:
        """Return at once: requests need not wait for one another."""
        return nullcontext()

    def find_question(self, question: str) -> list[tuple[CallSource, CachedResponse]]:
        """Return []."""
        return []


CacheRow: TypeAlias = tuple[str | int | float | None, ...]
CACHE_COLUMNS = (
    "key",
    *(field.name for field in fields(CallSource)),
    *(field.name for field in fields(CachedResponse)),
)
_LATER_COLUMNS = ("question", "settings")  # that files of earlier versions lack
_LATER_TYPE = "TEXT NOT NULL DEFAULT ''"
_TYPES = {
    "key": "TEXT PRIMARY KEY",
    "money": "REAL",
    "seconds": "REAL NOT NULL",
    "at": "REAL NOT NULL",
} | dict.fromkeys(_LATER_COLUMNS, _LATER_TYPE)
_INTEGERS = {"version", "input_tokens", "cached_tokens", "output_tokens", "estimated", "checksum"}
_SCHEMA = ", ".join(
    f"{name} {_TYPES.get(name, 'INTEGER NOT NULL' if name in _INTEGERS else 'TEXT NOT NULL')}"
    for name in (*CACHE_COLUMNS, "checksum")
)
STORED_COLUMNS = (*CACHE_COLUMNS, "checksum")
"""`checksum` is the CRC-32 of the other columns; SQLite itself has none."""
_WRITE = f"INSERT OR REPLACE INTO calls ({', '.join(STORED_COLUMNS)}) VALUES ({', '.join('?' * len(STORED_COLUMNS))})"  # noqa: S608
_ADD = _WRITE.replace("OR REPLACE", "OR IGNORE")
_connection_lock = Lock()  # held while this process uses SQLite: a fork must not copy a lock or half a transaction


def _add_checksum(row: CacheRow) -> CacheRow:
    covered = [
        value for name, value in zip(CACHE_COLUMNS, row, strict=True) if value != "" or name not in _LATER_COLUMNS
    ]  # so that rows of earlier versions keep their checksums
    values = [float(value) if isinstance(value, int | float) else value for value in covered]  # as SQLite returns them
    return (*row, zlib.crc32(repr(values).encode("utf-8", "surrogatepass")))


def _encode_row(key: str, source: CallSource, response: CachedResponse) -> CacheRow:
    row = (key, *astuple(source), *astuple(response))
    return tuple(encodable(value) if isinstance(value, str) else value for value in row)


def _verify_row(stored: CacheRow) -> CacheRow | None:
    """Return the values of CACHE_COLUMNS if the checksum fits; otherwise warn and return None."""
    if _add_checksum(stored[:-1]) == stored:
        return stored[:-1]
    warnings.warn("A cached LLM response is damaged; its request is sent again.", RepairWarning, stacklevel=2)
    return None


class SQLiteCache:
    """A cache in the SQLite file `path`, in WAL mode. Safe for threads, processes, forks.

    Of concurrent equal requests, in any process, only the first is sent; the others wait for its response. The file is
    opened at first use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: deque[CacheRow] = deque()
        self._connection: sqlite3.Connection | None = None
        _caches.add(self)

    def get(self, key: str) -> CachedResponse | None:
        """Return the response cached under `key`, or None if it is missing or damaged. Raises StoreError."""
        with self.connection() as connection:
            return read_response(connection, key)

    def put(self, key: str, source: CallSource, response: CachedResponse) -> None:
        """Store a response, replacing one with the same key; it is on disk when this returns. Raises StoreError."""
        self._waiting.append(_encode_row(key, source, response))
        with self.connection() as connection:  # one thread writes the rows of all waiting threads: one flush for all
            rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                with connection:
                    connection.executemany(_WRITE, map(_add_checksum, rows))
            except BaseException:
                self._waiting.extendleft(reversed(rows))  # so that the waiting threads fail too
                raise

    def put_many(self, answers: Sequence[CacheEntry]) -> None:
        """Store responses in one transaction, replacing those with the same keys. Raises StoreError."""
        rows = [_encode_row(*answer) for answer in answers]
        with self.connection() as connection, connection:
            connection.executemany(_WRITE, map(_add_checksum, rows))

    def add(self, rows: Sequence[CacheRow]) -> int:
        """Store rows of CACHE_COLUMNS whose keys are new; return their number. Raises StoreError."""
        with self.connection() as connection, connection:
            return connection.executemany(_ADD, map(_add_checksum, rows)).rowcount

    def claimed(self, key: str) -> AbstractContextManager[None]:
        """Hold `key` exclusively among threads and processes, under any path of the file. Raises StoreError."""
        return key_locks.hold_key(self.path, key)

    def find_question(self, question: str) -> list[tuple[CallSource, CachedResponse]]:
        """Return the undamaged responses to a question, the newest first. Raises StoreError."""
        with self.connection() as connection:
            return read_question(connection, question)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection, one thread at a time. Raises StoreError for errors of SQLite inside."""
        with _connection_lock, convert_sqlite_errors(self.path):
            if self._connection is None:
                self._connection = _open(self.path)
                weakref.finalize(self, self._connection.close)
            yield self._connection

    def close(self) -> None:
        """Close the file; it is opened again at the next use. Call it only while no thread uses the cache."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_caches: "weakref.WeakSet[SQLiteCache]" = weakref.WeakSet()


def read_response(connection: sqlite3.Connection, key: str) -> CachedResponse | None:
    """Return the response cached under `key`, or None if it is missing or damaged. Raises SQLite's errors."""
    return next((response for _, response in _read_rows(connection, "key", key)), None)


def read_question(connection: sqlite3.Connection, question: str) -> list[tuple[CallSource, CachedResponse]]:
    """Return the undamaged responses to a question, the newest first. Raises SQLite's errors."""
    columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(calls)")}
    if not question or not columns.issuperset(_LATER_COLUMNS):
        return []
    return sorted(_read_rows(connection, "question", question), key=lambda row: row[1].at, reverse=True)


def _read_rows(connection: sqlite3.Connection, column: str, value: str) -> Iterator[tuple[CallSource, CachedResponse]]:
    """Yield the undamaged rows with a value in a column, also from files that lack the later columns."""
    cursor = connection.execute(f"SELECT * FROM calls WHERE {column} = ?", (value,))  # noqa: S608
    names = [name for name, *_ in cursor.description]
    for stored in cursor.fetchall():
        by_name = dict(zip(names, stored, strict=True))
        row = _verify_row(tuple(by_name.get(name, "") for name in STORED_COLUMNS))
        if row is not None:
            source, response = row[1 : -len(fields(CachedResponse))], row[-len(fields(CachedResponse)) :]
            answer = CachedResponse(*response)  # type: ignore[arg-type]  # as in CACHE_COLUMNS
            yield CallSource(*source), replace(answer, estimated=bool(answer.estimated))  # type: ignore[arg-type]


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    key_locks.require_one_name(path)
    require_sqlite_log(path)
    connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT, check_same_thread=False)
    try:
        with key_locks.hold_key(path, "tables"):
            use_sqlite_log(connection, _LOCK_TIMEOUT)
            check_format(connection, path)
            with connection:
                connection.execute(f"CREATE TABLE IF NOT EXISTS calls ({_SCHEMA})")
                columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(calls)")}
                for name in _LATER_COLUMNS:
                    if name not in columns:
                        connection.execute(f"ALTER TABLE calls ADD COLUMN {name} {_LATER_TYPE}")
                connection.execute("CREATE INDEX IF NOT EXISTS questions ON calls (question) WHERE question != ''")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def check_format(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file has tables. Raises StoreError if another version of ragindex wrote it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, _VERSION):
        raise StoreError(
            f"The LLM cache {path} has format {version}; this version of ragindex reads format {_VERSION}. "
            "Use the version that wrote it, or move the file away."
        )
    return bool(version)


@contextmanager
def convert_sqlite_errors(path: Path) -> Iterator[None]:
    """Raise StoreError in place of errors of SQLite and of the file system, with what helps."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        hint = "Check free space and write permission."
        raise StoreError(f"Cannot use the LLM cache {path}: {error}. {hint}") from error
    except sqlite3.DatabaseError as error:
        hint = f"A repair loses responses that are in no export. {durable_files.repair_hint(path.parent)}"
        raise StoreError(f"The LLM cache {path} is damaged: {error}. {hint}") from error


def _before_fork() -> None:
    """Close all connections: a child must not inherit one. Both processes open their own at the next use."""
    _connection_lock.acquire()
    for cache in list(_caches):
        cache.close()


def _after_fork() -> None:
    _connection_lock.release()


def _reset_in_child() -> None:
    global _connection_lock
    _connection_lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_reset_in_child)


# ---------------------------------------------------------------- contents


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """Summary of a task's cached responses: number, original cost in dollars and tokens, Unix time of the oldest.

    `money` is None if the cost of any response is unknown.
    """

    task: str
    responses: int
    money: float | None
    input_tokens: int
    output_tokens: int
    oldest: float


def summarize(cache: SQLiteCache) -> list[TaskSummary]:
    """Return one summary per task, in order of task name. Raises StoreError."""
    query = (
        "SELECT task, count(*), CASE WHEN count(money) = count(*) THEN total(money) END, "
        "sum(input_tokens), sum(output_tokens), min(at) FROM calls GROUP BY task ORDER BY task"
    )
    with cache.connection() as connection:
        return [TaskSummary(*row) for row in connection.execute(query)]


def disk_size(cache: SQLiteCache) -> int:
    """Return the size of the cache's files in bytes."""
    paths = (Path(f"{cache.path}{end}") for end in ("", "-wal", "-shm"))
    return sum(path.stat().st_size for path in paths if path.exists())


def prune_responses(cache: SQLiteCache, older_than: float | None = None, task: str | None = None) -> int:
    """Delete the responses of `task` that are older than `older_than` seconds; None sets no condition.

    Return the number of deleted responses, and free their space. Raises StoreError.
    """
    before = None if older_than is None else time.time() - older_than
    with cache.connection() as connection:
        with connection:
            deleted = connection.execute(
                "DELETE FROM calls WHERE (?1 IS NULL OR at < ?1) AND (?2 IS NULL OR task = ?2)", (before, task)
            ).rowcount
        connection.execute("VACUUM")
        with closing(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")) as checkpoint:
            checkpoint.fetchall()
    return deleted


# ---------------------------------------------------------------- export: others replay a study at no cost


_ExportedCall = create_model(
    "_ExportedCall",
    __config__=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False),
    key=Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")],
    **get_type_hints(CallSource) | dict.fromkeys(_LATER_COLUMNS, (str, "")),
    **get_type_hints(CachedResponse, include_extras=True),
)
"""A call in an export file, with the columns of `CACHE_COLUMNS`."""


def export_calls(cache: SQLiteCache, path: Path) -> int:
    """Write all undamaged cached calls to `path`, one per line, ordered by key; return their number.

    An existing file is replaced atomically, once the new one is complete. Raises StoreError if the cache cannot be
    read, DataError if `path` cannot be written or is a file of the cache.
    """
    query = f"SELECT {', '.join(STORED_COLUMNS)} FROM calls WHERE key > ? ORDER BY key LIMIT {_ROWS_AT_ONCE}"  # noqa: S608
    exported, last = 0, ""
    own = [Path(f"{os.path.realpath(cache.path)}{end}") for end in ("", "-wal", "-shm")]
    if path.exists() and any(file.exists() and file.samefile(path) for file in own):
        raise DataError("a file beside the call cache", "a file of the call cache itself", path=path)
    try:
        with _open_replacement(path) as file:
            while True:
                with cache.connection() as connection:  # released between batches for other threads
                    rows = connection.execute(query, (last,)).fetchall()
                    if rows and not (isinstance(rows[-1][0], str) and rows[-1][0] > last):
                        raise sqlite3.DatabaseError("its keys are out of order")  # the loop would never end
                if not rows:
                    return exported
                for stored in rows:
                    if (row := _verify_row(stored)) is None:
                        continue
                    call: dict[str, Any] = dict(zip(CACHE_COLUMNS, row, strict=True))
                    call["estimated"] = bool(call["estimated"])
                    file.write(json.dumps(call, ensure_ascii=False).encode("utf-8") + b"\n")
                    exported += 1
                last = rows[-1][0]
    except OSError as error:
        raise DataError("a file that can be written", str(error), path=path) from error


def _open_replacement(path: Path) -> AbstractContextManager[IO[bytes]]:
    """Open a file that replaces `path` on success; a pipe or terminal cannot be replaced and is opened directly."""
    if path.exists() and not path.is_file():
        return path.open("wb")
    return durable_files.replace_file(Path(os.path.realpath(path)))


def import_calls(cache: SQLiteCache, path: Path) -> int:
    """Add the calls of an export to the cache; return the number of new ones.

    Raises DataError with the line number if a line is malformed; the lines before it are imported. Raises StoreError.
    """
    added, number = 0, 0
    batch: list[CacheRow] = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    batch.append(_parse_row(line, path, number))
                if len(batch) == _ROWS_AT_ONCE:
                    added, batch = added + cache.add(batch), []
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("JSON Lines in UTF-8", str(error), path=path) from error
    finally:
        added += cache.add(batch) if batch else 0
    return added


def _parse_row(line: str, path: Path, number: int) -> CacheRow:
    try:
        row = _ExportedCall.model_validate_json(line)
    except ValidationError as error:
        problem = error.errors()[0]
        problem_text = f"{problem['msg']} at {'.'.join(map(str, problem['loc'])) or 'the line'}"
        raise DataError("a call in the format of an export", problem_text, path=path, line=number) from None
    return tuple(getattr(row, name) for name in CACHE_COLUMNS)
