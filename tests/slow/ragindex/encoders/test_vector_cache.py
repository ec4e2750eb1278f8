"""The cache of index vectors, shared by processes, one of which is killed."""

import multiprocessing
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hashed_encoder import Plain
from hashed_encoder import numbered_texts as _texts

from ragindex.encoders import vector_cache
from ragindex.encoders.vector_cache import CachedEncoder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.sqlite"


def _count(path: Path) -> int:
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'vectors'").fetchall():
            return 0
        return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])


def _encode_in_process(path: Path, start: int) -> None:
    for i in range(start, start + 61):
        CachedEncoder(Plain(), path).encode_documents(_texts(100)[i % 90 : i % 90 + 10])


def _wait_for_batches(path: Path) -> None:
    vector_cache._BATCH = 1
    CachedEncoder(Plain(), path).encode_documents(_texts(1_000_000))


def test_processes(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_encode_in_process, args=(path, 30 * n)) for n in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    inner = Plain()
    vectors = CachedEncoder(inner, path).encode_documents(_texts(99))
    np.testing.assert_array_equal(vectors, Plain().encode_documents(_texts(99)))
    assert inner.seen == []


def test_a_killed_process_leaves_whole_rows(path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_wait_for_batches, args=(path,))
    process.start()
    while not path.exists() or _count(path) < 20:
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    row_count = _count(path)
    inner = Plain()
    vectors = CachedEncoder(inner, path).encode_documents(_texts(row_count + 5))
    np.testing.assert_array_equal(vectors, Plain().encode_documents(_texts(row_count + 5)))
    assert inner.seen == [_texts(row_count + 5)[row_count:]]
