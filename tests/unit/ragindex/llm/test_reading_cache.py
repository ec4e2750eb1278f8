"""Paid answers of an index that is only read: every state of its file is read, and nothing beside it is made."""

import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from made_language import ANSWER, ORIGIN, key

from ragindex.errors import StoreError
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.reading_cache import MemoryCache, StoredAnswers, open_reading_cache


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def write(path: Path, *numbers: int) -> SQLiteCache:
    cache = SQLiteCache(path)
    for number in numbers:
        cache.put(key(number), ORIGIN, replace(ANSWER, text=f"answer {number}"))
    return cache


def test_no_file_is_made(tmp_path: Path) -> None:
    cache = open_reading_cache(tmp_path / "calls.sqlite", None)
    assert cache.get(key(1)) is None
    assert list(tmp_path.iterdir()) == []


def test_closed_file_is_read_without_a_log(tmp_path: Path) -> None:
    write(tmp_path / "calls.sqlite", 1).close()
    before = contents(tmp_path)
    cache = open_reading_cache(tmp_path / "calls.sqlite", None)
    assert cache.get(key(1)) == replace(ANSWER, text="answer 1")
    assert cache.get(key(2)) is None
    cache.put(key(2), ORIGIN, ANSWER)
    assert cache.get(key(2)) == ANSWER
    assert contents(tmp_path) == before


def test_log_of_open_file_is_read(tmp_path: Path) -> None:
    writing = write(tmp_path / "calls.sqlite", 1)
    stored = StoredAnswers(tmp_path / "calls.sqlite")
    assert stored.get(key(1)) is not None
    writing.put(key(2), ORIGIN, ANSWER)
    assert stored.get(key(2)) == ANSWER
    writing.close()
    assert stored.get(key(2)) == ANSWER


def test_log_without_index_is_read_from_copy(tmp_path: Path) -> None:
    """As in a folder that was copied while a process wrote."""
    writing = write(tmp_path / "calls.sqlite", 1)
    (tmp_path / "copy").mkdir()
    for name in ("calls.sqlite", "calls.sqlite-wal"):
        shutil.copy(tmp_path / name, tmp_path / "copy")
    writing.close()
    before = contents(tmp_path / "copy")
    stored = StoredAnswers(tmp_path / "copy" / "calls.sqlite")
    assert stored.get(key(1)) == replace(ANSWER, text="answer 1")
    assert stored.get(key(2)) is None
    assert contents(tmp_path / "copy") == before


def test_damaged_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "calls.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="is damaged"):
        StoredAnswers(tmp_path / "calls.sqlite").get(key(1))


def test_named_file_comes_first(tmp_path: Path) -> None:
    write(tmp_path / "calls.sqlite", 1, 2).close()
    cache = open_reading_cache(tmp_path / "calls.sqlite", tmp_path / "kept.sqlite")
    cache.put(key(1), ORIGIN, ANSWER)
    assert (cache.get(key(1)), cache.get(key(2))) == (ANSWER, replace(ANSWER, text="answer 2"))
    again = open_reading_cache(None, tmp_path / "kept.sqlite")
    assert (again.get(key(1)), again.get(key(2))) == (ANSWER, None)


def test_memory_forgets_the_oldest() -> None:
    cache = MemoryCache(StoredAnswers(None), most_bytes=3_000)
    for number in range(4):
        cache.put(key(number), ORIGIN, replace(ANSWER, text="x" * 400))
        cache.get(key(0))
    assert [number for number in range(4) if cache.get(key(number)) is not None] == [0, 2, 3]


def test_claimed_key_waits_for_holder() -> None:
    cache, order = MemoryCache(StoredAnswers(None)), list[str]()

    def wait() -> None:
        with cache.claimed(key(1)):
            order.append("second")

    with cache.claimed(key(1)), cache.claimed(key(2)):
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
