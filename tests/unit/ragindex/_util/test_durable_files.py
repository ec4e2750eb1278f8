"""Files that other processes make, fill and remove while they are looked at."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ragindex._util import sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept.sqlite"


def fill(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE kept (id)")
    connection.commit()
    return connection


def test_a_log_without_its_database_is_damage(path: Path) -> None:
    with closing(fill(path)):
        assert Path(f"{path}-wal").stat().st_size
        sqlite.require_sqlite_log(path)
        path.write_bytes(b"")
        with pytest.raises(sqlite3.DatabaseError, match="it is empty, and its log is not"):
            sqlite.require_sqlite_log(path)


def test_a_database_that_another_process_fills_between_two_looks_is_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both files are looked at, one after the other; whatever is made in between, it is no damage."""
    path.touch()  # as SQLite does when it opens a new file
    look, filled = sqlite._find_size, list[sqlite3.Connection]()

    def fill_after_a_look(file: Path) -> int | None:
        size = look(file)
        if not filled:
            filled.append(fill(path))
        return size

    monkeypatch.setattr(sqlite, "_find_size", fill_after_a_look)
    sqlite.require_sqlite_log(path)
    assert Path(f"{path}-wal").stat().st_size
    filled[0].close()


def test_a_log_that_is_removed_between_two_looks_is_none(path: Path) -> None:
    fill(path).close()  # the last connection removes the log
    sqlite.require_sqlite_log(path)
    path.unlink()
    sqlite.require_sqlite_log(path)
