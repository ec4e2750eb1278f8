"""Batches on their way, kept in the file of the cache until all their answers are in it.

A batch is written down before it is sent, and its id as soon as it is known. So a process that dies at any moment
leaves either a batch whose name can be looked for at the endpoint, or none that costs anything.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ragindex.llm.cache import SQLiteCache
from ragindex.llm.openai_chat import Structure

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
        keys = [
            frozenset(key for (key,) in connection.execute("SELECT key FROM batch_keys WHERE batch = ?", (row[0],)))
            for row in rows
        ]
    return [BatchRecord(*(*row, held)) for row, held in zip(rows, keys, strict=True)]


def add_batch(cache: SQLiteCache, batch: BatchRecord) -> None:
    """Write down a batch that is about to be sent; it is on disk when this returns. Raises StoreError."""
    row = (batch.name, batch.id, batch.file, batch.task, batch.version)
    with cache.connection() as connection, connection:
        for table in _TABLES:
            connection.execute(table)
        connection.execute(
            f"INSERT INTO batches ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (*row, batch.model, batch.base_url, batch.structure, batch.at),
        )
        connection.executemany("INSERT INTO batch_keys VALUES (?, ?)", ((batch.name, key) for key in batch.keys))


def update_batch(cache: SQLiteCache, name: str, *, file: str | None = None, id: str | None = None) -> None:
    """Write down the endpoint's file or id of a batch. Raises StoreError."""
    with cache.connection() as connection, connection:
        connection.execute(
            "UPDATE batches SET file = coalesce(?, file), id = coalesce(?, id) WHERE name = ?", (file, id, name)
        )


def drop_batches(cache: SQLiteCache, names: Iterable[str]) -> None:
    """Forget batches. Raises StoreError."""
    gone = [(name,) for name in names]
    with cache.connection() as connection, connection:
        connection.executemany("DELETE FROM batches WHERE name = ?", gone)
        connection.executemany("DELETE FROM batch_keys WHERE batch = ?", gone)
