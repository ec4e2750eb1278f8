"""What the vector cache keeps, by what a vector cost, and what it lets go."""

import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ragindex.accounting import ledger
from ragindex.encoders import cache_pruning
from ragindex.encoders.vector_cache import _SUM, CachedEncoder, _add_checksum
from ragindex.errors import StoreError
from ragindex.index.coverage import Journal
from ragindex.index.index import Index
from ragindex.interfaces import Encoder, Floats
from ragindex.types import Document
from ragindex_baselines.dense import Dense

MIB = cache_pruning.MIB


class Counted(Encoder):
    """Vectors of 1 KiB; counts the texts that it has encoded."""

    id, dimensions = "counted", 256

    def __init__(self) -> None:
        self.encoded = list[str]()

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        self.encoded += texts
        return np.tile(np.linspace(0, 1, 256, dtype=np.float32), (len(texts), 1))

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return self.encode_documents(texts)


def cache(folder: Path, *texts: str) -> tuple[CachedEncoder, Counted]:
    encoder = Counted()
    cached = CachedEncoder(encoder, folder / "vectors.sqlite")
    cached.encode_documents(texts)
    return cached, encoder


def cost(folder: Path, like: str, *, seconds: float = 0, tokens: float = 0, money: float = 0) -> None:
    """Say what all texts cost whose place among those written is like `like`."""
    with sqlite3.connect(folder / "vectors.sqlite") as connection:
        connection.execute(
            f"UPDATE vectors SET seconds = ?, input_tokens = ?, money = ? WHERE {like}",
            (seconds, tokens, money),
        )
        columns = "rowid, text, vector, seconds, input_tokens, output_tokens, money"
        for row, text, vector, *rest in connection.execute(f"SELECT {columns} FROM vectors WHERE {like}").fetchall():
            complete = _add_checksum(text, vector[:-_SUM], rest)  # a row carries a checksum
            connection.execute("UPDATE vectors SET vector = ? WHERE rowid = ?", (complete, row))


def count_vectors(folder: Path) -> int:
    with sqlite3.connect(folder / "vectors.sqlite") as connection:
        return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])


def places(folder: Path) -> list[int]:
    with sqlite3.connect(folder / "vectors.sqlite") as connection:
        return [row for (row,) in connection.execute("SELECT rowid FROM vectors ORDER BY rowid")]


def test_file_whose_process_was_killed_before_it_made_its_tables_is_left(tmp_path: Path) -> None:
    (tmp_path / "vectors.sqlite").touch()
    cache_pruning.prune_vectors(tmp_path / "vectors.sqlite", 0)
    cache(tmp_path, "a")
    assert count_vectors(tmp_path) == 1


def test_quick_ones_take_a_tenth_of_what_is_served_and_the_oldest_go_first(tmp_path: Path) -> None:
    cache(tmp_path, *(f"text {n}" for n in range(4000)))
    cost(tmp_path, "true", seconds=1e-5)
    before = (tmp_path / "vectors.sqlite").stat().st_size
    assert before > 5 * MIB
    cache_pruning.prune_vectors(tmp_path / "vectors.sqlite", 20 * MIB)
    left = places(tmp_path)
    assert left == list(range(4001 - len(left), 4001))
    after = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert 1.5 * MIB < after < 2.1 * MIB
    cache_pruning.prune_vectors(tmp_path / "vectors.sqlite", 20 * MIB)
    assert places(tmp_path) == left


@pytest.mark.parametrize(
    ("costs", "share"),
    [({"seconds": 1e-5}, 0.1), ({"seconds": 0.02}, 0.2), ({"tokens": 7.0}, 2.0), ({"money": 1e-6}, 2.0)],
)
def test_what_was_dear_may_take_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, costs: dict[str, float], share: float
) -> None:
    for name, kind in cache_pruning.VECTOR_KINDS.items():
        monkeypatch.setitem(cache_pruning.VECTOR_KINDS, name, cache_pruning.VectorKind(kind.condition, kind.share, 0))  # type: ignore[attr-defined]
    cache(tmp_path, *(f"text {n}" for n in range(1000)))
    cost(tmp_path, "true", **costs)
    cache_pruning.prune_vectors(tmp_path / "vectors.sqlite", 200_000)
    assert count_vectors(tmp_path) * 1480 == pytest.approx(0.9 * share * 200_000, rel=0.1)


