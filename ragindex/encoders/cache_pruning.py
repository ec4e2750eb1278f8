"""What the vector cache keeps: less than what is served, and first of all what was paid for.

The vectors of served texts are in their parts too. The cache is for parts that share texts, for texts that come back,
and for a part that is made anew. So it keeps a share of what is served, by what a vector cost:

- money, or tokens of a service: twice what is served, and 1 GiB always; texts that are gone, for a month;
- a millisecond and more of this machine: a fifth of what is served, and 64 MiB always;
- less than that: a tenth, and 1 MiB always. It is made again as quickly as it is read.

Texts that are gone go first, then those that were written first.
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
_ROOM = 0.9
"""The share of a bound that is left once it was reached: not every sync prunes."""
_ASKED = 500
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class VectorKind:
    """Vectors of one worth: their condition, the share of what is served that they may take, and at least how much."""

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
    """These texts, by their keys, are in a part no more."""
    now = time.time()
    with connection:
        connection.executemany("INSERT OR IGNORE INTO gone VALUES (?, ?, ?)", [(encoder, text, now) for text in texts])


def mark_used(connection: sqlite3.Connection, encoder: str, texts: list[bytes]) -> None:
    """They are wanted again."""
    if connection.execute("SELECT 1 FROM gone LIMIT 1").fetchone() is None:
        return
    with connection:
        for start in range(0, len(texts), _ASKED):
            some = texts[start : start + _ASKED]
            places = ",".join("?" * len(some))
            connection.execute(f"DELETE FROM gone WHERE encoder = ? AND text IN ({places})", (encoder, *some))  # noqa: S608


def prune_vectors(path: Path, served: int) -> None:
    """Remove what the cache at `path` need not keep, where parts take `served` bytes. Raises StoreError."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as connection:
            with connection:
                removed = _remove_gone(connection) + sum(
                    _bound(connection, kind, served) for kind in VECTOR_KINDS.values()
                )
            if removed:
                _give_back(connection)
    except sqlite3.Error as error:
        raise StoreError(f"The vector cache {path} cannot be pruned: {error}.") from error


def _remove_gone(connection: sqlite3.Connection) -> int:
    """At once where nothing was paid; its mark goes with it."""
    expired = f"since < ? OR NOT {_PAID}"
    found = connection.execute(
        f"SELECT vectors.rowid FROM gone JOIN vectors USING (encoder, text) WHERE {expired}",  # noqa: S608
        (time.time() - _MONTH,),
    ).fetchall()
    connection.executemany("DELETE FROM vectors WHERE rowid = ?", found)
    connection.execute(
        "DELETE FROM gone WHERE NOT EXISTS "
        "(SELECT 1 FROM vectors WHERE vectors.encoder = gone.encoder AND vectors.text = gone.text)"
    )
    return len(found)


def _bound(connection: sqlite3.Connection, kind: VectorKind, served: int) -> int:
    """Remove those written first until the kind is within its bound."""
    most = max(kind.least, int(kind.share * served))
    (count,) = connection.execute(f"SELECT count(*) FROM vectors WHERE {kind.condition}").fetchone()  # noqa: S608
    size = _row_size(connection, kind)
    if count * size <= most:
        return 0
    doomed = int(count) - int(most * _ROOM / size)
    connection.execute(
        f"DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors WHERE {kind.condition} ORDER BY rowid LIMIT ?)",  # noqa: S608
        (doomed,),
    )
    return doomed


def _row_size(connection: sqlite3.Connection, kind: VectorKind) -> float:
    """Bytes of the file for a vector of the kind, from the newest thousand: pages and keys come on top."""
    (mean,) = connection.execute(
        f"SELECT avg(length(vector)) FROM (SELECT vector FROM vectors WHERE {kind.condition} "  # noqa: S608
        "ORDER BY rowid DESC LIMIT 1000)"
    ).fetchone()
    return 1.3 * float(mean or 0) + 150


def _give_back(connection: sqlite3.Connection) -> None:
    """The pages that are free, to the system."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode != 2:  # a file that was made without
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")
    connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
