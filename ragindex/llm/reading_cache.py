"""Caches for indexes that are only read: paid answers are read from the index, and new ones are kept elsewhere.

New answers stay in memory, or are written to a file that the caller names. The index's own file of answers is read
without a byte being written, not even to SQLite's log beside it.
"""

import math
import shutil
import sqlite3
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Condition, Lock
from typing import TypeVar

from ragindex._util.durable_files import expand_home
from ragindex._util.sqlite import require_sqlite_log
from ragindex.llm.cache import (
    CachedResponse,
    CallSource,
    ResponseCache,
    SQLiteCache,
    check_format,
    convert_sqlite_errors,
    read_question,
    read_response,
)

_Rows = TypeVar("_Rows")

MOST_BYTES = 64 << 20
"""Bytes of answers that are kept in memory; those that were not used for the longest time are forgotten first."""
_ATTEMPTS = 5
_ROW_BYTES = 500  # of an answer in memory, without its text


class StoredAnswers:
    """The answers in a file of another index, read only. Thread-safe."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._copy: tuple[tuple[float, ...], Path] | None = None
        self._lock = Lock()

    def get(self, key: str) -> CachedResponse | None:
        """Return the response stored under `key`, or None if it is missing or damaged. Raises StoreError."""
        return self._read(lambda connection: read_response(connection, key))

    def find_question(self, question: str) -> list[tuple[CallSource, CachedResponse]]:
        """Return the responses to a question under whatever settings, the newest first. Raises StoreError."""
        return self._read(lambda connection: read_question(connection, question)) or []

    def _read(self, read: Callable[[sqlite3.Connection], _Rows]) -> _Rows | None:
        """Return what `read` returns for the file; None if there is none."""
        path = self._path
        if path is None or not path.exists():
            return None
        with convert_sqlite_errors(path):
            for attempt in range(_ATTEMPTS):
                try:
                    require_sqlite_log(path)
                    with closing(self._connect(path)) as connection:
                        return read(connection) if check_format(connection, path) else None
                except sqlite3.DatabaseError:  # the end of another process's log was moved into the file meanwhile
                    if attempt == _ATTEMPTS - 1:
                        raise
        return None

    def _connect(self, path: Path) -> sqlite3.Connection:
        """Open the file so that nothing beside it is made: SQLite reads a log only with its index, which it would make.

        With a log that has no index, as after a crash, or whose index cannot be used, a copy is read.
        """
        log, log_index = Path(f"{path}-wal"), Path(f"{path}-shm")
        if not _size(log):
            return _open_read_only(path, "&immutable=1")
        if log_index.exists():
            try:
                return _open_read_only(path)
            except sqlite3.OperationalError:  # the log's index cannot be read by this user
                pass
        return sqlite3.connect(self._copy_file(path, log))

    def _copy_file(self, path: Path, log: Path) -> Path:
        """Return a copy of the file with its log, made anew when they have changed."""
        with self._lock:
            stamp = tuple(value for file in (path, log) for value in (file.stat().st_size, file.stat().st_mtime))
            if self._copy is None or self._copy[0] != stamp:
                folder = Path(tempfile.mkdtemp(prefix="ragindex-answers-"))
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
                for file in (path, log):
                    shutil.copyfile(file, folder / file.name)
                self._copy = stamp, folder
            return self._copy[1] / path.name


def _open_read_only(path: Path, options: str = "") -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{options}", uri=True, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class MemoryCache:
    """A cache in memory over the answers of an index, of so many bytes (None: any number).

    Of concurrent equal requests only the first is sent.
    """

    def __init__(self, stored: StoredAnswers, most_bytes: int | None = MOST_BYTES) -> None:
        self._stored, self._most = stored, math.inf if most_bytes is None else most_bytes
        self._answers: OrderedDict[str, CachedResponse] = OrderedDict()
        self._bytes = 0
        self._claimed: set[str] = set()
        self._changed = Condition()

    def get(self, key: str) -> CachedResponse | None:
        """Return the response cached under `key`, in memory or in the index; None if there is none."""
        with self._changed:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        return self._stored.get(key)

    def put(self, key: str, source: CallSource, response: CachedResponse) -> None:
        """Keep a response in memory, replacing one with the same key."""
        with self._changed:
            previous = self._answers.pop(key, None)
            self._answers[key] = response
            self._bytes += _weigh(response) - (_weigh(previous) if previous else 0)
            while self._bytes > self._most and len(self._answers) > 1:
                _, forgotten = self._answers.popitem(last=False)
                self._bytes -= _weigh(forgotten)

    @contextmanager
    def claimed(self, key: str) -> Iterator[None]:
        """Hold `key` exclusively among the threads of this process."""
        with self._changed:
            while key in self._claimed:
                self._changed.wait()
            self._claimed.add(key)
        try:
            yield
        finally:
            with self._changed:
                self._claimed.remove(key)
                self._changed.notify_all()

    def find_question(self, question: str) -> list[tuple[CallSource, CachedResponse]]:
        """Return the responses of the index to a question. Those in memory have the settings of this process."""
        return self._stored.find_question(question)


def _weigh(response: CachedResponse) -> int:
    return len(response.text) + len(response.refusal) + _ROW_BYTES


class NamedCache(SQLiteCache):
    """A cache in a file that the caller names, over the answers of an index."""

    def __init__(self, path: Path, stored: StoredAnswers) -> None:
        super().__init__(path)
        self._stored = stored

    def get(self, key: str) -> CachedResponse | None:
        """Return the response cached under `key`, in the file or in the index; None if there is none."""
        return super().get(key) or self._stored.get(key)

    def find_question(self, question: str) -> list[tuple[CallSource, CachedResponse]]:
        """Return the responses to a question, those of the file first."""
        return [*super().find_question(question), *self._stored.find_question(question)]


def open_reading_cache(stored: Path | None, file: Path | str | None) -> ResponseCache:
    """Return the cache of an index that is only read: over its own file `stored`, into `file` or, for None, memory."""
    answers = StoredAnswers(stored)
    return MemoryCache(answers) if file is None else NamedCache(expand_home(file), answers)


def keeps_questions(cache: ResponseCache) -> bool:
    """Return whether a cache also takes the vectors of questions, which no index holds."""
    return isinstance(cache, MemoryCache | NamedCache)
