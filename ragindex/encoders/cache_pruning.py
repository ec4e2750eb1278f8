"""Pruning of the vector cache: bounds on its size that depend on what the vectors cost.

Parts store the vectors of indexed texts themselves. The cache serves parts that share texts, texts that are added
again, and parts that are rebuilt. Each kind of vector may take a share of the bytes of the parts that are in use:

- vectors that cost money or a service's tokens: twice these bytes, at least 1 GiB; unused ones are kept for 30 days;
- vectors that took a millisecond or more to compute: a fifth, at least 64 MiB;
- other vectors: a tenth, at least 1 MiB. Computing them takes no longer than reading them.

Vectors of unused texts are removed first, then the oldest.
"""

import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ragindex.errors import StoreError

MIB = 1 << 20
PRUNING_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS gone ("
    "encoder TEXT NOT NULL, text BLOB NOT NULL, since REAL NOT NULL, PRIMARY KEY (encoder, text)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS worth ON vectors (input_tokens > 0 OR money > 0, seconds >= 0.001)",
)
_MONTH = 30 * 86_400.0
_FILLED_SHARE = 0.9
"""Share of a bound that pruning leaves filled, so that not every sync prunes."""
_ASKED = 500  # keys in one statement
_PATIENCE = 60.0  # seconds to wait for the lock of another process


@dataclass(frozen=True, slots=True)
class VectorKind:
    """A kind of vector: its SQL condition, and its bound in bytes: `share` of the bytes in use, at least `least`."""

    condition: str
    share: float
    least: int


_PAID = "(input_tokens > 0 OR money > 0)"
VECTOR_KINDS: Mapping[str, VectorKind] = {
    "paid": VectorKind(f"{_PAID} = 1", 2.0, 1024 * MIB),
    "slow": VectorKind(f"{_PAID} = 0 AND (seconds >= 0.001) = 1", 0.2, 64 * MIB),
    "quick": VectorKind(f"{_PAID} = 0 AND (seconds >= 0.001) = 0", 0.1, MIB),
}


def mark_unused(connection: sqlite3.Connection, encoder: str, texts: Iterable[bytes]) -> None:
    """Mark texts, given by their keys, as unused: a part has removed them."""
    now = time.time()
    with connection:
        connection.executemany("INSERT OR IGNORE INTO gone VALUES (?, ?, ?)", [(encoder, text, now) for text in texts])


def mark_used(connection: sqlite3.Connection, encoder: str, texts: list[bytes]) -> None:
    """Remove the marks of texts, given by their keys, that a part requests again."""
    if connection.execute("SELECT 1 FROM gone LIMIT 1").fetchone() is None:
        return
    with connection:
        for start in range(0, len(texts), _ASKED):
            some = texts[start : start + _ASKED]
            places = ",".join("?" * len(some))
            connection.execute(f"DELETE FROM gone WHERE encoder = ? AND text IN ({places})", (encoder, *some))  # noqa: S608


def prune_vectors(path: Path, served: int) -> None:
    """Remove vectors of the cache at `path` that exceed the bounds; the parts in use take `served` bytes.

    Raises StoreError if the cache cannot be read or written.
    """
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as connection:
            tables = "SELECT count(*) FROM sqlite_master WHERE name IN ('vectors', 'gone')"
            if connection.execute(tables).fetchone() != (2,):
                return  # the process that made the file was killed before its tables were made
            with connection:
                removed = _remove_unused(connection) + sum(
                    _enforce_bound(connection, kind, served) for kind in VECTOR_KINDS.values()
                )
            if removed:
                _free_pages(connection)
    except sqlite3.Error as error:
        raise StoreError(f"The vector cache {path} cannot be pruned: {error}.") from error


def _remove_unused(connection: sqlite3.Connection) -> int:
    """Remove unused vectors: free ones at once, paid ones after 30 days. Return their number.

    Marks without a vector are removed too.
    """
    expired = f"since < ? OR NOT {_PAID}"
    expired_rows = connection.execute(
        f"SELECT vectors.rowid FROM gone JOIN vectors USING (encoder, text) WHERE {expired}",  # noqa: S608
        (time.time() - _MONTH,),
    ).fetchall()
    connection.executemany("DELETE FROM vectors WHERE rowid = ?", expired_rows)
    connection.execute(
        "DELETE FROM gone WHERE NOT EXISTS "
        "(SELECT 1 FROM vectors WHERE vectors.encoder = gone.encoder AND vectors.text = gone.text)"
    )
    return len(expired_rows)


def _enforce_bound(connection: sqlite3.Connection, kind: VectorKind, served: int) -> int:
    """Remove the oldest vectors of a kind that exceeds its bound, until it is below it. Return their number."""
    most = max(kind.least, int(kind.share * served))
    (count,) = connection.execute(f"SELECT count(*) FROM vectors WHERE {kind.condition}").fetchone()  # noqa: S608
    size = _estimate_row_size(connection, kind)
    if count * size <= most:
        return 0
    removed = int(count) - int(most * _FILLED_SHARE / size)
    connection.execute(
        f"DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors WHERE {kind.condition} ORDER BY rowid LIMIT ?)",  # noqa: S608
        (removed,),
    )
    return removed


def _estimate_row_size(connection: sqlite3.Connection, kind: VectorKind) -> float:
    """Estimate the bytes of the file per vector of a kind, with pages and keys, from the newest thousand vectors."""
    (mean,) = connection.execute(
        f"SELECT avg(length(vector)) FROM (SELECT vector FROM vectors WHERE {kind.condition} "  # noqa: S608
        "ORDER BY rowid DESC LIMIT 1000)"
    ).fetchone()
    return 1.3 * float(mean or 0) + 150


def _free_pages(connection: sqlite3.Connection) -> None:
    """Shrink the file by its free pages."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode != 2:  # the file was created without incremental vacuum
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")
    connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
