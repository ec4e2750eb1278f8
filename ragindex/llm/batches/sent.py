"""Batches on their way: sent so that no crash loses one, and recorded until all their answers are in the cache.

A batch is recorded in the file of the cache before it is sent, and its id as soon as it is known. So a process that
dies at any moment leaves either a batch whose name can be looked for at the endpoint, or none that costs anything.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from ragindex._util.http import TroubleError
from ragindex.llm.batches.endpoint import CHAT_PATH, BatchEndpoint
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.openai_chat import ChatRequest, OpenAIChat, Structure
from ragindex.llm.rate_limits import Clock
from ragindex.llm.tasks import Task

MOST_REQUESTS = 50_000
"""Requests in a batch; also the limit of the endpoint."""
_MOST_BYTES = 200_000_000
_LOOKS = (0.0, 2.0, 5.0)  # seconds before each look for a batch whose creation was not answered
_TABLES = (
    "CREATE TABLE IF NOT EXISTS batches (name TEXT PRIMARY KEY, id TEXT NOT NULL, file TEXT NOT NULL, "
    "task TEXT NOT NULL, version INTEGER NOT NULL, model TEXT NOT NULL, base_url TEXT NOT NULL, "
    "structure TEXT NOT NULL, at REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS batch_keys (batch TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (batch, key))",
)
_COLUMNS = "name, id, file, task, version, model, base_url, structure, at"


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch: `name` is ours, written into its metadata; `id` and `file` are the endpoint's, "" until known.

    `structure` is how its requests ask for JSON, `at` the Unix time before it was sent. The `keys` of its calls are the
    custom ids of its requests.
    """

    name: str
    id: str
    file: str
    task: str
    version: int
    model: str
    base_url: str
    structure: Structure
    at: float
    keys: frozenset[str]


def read_batches(cache: SQLiteCache) -> list[BatchRecord]:
    """Return the batches whose answers are not all in the cache, oldest first. Raises StoreError."""
    with cache.connection() as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'batches'").fetchone():
            return []
        rows = connection.execute(f"SELECT {_COLUMNS} FROM batches ORDER BY at, name").fetchall()  # noqa: S608
        keys = [connection.execute("SELECT key FROM batch_keys WHERE batch = ?", row[:1]).fetchall() for row in rows]
    return [BatchRecord(*(*row, frozenset(key for (key,) in own))) for row, own in zip(rows, keys, strict=True)]


def drop_batches(cache: SQLiteCache, names: Iterable[str]) -> None:
    """Forget batches. Raises StoreError."""
    gone = [(name,) for name in names]
    with cache.connection() as connection, connection:
        connection.executemany("DELETE FROM batches WHERE name = ?", gone)
        connection.executemany("DELETE FROM batch_keys WHERE batch = ?", gone)


def _record_batch(cache: SQLiteCache, batch: BatchRecord) -> BatchRecord:
    """Record a new batch, or the file and id of one; it is on disk when this returns. Raises StoreError."""
    with cache.connection() as connection, connection:
        if batch.file:
            update = "UPDATE batches SET file = ?, id = ? WHERE name = ?"
            connection.execute(update, (batch.file, batch.id, batch.name))
            return batch
        for table in _TABLES:
            connection.execute(table)
        row = (batch.name, batch.id, batch.file, batch.task, batch.version, batch.model, batch.base_url)
        values = (*row, batch.structure, batch.at)
        connection.execute(f"INSERT INTO batches ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)  # noqa: S608
        connection.executemany("INSERT INTO batch_keys VALUES (?, ?)", ((batch.name, key) for key in batch.keys))
    return batch


class BatchSender:
    """Sends batches of one model, and finds those again that an earlier run sent. Raises TroubleError, StoreError."""

    def __init__(self, cache: SQLiteCache, chat: OpenAIChat, endpoint: BatchEndpoint, clock: Clock) -> None:
        self._cache, self._chat, self._endpoint, self._clock = cache, chat, endpoint, clock

    def send(self, task: Task[Any], requests: Mapping[str, ChatRequest], most: int) -> list[BatchRecord]:
        """Send requests, by key, in batches of at most `most` and of 200 MB."""
        return [self._send(task, lines, structure) for lines, structure in self._split(requests, most)]

    def find_sent(self, keys: Set[str]) -> list[BatchRecord]:
        """Return the batches on their way that hold any of `keys`.

        A batch that is not known to have been created is looked for at the endpoint, and forgotten if it is not there:
        it costs nothing.
        """
        origin = (self._chat.model, self._chat.base_url)
        ours = [one for one in read_batches(self._cache) if (one.model, one.base_url) == origin]
        sent = (one if one.id else self._find_again(one) for one in ours if not one.keys.isdisjoint(keys))
        return [one for one in sent if one is not None]

    def _find_again(self, batch: BatchRecord) -> BatchRecord | None:
        """Return a batch that was recorded, if it was created; otherwise forget it."""
        for seconds in _LOOKS if batch.file else ():  # nothing is created before its file is known
            self._clock.sleep(seconds)
            id = self._endpoint.retry(lambda: self._endpoint.find(batch.name, batch.at))
            if id is not None:
                return _record_batch(self._cache, replace(batch, id=id))
        drop_batches(self._cache, [batch.name])
        return None

    def _split(self, requests: Mapping[str, ChatRequest], most: int) -> Iterator[tuple[Mapping[str, bytes], Structure]]:
        """Yield the lines of each batch by key: at most `most`, at most 200 MB, and of one structure."""
        lines, size, structure = dict[str, bytes](), 0, None
        for key, request in requests.items():
            body, asks_by = self._chat.write(request)
            call = {"custom_id": key, "method": "POST", "url": CHAT_PATH, "body": body}
            line = json.dumps(call, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
            full = len(lines) >= most or size + len(line) > _MOST_BYTES
            if structure is not None and (full or asks_by != structure):
                yield lines, structure
                lines, size = {}, 0
            lines[key], size, structure = line, size + len(line), asks_by
        if structure is not None:
            yield lines, structure

    def _send(self, task: Task[Any], lines: Mapping[str, bytes], structure: Structure) -> BatchRecord:
        name, origin, tried = uuid4().hex, (self._chat.model, self._chat.base_url), False
        batch = BatchRecord(name, "", "", task.name, task.version, *origin, structure, time.time(), frozenset(lines))
        _record_batch(self._cache, batch)

        def create() -> str:
            nonlocal tried
            id = self._endpoint.find(name, batch.at) if tried else None  # the first attempt may have succeeded unseen
            tried = True
            return id or self._endpoint.create(name, batch.file)

        try:
            file = self._endpoint.retry(lambda: self._endpoint.upload(name, b"".join(lines.values())))
            batch = _record_batch(self._cache, replace(batch, file=file))
            id = self._endpoint.retry(create)
        except TroubleError as error:
            if not error.trouble.passes:  # otherwise it may have been created: the next run looks for it
                drop_batches(self._cache, [name])
            raise
        return _record_batch(self._cache, replace(batch, id=id))
