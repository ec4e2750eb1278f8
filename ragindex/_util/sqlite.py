"""SQLite files with a write-ahead log: a log without its file, and the change to this kind of log."""

import sqlite3
import time
from pathlib import Path


def require_sqlite_log(database: Path) -> None:
    """Raise DatabaseError if an SQLite file is empty but its write-ahead log is not: SQLite would delete the log."""
    # The log is looked at first: SQLite writes the first page of a new database before its log, so another process that
    # makes both between two looks is not taken for damage.
    log = _find_size(Path(f"{database.resolve()}-wal"))
    if log and _find_size(database) == 0:
        raise sqlite3.DatabaseError("it is empty, and its log is not")


def _find_size(path: Path) -> int | None:
    """Return the size of a file in bytes; None if there is none, which may be so from one look to the next."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def use_sqlite_log(connection: sqlite3.Connection, patience: float) -> None:
    """Switch an SQLite file to a write-ahead log, waiting up to `patience` seconds for other connections.

    SQLite's own timeout does not apply to a change of the journal mode. Raises OperationalError.
    """
    end = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        else:
            return
        time.sleep(0.01)
