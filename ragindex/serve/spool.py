"""Accepted changes of documents, on disk until a sync has made them: one SQLite file in the folder of the index.

A change is acknowledged after its transaction is on the disk. The server accepts, the sync process applies; either may
be killed at any moment. Changes are applied in the order in which they were accepted, and applying one twice is
harmless.
"""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ragindex import durable_files
from ragindex.canonical import metadata_json
from ragindex.errors import StoreError
from ragindex.types import Document

SPOOL_FILE = "accepted.sqlite"
ChangeStatus: TypeAlias = Literal["accepted", "indexed", "deleted", "failed"]
_WAIT_SECONDS = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS changes (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, body TEXT, status TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '', accepted REAL NOT NULL, finished REAL
);
CREATE INDEX IF NOT EXISTS changes_by_id ON changes (id, sequence);
CREATE INDEX IF NOT EXISTS accepted_changes ON changes (sequence) WHERE status = 'accepted';
"""


@dataclass(frozen=True, slots=True)
class AcceptedChange:
    """A change of one document: its new content, or None to delete it."""

    sequence: int
    id: str
    document: Document | None


@dataclass(frozen=True, slots=True)
class ChangeState:
    """What has become of the last change of a document. Times are in seconds since 1970."""

    status: ChangeStatus
    reason: str
    accepted: float
    finished: float | None
    document: Document | None
    """The content that is not searched yet, or that could not be indexed."""


@dataclass(frozen=True, slots=True)
class Spool:
    """The accepted changes of an index. Safe to use from several threads and processes."""

    file: Path

    def accept(self, changes: Sequence[tuple[str, Document | None]]) -> None:
        """Write changes (id, new content or None to delete) durably, all or none. Raises StoreError."""
        now = time.time()
        rows = [(id, None if one is None else _dump(one), now) for id, one in changes]
        with self._connect() as connection:
            connection.executemany(
                "INSERT INTO changes (id, body, status, accepted) VALUES (?, ?, 'accepted', ?)", rows
            )

    def pending(self, most: int) -> list[AcceptedChange]:
        """Return the first changes that are not made yet, in order."""
        question = "SELECT sequence, id, body FROM changes WHERE status = 'accepted' ORDER BY sequence LIMIT ?"
        with self._connect() as connection:
            return [
                AcceptedChange(number, id, _load(body)) for number, id, body in connection.execute(question, [most])
            ]

    def count_pending(self) -> int:
        """Return how many changes are not made yet; 0 if nothing was ever accepted."""
        if not self.file.exists():
            return 0
        with self._connect() as connection:
            (count,) = connection.execute("SELECT count(*) FROM changes WHERE status = 'accepted'").fetchone()
            return int(count)

    def finish(self, changes: Sequence[AcceptedChange], failed: Mapping[str, str]) -> None:
        """Record that changes are made, or why the document (by id) failed; earlier changes of it are forgotten."""
        now = time.time()
        with self._connect() as connection:
            for one in changes:
                reason = failed.get(one.id, "")
                status = "failed" if reason else "deleted" if one.document is None else "indexed"
                connection.execute(
                    "UPDATE changes SET status = ?, reason = ?, finished = ?, body = CASE WHEN ? THEN body END "
                    "WHERE sequence = ?",
                    [status, reason, now, bool(reason), one.sequence],
                )
                connection.execute("DELETE FROM changes WHERE id = ? AND sequence < ?", [one.id, one.sequence])

    def states(self, ids: Sequence[str]) -> dict[str, ChangeState]:
        """Return what has become of the last change of each document that ever had one."""
        if not self.file.exists():
            return {}
        question = (
            "SELECT status, reason, accepted, finished, body FROM changes WHERE id = ? ORDER BY sequence DESC LIMIT 1"
        )
        with self._connect() as connection:
            found = {id: connection.execute(question, [id]).fetchone() for id in ids}
        return {
            id: ChangeState(status, reason, accepted, finished, _load(body))
            for id, row in found.items()
            if row is not None
            for status, reason, accepted, finished, body in [row]
        }

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, which is on the disk when the block has ended. Raises StoreError."""
        try:
            durable_files.require_sqlite_log(self.file)
            new = not self.file.exists()
            with closing(sqlite3.connect(self.file, timeout=_WAIT_SECONDS)) as connection:
                durable_files.use_sqlite_log(connection, _WAIT_SECONDS)
                connection.execute("PRAGMA synchronous=FULL")
                if new:
                    connection.executescript(_SCHEMA)
                    durable_files.fsync(self.file.parent)
                with connection:
                    yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"The accepted changes in {self.file} cannot be read or written: {error}.") from error


def open_spool(folder: Path) -> Spool:
    """Return the accepted changes of the index in `folder`. Writes nothing."""
    return Spool(folder / SPOOL_FILE)


def _dump(document: Document) -> str:
    return json.dumps([document.title, document.text, json.loads(metadata_json(document.metadata)), document.id])


def _load(body: str | None) -> Document | None:
    if body is None:
        return None
    title, text, metadata, id = json.loads(body)
    held: dict[str, Any] = metadata
    return Document(id, title, text, held)
