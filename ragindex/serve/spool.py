"""Accepted changes of documents, on disk until a sync has made them: one SQLite file in the folder of the index.

A change is acknowledged after its transaction is on the disk. The server accepts, the sync process applies; either may
be killed at any moment. Changes are applied in the order in which they were accepted, and applying one twice is
harmless. Each row has a hash: a row that has changed on the disk is never applied, and is kept as damaged.
"""

import hashlib
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ragindex._util import distribution, durable_files
from ragindex._util.canonical import document_metadata_json
from ragindex._util.sqlite import require_sqlite_log, use_sqlite_log
from ragindex._util.text import first_names, many
from ragindex.errors import NewerFormatError, StoreError
from ragindex.filters import list_terms
from ragindex.index.repair import NO_TABLES, Findings, find_database_damage, move_database_aside
from ragindex.types import Document

SPOOL_FILE = "accepted.sqlite"
ChangeStatus: TypeAlias = Literal["accepted", "indexed", "deleted", "failed"]
_WAIT_SECONDS = 30.0
_FORMAT = 2
"""The `user_version` of a file whose tables are complete. SQLite makes a file before its tables, so that a file may
exist without them; the first format had no mark, hashes and owners, the second no metadata keys."""
_HASH = (
    "row_hash(CAST(id AS BLOB), CAST(body AS BLOB), CAST(status AS BLOB), CAST(reason AS BLOB), "
    "CASE typeof(accepted) WHEN 'real' THEN accepted END, CASE typeof(finished) WHEN 'real' THEN finished END, "
    "CAST(owner AS BLOB))"
)
"""The hash of a row. Damage can turn a value into one of another type, or into bytes that are no text."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS changes ("
    "sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, body TEXT, status TEXT NOT NULL, "
    "reason TEXT NOT NULL DEFAULT '', accepted REAL NOT NULL, finished REAL)"
)
_KEY_TABLES = (
    "CREATE TABLE IF NOT EXISTS document_keys (id TEXT PRIMARY KEY, owner TEXT NOT NULL, keys TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS metadata_keys (owner TEXT NOT NULL, key TEXT NOT NULL, documents INTEGER NOT NULL, "
    "PRIMARY KEY (owner, key)) WITHOUT ROWID",
)
"""The metadata keys of each accepted document, and how many documents of an owner have each."""
_ADDED_COLUMNS = {"owner": "TEXT NOT NULL DEFAULT ''", "hash": "TEXT"}
_INDEXES = (
    "CREATE INDEX IF NOT EXISTS changes_by_id ON changes (id, sequence)",
    "CREATE INDEX IF NOT EXISTS waiting_changes ON changes (owner, sequence) WHERE status = 'accepted'",
    "CREATE INDEX IF NOT EXISTS damaged_changes ON changes (sequence) WHERE status = 'damaged'",
)
_COLUMNS = ("sequence", "id", "body", "status", "reason", "accepted", "finished", "owner", "hash")
_DAMAGED = "The record of this change was damaged on the disk. Send the document again."


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
    owner: str = ""
    """The key that sent the change."""


@dataclass(frozen=True, slots=True)
class SpoolTransaction:
    """A transaction: what it reads stays as it is until it ends, because no other may write meanwhile."""

    _connection: sqlite3.Connection

    def accept(self, changes: Sequence[tuple[str, Document | None]], owner: str = "") -> None:
        """Write changes (id, new content or None to delete) of a key; they are durable when it has ended."""
        now = time.time()
        rows = [(id, None if document is None else _dump(document), now, owner) for id, document in changes]
        (last,) = self._connection.execute("SELECT coalesce(max(sequence), 0) FROM changes").fetchone()
        self._connection.executemany(
            "INSERT INTO changes (id, body, status, accepted, owner) VALUES (?, ?, 'accepted', ?, ?)", rows
        )
        self._connection.execute(f"UPDATE changes SET hash = {_HASH} WHERE sequence > ?", [last])  # noqa: S608
        self._count_keys(changes, owner)

    def metadata_keys(self, owner: str) -> set[str]:
        """Return the metadata keys to filter by that the documents of a key have."""
        rows = self._connection.execute("SELECT key FROM metadata_keys WHERE owner = ?", [owner])
        return {key for (key,) in rows}

    def _count_keys(self, changes: Sequence[tuple[str, Document | None]], owner: str) -> None:
        """Count the metadata keys of changed documents, in place of those that they had before."""
        counts = Counter[tuple[str, str]]()
        for id, document in changes:
            read = self._connection.execute("SELECT owner, keys FROM document_keys WHERE id = ?", [id])
            for before, metadata in read.fetchall():
                counts.subtract((before, key) for key in json.loads(metadata))
            keys = sorted(key for key, value in document.metadata.items() if list_terms(value)) if document else []
            self._connection.execute("DELETE FROM document_keys WHERE id = ?", [id])
            if keys:
                self._connection.execute("INSERT INTO document_keys VALUES (?, ?, ?)", [id, owner, json.dumps(keys)])
                counts.update((owner, key) for key in keys)
        self._connection.executemany(
            "INSERT INTO metadata_keys VALUES (?, ?, ?) "
            "ON CONFLICT (owner, key) DO UPDATE SET documents = documents + excluded.documents",
            [(*pair, count) for pair, count in counts.items() if count],
        )
        self._connection.execute("DELETE FROM metadata_keys WHERE documents <= 0")

    def count_pending(self, owner: str | None = None) -> int:
        """Return how many changes, of all keys or of one, are not made yet."""
        if owner is None:
            return self._count("status = 'accepted'")
        return self._count("status = 'accepted' AND owner = ?", owner)

    def count_pending_characters(self, owner: str | None = None) -> int:
        """Return the characters of changes, of all keys or of one, that are not made yet, as they are written."""
        condition = "" if owner is None else "AND owner = ?"
        question = f"SELECT coalesce(sum(length(body)), 0) FROM changes WHERE status = 'accepted' {condition}"  # noqa: S608
        (characters,) = self._connection.execute(question, [] if owner is None else [owner]).fetchone()
        return int(characters)

    def count_damaged(self) -> int:
        """Return how many changes were found damaged and are kept as such."""
        return self._count("status = 'damaged'")

    def _count(self, condition: str, *values: str) -> int:
        # The status is no parameter: SQLite uses a partial index only for a condition that it can compare with it.
        (count,) = self._connection.execute(f"SELECT count(*) FROM changes WHERE {condition}", values).fetchone()  # noqa: S608
        return int(count)

    def states(self, ids: Sequence[str]) -> dict[str, ChangeState]:
        """Return what has become of the last change of each document that ever had one."""
        question = (
            f"SELECT status, reason, accepted, finished, body, owner, hash IS {_HASH} FROM changes "  # noqa: S608
            "WHERE id = ? ORDER BY sequence DESC LIMIT 1"
        )
        rows = {id: self._connection.execute(question, [id]).fetchone() for id in ids}
        return {id: _read_state(row) for id, row in rows.items() if row is not None}


@dataclass(frozen=True, slots=True)
class Spool:
    """The accepted changes of an index. Safe to use from several threads and processes."""

    file: Path

    @contextmanager
    def writing(self) -> Iterator[SpoolTransaction]:
        """Open a transaction, which no other writes beside; at an error, it is undone. Raises StoreError."""
        with self._begin("IMMEDIATE") as connection:
            yield SpoolTransaction(connection)

    def pending(self, most: int, owner: str | None = None) -> list[AcceptedChange]:
        """Return the first changes of each key that are not made yet, as many of each, in the order of acceptance.

        With `owner`, only those of one key.

        An earlier change of a document that another key has made is left out with the later one: `finish` forgets it.
        Damaged ones are marked as such and left out.
        """
        question = (
            f"SELECT sequence, id, body, hash IS {_HASH} FROM changes WHERE sequence IN ("  # noqa: S608
            f"SELECT sequence FROM changes WHERE status = 'accepted' {'' if owner is None else 'AND owner = ? '}"
            "ORDER BY row_number() OVER (PARTITION BY owner ORDER BY sequence), sequence LIMIT ?"
            ") ORDER BY sequence"
        )
        while True:
            with self._begin() as connection:
                rows = connection.execute(question, [*([] if owner is None else [owner]), most]).fetchall()
            damaged = [sequence for sequence, *_, is_intact in rows if not is_intact]
            if damaged:
                self._mark_damaged(damaged)
            if len(damaged) < len(rows) or not rows:
                return [AcceptedChange(number, id, _load(body)) for number, id, body, is_intact in rows if is_intact]

    def count_by_owner(self) -> dict[str, int]:
        """Return how many changes of each key are not made yet."""
        if not self.file.exists():
            return {}
        with self._begin() as connection:
            rows = connection.execute("SELECT owner, count(*) FROM changes WHERE status = 'accepted' GROUP BY owner")
            return dict(rows.fetchall())

    def count_pending(self, owner: str | None = None) -> int:
        """Return how many changes, of all keys or of one, are not made yet; 0 if nothing was ever accepted."""
        if not self.file.exists():
            return 0
        with self._begin() as connection:
            return SpoolTransaction(connection).count_pending(owner)

    def count_damaged(self) -> int:
        """Return how many changes were found damaged and are kept as such."""
        if not self.file.exists():
            return 0
        with self._begin() as connection:
            return SpoolTransaction(connection).count_damaged()

    def finish(self, changes: Sequence[AcceptedChange], failed: Mapping[str, str]) -> None:
        """Record that changes are made, or why the document (by id) failed; earlier changes of it are forgotten."""
        now = time.time()
        with self._begin("IMMEDIATE") as connection:
            for change in changes:
                reason = failed.get(change.id, "")
                status = "failed" if reason else "deleted" if change.document is None else "indexed"
                connection.execute(
                    "UPDATE changes SET status = ?, reason = ?, finished = ?, body = CASE WHEN ? THEN body END "
                    "WHERE sequence = ?",
                    [status, reason, now, bool(reason), change.sequence],
                )
                connection.execute(f"UPDATE changes SET hash = {_HASH} WHERE sequence = ?", [change.sequence])  # noqa: S608
                connection.execute("DELETE FROM changes WHERE id = ? AND sequence < ?", [change.id, change.sequence])

    def states(self, ids: Sequence[str]) -> dict[str, ChangeState]:
        """Return what has become of the last change of each document that ever had one."""
        if not self.file.exists():
            return {}
        with self._begin() as connection:
            return SpoolTransaction(connection).states(ids)

    def repair(self) -> Findings:
        """Complete a file without tables, and check every row; what is damaged is kept apart. Raises StoreError.

        A file that SQLite cannot read is moved aside, and the rows that can be read are carried over.
        """
        findings, rescued = Findings(), Path(f"{self.file}.rescued")
        if not self.file.exists():
            if not rescued.exists():
                return findings
            durable_files.move_durably(rescued, self.file)  # a repair was killed before its last step
        wrong = find_database_damage(self.file) or self._find_wrong_columns()
        if wrong == NO_TABLES:
            findings.removed.append(f"The file of accepted changes {self.file} had no tables")
        elif wrong is not None:
            carried = self._rescue_rows(rescued)
            aside = move_database_aside(self.file)
            durable_files.move_durably(rescued, self.file)
            findings.lost.append(
                f"The file of accepted changes {self.file} {wrong}. {carried} changes could be read and stay accepted; "
                f"what is left of the others lies at {aside}. Send the documents again that the server does not have."
            )
        with self._begin() as connection:
            rows = connection.execute(f"SELECT sequence FROM changes WHERE status <> 'damaged' AND hash IS NOT {_HASH}")  # noqa: S608
            damaged = [sequence for (sequence,) in rows]
        if damaged:
            self._mark_damaged(damaged)
        with self._begin() as connection:
            ids = [id for (id,) in connection.execute("SELECT id FROM changes WHERE status = 'damaged' ORDER BY id")]
        if ids:
            findings.lost.append(
                f"{many(len(ids), 'record')} of {self.file} changed on the disk, of the documents {first_names(ids)}. "
                "They are kept there, and what had not been indexed is not. Send these documents again."
            )
        return findings

    def _mark_damaged(self, sequences: Sequence[int]) -> None:
        """Keep damaged rows apart, as they are."""
        with self._begin("IMMEDIATE") as connection:
            connection.executemany(
                "UPDATE changes SET status = 'damaged' WHERE sequence = ?", [[sequence] for sequence in sequences]
            )
            connection.execute("REINDEX changes")  # the indexes may hold what a damaged row held before

    def _rescue_rows(self, target: Path) -> int:
        """Write the readable rows into a new file; return how many of them wait to be made. Raises StoreError."""
        for end in ("", "-wal", "-shm"):
            Path(f"{target}{end}").unlink(missing_ok=True)
        rows = {row[0]: row for order in ("ASC", "DESC") for row in self._read_until_damage(order)}
        with Spool(target)._begin("IMMEDIATE") as connection:
            connection.executemany(
                f"INSERT INTO changes ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})",  # noqa: S608
                [rows[number] for number in sorted(rows)],
            )
            return SpoolTransaction(connection).count_pending()

    def _read_until_damage(self, order: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that can be read before SQLite fails, and that are whole; damaged names do not matter."""
        try:
            require_sqlite_log(self.file)
            with closing(_open(f"{self.file.absolute().as_uri()}?mode=ro")) as connection:
                connection.text_factory = bytes
                for sequence, *values, hashed in connection.execute(f"SELECT * FROM changes ORDER BY 1 {order}"):  # noqa: S608
                    if hashed == _hash_values(*values).encode():
                        yield (
                            sequence,
                            *(value.decode() if isinstance(value, bytes) else value for value in (*values, hashed)),
                        )
        except sqlite3.Error:
            return

    def _find_wrong_columns(self) -> str | None:
        """Return how the table of a complete file is damaged, or None."""
        with closing(_open(f"{self.file.absolute().as_uri()}?mode=ro")) as connection:
            names = tuple(name for _, name, *_ in connection.execute("PRAGMA table_info(changes)"))
            complete = _read_format(connection) == _FORMAT
        return f"is broken (its columns are {', '.join(names)})" if complete and names != _COLUMNS else None

    @contextmanager
    def _begin(self, kind: Literal["", "IMMEDIATE"] = "") -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, which is on the disk when the block has ended. Raises StoreError."""
        try:
            require_sqlite_log(self.file)
            with closing(_open(str(self.file))) as connection:
                if _read_format(connection) != _FORMAT:
                    self._complete(connection)
                connection.execute(f"BEGIN {kind}")
                with connection:
                    yield connection
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"The accepted changes in {self.file} cannot be read or written: {error}. "
                f"If the file is damaged: {durable_files.repair_hint(self.file.parent)}"
            ) from error

    def _complete(self, connection: sqlite3.Connection) -> None:
        """Make the tables, or what is missing of them, in one transaction. Raises NewerFormatError."""
        use_sqlite_log(connection, _WAIT_SECONDS)
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            version = _read_format(connection)  # another process may have made them meanwhile
            if version > _FORMAT:
                raise NewerFormatError(
                    f"The accepted changes in {self.file} have format {version}; this ragindex reads up to {_FORMAT}. "
                    f"Run: {distribution.upgrade_line()}"
                )
            connection.execute(_TABLE)
            existing = {name for _, name, *_ in connection.execute("PRAGMA table_info(changes)")}
            for name, kind in _ADDED_COLUMNS.items():
                if name not in existing:
                    connection.execute(f"ALTER TABLE changes ADD COLUMN {name} {kind}")
            for statement in (*_KEY_TABLES, *_INDEXES):
                connection.execute(statement)
            connection.execute(f"UPDATE changes SET hash = {_HASH} WHERE hash IS NULL")  # noqa: S608
            durable_files.fsync(self.file.parent)
            connection.execute(f"PRAGMA user_version = {_FORMAT}")


def open_spool(folder: Path) -> Spool:
    """Return the accepted changes of the index in `folder`. Writes nothing."""
    return Spool(folder / SPOOL_FILE)


def _open(file: str) -> sqlite3.Connection:
    """Open a file, or the URI of one, with the function of `_HASH`; transactions are begun by statements."""
    connection = sqlite3.connect(file, timeout=_WAIT_SECONDS, isolation_level=None, uri=file.startswith("file:"))
    try:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.create_function("row_hash", -1, _hash_values)
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _hash_values(*values: bytes | float | None) -> str:
    """Return a hash of values in their order."""
    hashed = hashlib.sha256()
    for value in values:
        content = value if isinstance(value, bytes) else repr(value).encode()
        hashed.update(b"%d:" % len(content))
        hashed.update(content)
    return hashed.hexdigest()[: durable_files.HASH_DIGITS]


def _read_format(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _read_state(row: tuple[Any, ...]) -> ChangeState:
    status, reason, accepted, finished, body, owner, is_intact = row
    if not is_intact:
        known = accepted if isinstance(accepted, float) else 0.0
        return ChangeState("failed", _DAMAGED, known, None, None)
    return ChangeState(status, reason, accepted, finished, _load(body), owner)


def _dump(document: Document) -> str:
    metadata = json.loads(document_metadata_json(document))
    return json.dumps([document.title, document.text, metadata, document.id])


def _load(body: str | None) -> Document | None:
    if body is None:
        return None
    title, text, metadata, id = json.loads(body)
    values: dict[str, Any] = metadata
    return Document(id, title, text, values)