def test_small_caches_of_slow_or_paid_vectors_are_whole(tmp_path: Path) -> None:
    cache(tmp_path, *(f"text {n}" for n in range(900)))
    cost(tmp_path, "rowid % 3 = 0", seconds=0.01)
    cost(tmp_path, "rowid % 3 = 1", tokens=3)
    cache_pruning.prune_vectors(tmp_path / "vectors.sqlite", 0)
    assert count_vectors(tmp_path) == 900


def test_texts_that_are_gone_go_first_unless_they_were_paid_for(tmp_path: Path) -> None:
    cached, encoder = cache(tmp_path, "a", "b", "c", "d")
    cost(tmp_path, "rowid = 2", tokens=5, money=0.1)
    cached.forget(["a", "b", "c", "never there"])
    cached.encode_documents(["c"])  # it has come back
    cache_pruning.prune_vectors(tmp_path / "vectors.sqlite", 0)
    assert places(tmp_path) == [2, 3, 4]
    encoder.encoded.clear()
    cached.encode_documents(["a", "b", "c", "d"])
    assert encoder.encoded == ["a"]
    cached.forget(["b"])
    with sqlite3.connect(tmp_path / "vectors.sqlite") as connection:
        connection.execute("UPDATE gone SET since = ?", (time.time() - 31 * 86_400,))
    cache_pruning.prune_vectors(tmp_path / "vectors.sqlite", 0)
    assert 2 not in places(tmp_path)


def test_vectors_of_a_part_serve_until_pruning(tmp_path: Path) -> None:
    """They are of texts that leave it, and that may come back in the same sync; what the file has stays as it is."""
    cached, encoder = cache(tmp_path, "a", "b")
    cost(tmp_path, "true", seconds=0.25)
    vectors = np.stack([encoder.encode_documents([text])[0] for text in ("a", "c", "d")])
    encoder.encoded.clear()
    cached.forget(["a", "c", "d"], 2 * vectors)
    assert count_vectors(tmp_path) == 2  # of its own accord it takes none
    cached.take_vectors(True)
    cached.forget(["a", "c", "d"], 2 * vectors)
    with ledger.record_calls() as calls:
        np.testing.assert_array_equal(cached.encode_documents(["a", "c"]), np.stack([vectors[0], 2 * vectors[1]]))
    assert encoder.encoded == []
    assert calls.correction == pytest.approx(0.5, abs=0.1)  # the mean of what others took
    cache_pruning.prune_vectors(tmp_path / "vectors.sqlite", 0)
    assert count_vectors(tmp_path) == 3  # d did not come back
    encoder.texts_a_request = 8
    cached.take_vectors(True)
    assert not cached.takes_vectors  # what was paid for stays in the file


def test_a_file_that_was_made_without_gives_its_pages_back(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (x)")
    cache(tmp_path, *(f"text {n}" for n in range(3000)))
    cost(tmp_path, "true")
    before = path.stat().st_size
    cache_pruning.prune_vectors(path, 0)
    assert path.stat().st_size < 0.5 * before


def test_no_cache_and_a_broken_one(tmp_path: Path) -> None:
    cache_pruning.prune_vectors(tmp_path / "vectors.sqlite", 0)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "vectors.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match="vector cache .* cannot be pruned"):
        cache_pruning.prune_vectors(tmp_path / "vectors.sqlite", 0)


def test_a_sync_forgets_the_vectors_of_what_was_removed_and_changed(tmp_path: Path) -> None:
    def keys() -> set[bytes]:
        with sqlite3.connect(tmp_path / "caches" / "vectors.sqlite") as connection:
            return {key for (key,) in connection.execute("SELECT text FROM vectors")}

    workspace = Index.open(tmp_path, encoder="lsa:2", chunking=None, create=True)
    workspace.add([Document(f"d{n}", "Oak", f"oak fen {n}") for n in range(8)])
    workspace.build(Dense())
    before = keys()
    workspace.remove(["d1"])
    workspace.add([Document("d2", "Oak", "something else"), Document("d3", "Oak", "oak fen 3")])
    workspace.build()
    assert len(before) == 8
    assert len(before - keys()) == 2  # d1, and d2 as it was
    assert len(keys() - before) == 1
    # what an interrupted sync may go on with is kept for a day
    abandoned = Journal.of(tmp_path, "another-part")
    abandoned.start(["d4"])
    workspace.remove(["d4"])
    workspace.build()
    assert len(keys()) == 7
    os.utime(abandoned.path, (time.time() - 90_000,) * 2)
    workspace.remove(["d5"])
    workspace.build()
    assert len(keys()) == 5
