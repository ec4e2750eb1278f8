"""Accepted changes: whatever is killed, whatever the disk does, none that was acknowledged is lost unnoticed."""

import resource
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ragindex.errors import NewerFormatError, StoreError
from ragindex.serve.spool import SPOOL_FILE, Spool, open_spool
from ragindex.types import Document

FIRST_TABLES = (
    "CREATE TABLE changes (sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, body TEXT, "
    "status TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', accepted REAL NOT NULL, finished REAL);"
)
"""As the first format had them, each made in a transaction of its own."""


def document(id: str) -> Document:
    return Document(id, f"Title of {id}", f"Take 10 milligrams of {id}. " * 5, {"team": "red"})


def accept(spool: Spool, *ids: str) -> None:
    with spool.writing() as changes:
        changes.accept([(id, document(id)) for id in ids])


def pending(spool: Spool) -> dict[str, Document | None]:
    return {change.id: change.document for change in spool.pending(100)}


def require_usable(folder: Path, *already: str) -> None:
    """A change is accepted and read back, with those that were there."""
    accept(open_spool(folder), "new")
    assert pending(open_spool(folder)) == {id: document(id) for id in (*already, "new")}


# ---------------------------------------------------------------- the first change


def test_killed_before_any_statement_of_the_first_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is copied before each statement, as a kill at that moment would leave it."""
    folder, copies = tmp_path / "index", list[Path]()
    folder.mkdir()

    class Copying(sqlite3.Connection):
        def _copy(self) -> None:
            copies.append(tmp_path / f"killed{len(copies)}")
            shutil.copytree(folder, copies[-1])

        def execute(self, *given: Any) -> sqlite3.Cursor:
            self._copy()
            return super().execute(*given)

        def executemany(self, *given: Any) -> sqlite3.Cursor:
            self._copy()
            return super().executemany(*given)

    connect = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **named, factory=Copying))
        accept(open_spool(folder), "first")
    assert len(copies) > 12
    for copy in copies:
        require_usable(copy)
    require_usable(folder, "first")


def test_a_connection_that_cannot_be_used_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class Refusing(sqlite3.Connection):
        def execute(self, *given: Any) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("disk I/O error")

        def close(self) -> None:
            closed.append(self)
            super().close()

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **named, factory=Refusing))
    with pytest.raises((StoreError, sqlite3.OperationalError), match="disk I/O error"):
        accept(open_spool(tmp_path), "first")
    assert len(closed) == 1


@pytest.mark.parametrize("script", ["", "PRAGMA journal_mode = WAL;", FIRST_TABLES, "PRAGMA user_version = 0;"])
def test_file_left_half_made_is_completed(script: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / SPOOL_FILE)) as connection:
        connection.executescript(script)
    (tmp_path / SPOOL_FILE).touch()
    repair = open_spool(tmp_path).repair()
    assert repair.lost == []
    assert [note.endswith("had no tables") for note in repair.removed] == [True] * (script != FIRST_TABLES)
    assert open_spool(tmp_path).repair().removed == []
    require_usable(tmp_path)


def test_half_a_transaction_without_a_log_is_undone(tmp_path: Path) -> None:
    """As of a process that was killed while it made the file, before it had switched to a log."""
    with closing(sqlite3.connect(tmp_path / "made.sqlite", isolation_level=None)) as connection:
        for statement in ("PRAGMA cache_size = 1", FIRST_TABLES, "BEGIN IMMEDIATE"):
            connection.execute(statement)
        for number in range(200):
            row = [f"d{number}", "x" * 500, "accepted", 1.0]
            connection.execute("INSERT INTO changes (id, body, status, accepted) VALUES (?, ?, ?, ?)", row)
        for end in ("", "-journal"):
            shutil.copy(tmp_path / f"made.sqlite{end}", tmp_path / f"{SPOOL_FILE}{end}")
    assert (tmp_path / SPOOL_FILE).stat().st_size > 50_000  # much of it is in the file
    repair = open_spool(tmp_path).repair()
    assert (repair.removed, repair.lost) == ([], [])
    require_usable(tmp_path)


def test_rows_of_the_first_format_are_carried_over(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / SPOOL_FILE)) as connection, connection:
        connection.execute(FIRST_TABLES)
        body = '["Title of old", "' + "Take 10 milligrams of old. " * 5 + '", {"team": "red"}, "old"]'
        connection.execute(
            "INSERT INTO changes (id, body, status, accepted) VALUES ('old', ?, 'accepted', 5.0)", [body]
        )
    assert open_spool(tmp_path).states(["old"])["old"].accepted == 5.0
    require_usable(tmp_path, "old")


def test_file_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / SPOOL_FILE)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerFormatError, match="have format 99; this ragindex reads up to 2"):
        accept(open_spool(tmp_path), "a")


def test_disk_that_was_full_at_the_first_change(tmp_path: Path) -> None:
    for size in range(0, 84_000, 12_000):
        folder = tmp_path / str(size)
        folder.mkdir()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            accept(open_spool(folder), "first")
            accepted = ["first"]
        except StoreError:
            accepted = []
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        require_usable(folder, *accepted)
    assert accepted == ["first"]


def in_threads(count: int, work: Callable[[int], None]) -> None:
    start, errors = threading.Barrier(count), list[Exception]()

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_first_changes_at_once_are_all_accepted(tmp_path: Path) -> None:
    in_threads(16, lambda number: accept(open_spool(tmp_path), f"d{number}"))
    require_usable(tmp_path, *(f"d{number}" for number in range(16)))


# ---------------------------------------------------------------- transactions


def test_what_a_transaction_has_read_stays_until_it_writes(tmp_path: Path) -> None:
    """All want to be the only one: check and write are one step."""
    spool = open_spool(tmp_path)

    def add(number: int) -> None:
        with spool.writing() as changes:
            if changes.count_pending() < 3 and not changes.states(["same"]):
                time.sleep(0.002)  # so that the others come meanwhile
                changes.accept([("same" if number % 2 else f"d{number}", document("any"))])

    in_threads(16, add)
    ids = [change.id for change in spool.pending(100)]
    assert len(ids) == len(set(ids))
    assert len(ids) <= 3


def test_error_in_a_transaction_undoes_it(tmp_path: Path) -> None:
    with pytest.raises(LookupError), open_spool(tmp_path).writing() as changes:
        changes.accept([("a", document("a"))])
        raise LookupError
    require_usable(tmp_path)


# ---------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def spool_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Changes that wait, that are made, and that failed, all in the file itself."""
    spool = open_spool(tmp_path_factory.mktemp("whole"))
    accept(spool, *(f"d{number}" for number in range(6)))
    spool.finish(spool.pending(2), {"d1": "too long"})
    with closing(sqlite3.connect(spool.file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return spool.file


WAITING = {f"d{number}": document(f"d{number}") for number in range(2, 6)}


def change_bytes(spool_file: Path, folder: Path, old: bytes, new: bytes) -> Spool:
    folder.mkdir()
    spool, content = open_spool(folder), spool_file.read_bytes()
    assert old in content
    spool.file.write_bytes(content.replace(old, new, 1))
    return spool


def test_changed_byte_is_not_indexed(spool_file: Path, tmp_path: Path) -> None:
    spool = change_bytes(spool_file, tmp_path / "s", b"10 milligrams of d4", b"90 milligrams of d4")
    assert spool.states(["d4"])["d4"].status == "failed"
    assert pending(spool) == {id: content for id, content in WAITING.items() if id != "d4"}
    state = spool.states(["d4"])["d4"]
    assert (state.status, "Send the document again" in state.reason, state.document) == ("failed", True, None)
    assert (spool.count_pending(), spool.count_damaged()) == (3, 1)
    assert ["documents d4." in line for line in spool.repair().lost] == [True]
    assert b"90 milligrams of d4" in spool.file.read_bytes()  # it is kept
    accept(spool, "d4")
    spool.finish([change for change in spool.pending(100) if change.id == "d4"], {})
    assert (spool.states(["d4"])["d4"].status, spool.count_damaged(), spool.repair().lost) == ("indexed", 0, [])


def test_damaged_changes_alone_do_not_hide_those_after_them(spool_file: Path, tmp_path: Path) -> None:
    spool = change_bytes(spool_file, tmp_path / "s", b"10 milligrams of d2", b"90 milligrams of d2")
    assert [change.id for change in spool.pending(1)] == ["d3"]


@pytest.mark.parametrize("harm", ["emptied", "cut short", "no database"])
def test_unreadable_file_is_moved_aside(harm: str, spool_file: Path, tmp_path: Path) -> None:
    spool, content = open_spool(tmp_path), spool_file.read_bytes()
    broken = {"emptied": b"", "cut short": content[: len(content) // 2], "no database": b"no" + content[2:]}[harm]
    spool.file.write_bytes(broken)
    repair = spool.repair()
    if harm == "emptied":  # nothing tells it from a file that has never had tables
        assert (len(repair.removed), repair.lost) == (1, [])
    else:
        assert len(repair.lost) == 1
        assert Path(f"{spool.file}.damaged").read_bytes() == broken
    require_usable(tmp_path)


def test_no_changed_byte_is_indexed_or_lost_unnoticed(spool_file: Path, tmp_path: Path) -> None:
    content, noticed, rescued, unreadable = spool_file.read_bytes(), 0, 0, list[str]()
    for at in range(16, len(content), 701):
        folder = tmp_path / str(at)
        folder.mkdir()
        spool = open_spool(folder)
        spool.file.write_bytes(content[:at] + bytes([content[at] ^ 0x11]) + content[at + 1 :])
        try:
            waiting = pending(spool)
            assert waiting.items() <= WAITING.items(), at
        except StoreError as error:
            unreadable.append(str(error))
        repaired = spool.repair()
        waiting = pending(spool)
        assert waiting.items() <= WAITING.items(), at
        assert waiting == WAITING or repaired.lost, at
        noticed += bool(repaired.lost)
        rescued += bool(repaired.lost and waiting)
        accept(spool, "new")
        assert "new" in pending(spool), at
    assert noticed >= rescued > 0
    assert all("ragindex repair" in message for message in unreadable)


def test_changes_are_rescued_with_their_keys_which_are_hashed_too(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    with spool.writing() as changes:
        changes.accept([("a", None)], "key a")
        changes.accept([("b", None)], "key b")
    with closing(sqlite3.connect(spool.file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'waiting_changes'").fetchone()
    content = spool.file.read_bytes()
    spool.file.write_bytes(content[: (page - 1) * size] + bytes(size) + content[page * size :])
    assert ["2 changes could be read" in line for line in spool.repair().lost] == [True]
    assert (spool.count_pending(), spool.count_pending("key a"), spool.count_pending("key b")) == (2, 1, 1)
    spool = open_spool(tmp_path / "another")
    spool.file.parent.mkdir()
    spool.file.write_bytes(content.replace(b"key b", b"key c"))
    assert pending(spool) == {"a": None}
    assert spool.states(["b"])["b"].status == "failed"


def test_repair_that_was_killed_goes_on(spool_file: Path, tmp_path: Path) -> None:
    shutil.copy(spool_file, tmp_path / f"{SPOOL_FILE}.rescued")
    assert open_spool(tmp_path).repair().lost == []
    assert pending(open_spool(tmp_path)) == WAITING
    assert open_spool(tmp_path / "empty").repair().lost == []


def test_applied_changes_are_finished_with_their_hash(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    accept(spool, "a", "b")
    with spool.writing() as changes:
        changes.accept([("a", None)])
    spool.finish(spool.pending(10), {"b": "no text"})
    assert {id: (state.status, state.reason) for id, state in spool.states(["a", "b", "c"]).items()} == {
        "a": ("deleted", ""),
        "b": ("failed", "no text"),
    }
    assert (spool.pending(10), spool.repair().lost) == ([], [])
