"""The cache of index vectors: what is encoded, what it costs, and what happens when things go wrong."""

import hashlib
import re
import resource
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hashed_encoder import Plain
from hashed_encoder import numbered_texts as _texts

from ragindex.accounting import ledger, timing
from ragindex.accounting.ledger import CallRecord
from ragindex.encoders import vector_cache
from ragindex.encoders.vector_cache import CachedEncoder, share_question_vectors
from ragindex.errors import RequestError, ServiceError, StoreError, UsageError
from ragindex.interfaces import Floats, TokenEmbeddings, TokenEncoder
from ragindex.types import Usage


@dataclass
class Paying(Plain):
    """A token is a character; a thousand of them cost 1. A request has four texts."""

    texts_a_request: int = 4
    priced: bool = True
    estimated: bool = False

    def encode_by_request(self, texts: Sequence[str]) -> Iterator[Floats]:
        for start in range(0, len(texts), self.texts_a_request):
            yield self.encode_documents(texts[start : start + self.texts_a_request])

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        vectors, tokens = super().encode_documents(texts), sum(map(len, texts))
        entry = CallRecord(ledger.EMBEDDING, self.id, input_tokens=tokens, money=tokens / 1000 if self.priced else None)
        ledger.record_call(replace(entry, seconds=0.25, estimated=self.estimated), 0.25)
        return vectors


class Tokens(Plain):
    """One vector a text."""

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        time.sleep(0.01)
        return [TokenEmbeddings(((0, len(text)),), self.encode_documents([text])) for text in texts]

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        return self.encode_queries(texts), self.encode_tokens(texts)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.sqlite"


def test_seconds_of_vectors_are_without_waiting_for_a_vocabulary(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Waiting(Paying):
        def encode_documents(self, texts: Sequence[str]) -> Floats:
            clock[0] += 21.0
            ledger.add_time(0.0, 20.0)
            return super().encode_documents(texts)

    clock = [0.0]
    monkeypatch.setattr(vector_cache.time, "perf_counter", lambda: clock[0])
    encoder = CachedEncoder(Waiting(), path)
    encoder.encode_documents(["a", "b"])
    with ledger.record_calls() as tally:
        encoder.encode_documents(["a", "b"])
    assert tally.correction == pytest.approx(21.0 - 20.0)  # as when the vectors were made


# ---------------------------------------------------------------- what is encoded


def test_each_text_once(path: Path) -> None:
    inner = Plain()
    texts = ["a", "b", "a", "", "\ud800", "b"]
    np.testing.assert_array_equal(CachedEncoder(inner, path).encode_documents(texts), Plain().encode_documents(texts))
    assert inner.seen == [["a", "b", "", "\ud800"]]
    again = Plain()
    vectors = CachedEncoder(again, path).encode_documents([*texts[::-1], "c"])
    np.testing.assert_array_equal(vectors, Plain().encode_documents([*texts[::-1], "c"]))
    assert again.seen == [["c"]]


def test_another_encoder_has_its_own(path: Path) -> None:
    CachedEncoder(Plain(), path).encode_documents(["a"])
    other = Plain(id="other")
    CachedEncoder(other, path).encode_documents(["a"])
    assert other.seen == [["a"]]


def test_questions_are_not_kept(tmp_path: Path) -> None:
    inner = Tokens()
    encoder = CachedEncoder(inner, tmp_path / "no folder" / "vectors.sqlite")
    for _ in range(2):
        np.testing.assert_array_equal(encoder.encode_queries(["a"]), Plain().encode_queries(["a"]))
        encoder.encode_tokens(["b"])
    assert inner.seen == [["a"], ["b"]] * 2
    assert list(tmp_path.iterdir()) == []


def test_tokens_only_where_the_encoder_has_them(path: Path) -> None:
    assert isinstance(CachedEncoder(Tokens(), path), TokenEncoder)
    assert not isinstance(CachedEncoder(Plain(), path), TokenEncoder)
    assert (CachedEncoder(Plain(), path).id, CachedEncoder(Plain(), path).dimensions) == ("plain", 4)


def test_questions_with_tokens_are_shared(path: Path) -> None:
    inner = Tokens()
    encoder = CachedEncoder(inner, path)
    with share_question_vectors():
        vectors, tokens = encoder.encode_queries_with_tokens(["a", "b"])
        np.testing.assert_array_equal(vectors, Plain().encode_queries(["a", "b"]))
        assert [token.spans for token in tokens] == [((0, 1),), ((0, 1),)]
        inner.seen.clear()
        np.testing.assert_array_equal(encoder.encode_queries(["b", "a", "c"]), Plain().encode_queries(["b", "a", "c"]))
    assert inner.seen == [["c"]]


def test_question_time_is_booked(path: Path) -> None:
    encoder = CachedEncoder(Tokens(), path)
    with timing.record_times() as times:
        encoder.encode_queries(["a"])
        before = times.encoder
        encoder.encode_tokens(["a"])
    assert before > 0
    assert times.encoder - before >= 0.01
    assert times.encoder <= times.total


# ---------------------------------------------------------------- what it costs


def test_cost_is_told_as_first_paid(path: Path) -> None:
    tally = _encoded(path, ["aa", "bbbb", "aa"])
    assert tally.first == tally.spent == Usage(0.25, 6, 0, 0.006)

    tally = _encoded(path, ["bbbb", "c" * 10])
    assert tally.spent == Usage(0.25, 10, 0, 0.01)
    share = 6 * 5 / 8  # bbbb and a separator, of the first batch's eight
    assert tally.first.input_tokens == round(share + 10)
    assert tally.first.money == pytest.approx(share / 1000 + 0.01)
    assert tally.correction > 0  # what the kept vector took

    again = _encoded(path, ["bbbb", "c" * 10])
    assert (again.first.input_tokens, again.first.money) == pytest.approx(
        (tally.first.input_tokens, tally.first.money), abs=1e-9
    )
    assert again.spent == Usage()


def test_what_was_paid_is_kept_request_by_request(path: Path) -> None:
    with ledger.record_calls() as tally, pytest.raises(ServiceError):
        CachedEncoder(Paying(fails_at="text 7 "), path).encode_documents(_texts(10))
    inner = Paying()
    with ledger.record_calls() as rest:
        CachedEncoder(inner, path).encode_documents(_texts(10))
    assert inner.seen == [_texts(10)[4:8], _texts(10)[8:]]
    total = sum(map(len, _texts(10)))
    assert tally.spent.input_tokens + rest.spent.input_tokens == total
    assert rest.first.input_tokens == pytest.approx(total, abs=1)


def test_what_the_encoder_raises_is_told_as_its_own(path: Path) -> None:
    class Broken(Plain):
        def encode_documents(self, texts: Sequence[str]) -> Floats:
            raise FileNotFoundError("weights.onnx")

    with pytest.raises(FileNotFoundError, match="weights"):
        CachedEncoder(Broken(), path).encode_documents(["a"])


class Spoilt(Plain):
    """What an encoder must not give."""

    def __init__(self, spoil: Callable[[Floats], Any]) -> None:
        super().__init__()
        self.spoil = spoil

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        vectors: Floats = self.spoil(super().encode_documents(texts))
        return vectors

    encode_queries = encode_documents

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[TokenEmbeddings]]:
        return self.encode_queries(texts), self.encode_tokens(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenEmbeddings]:
        return [TokenEmbeddings((), np.empty((0, 4), np.float32)) for _ in texts]


class SpoiltAndPaid(Spoilt):
    texts_a_request = 8

    def encode_by_request(self, texts: Sequence[str]) -> Iterator[Floats]:
        yield self.encode_documents(texts)


SPOILT = {
    "none": (lambda vectors: vectors[:0], "(0, 4) for 3 texts"),
    "one": (lambda vectors: vectors[0], "(4,) for"),
    "too many": (lambda vectors: np.concatenate([vectors, vectors]), "(6, 4) for 3 texts"),
    "short rows": (lambda vectors: vectors[:, :3], "(3, 3) for 3 texts"),
    "NaN": (lambda vectors: vectors * np.nan, "NaN or infinity"),
}


@pytest.mark.parametrize("how", sorted(SPOILT))
@pytest.mark.parametrize("kind", [Spoilt, SpoiltAndPaid])
def test_what_an_encoder_must_not_give(kind: type[Spoilt], how: str, path: Path) -> None:
    """Nothing of it is kept."""
    spoil, message = SPOILT[how]
    encoder, inner = CachedEncoder(kind(spoil), path), Plain()
    for ask in ("encode_documents", "encode_queries", "encode_passing", "encode_queries_with_tokens"):
        with pytest.raises(
            UsageError, match=f"The encoder plain must give a row of 4 finite numb.*{re.escape(message)}"
        ):
            getattr(encoder, ask)(_texts(3))
    CachedEncoder(inner, path).encode_documents(_texts(3))
    assert inner.seen == [_texts(3)]


@pytest.mark.parametrize("kind", [Spoilt, SpoiltAndPaid])
def test_a_text_whose_vector_is_not_finite_fails_alone(kind: type[Spoilt], path: Path) -> None:
    """It is not kept, also where it is asked for alone, as another text has a vector."""
    bad, good = _texts(2)
    hurt: list[str] = [bad]

    def spoil(rows: Floats) -> Floats:
        return np.where([[text in hurt] for text in encoder.seen[-1]], np.nan, rows).astype(np.float32)

    encoder = kind(spoil)
    cached = CachedEncoder(encoder, path)
    for texts in ([good, bad, good], [bad]):
        vectors, failures = cached.encode_each(texts)
        assert {row: failure.reason for row, failure in failures.items()} == {
            texts.index(bad): "the encoder plain gives NaN or infinity."
        }
        expected = Plain().encode_documents(texts) * [[text != bad] for text in texts]
        np.testing.assert_array_equal(vectors, expected.astype(np.float32))
    with pytest.raises(RequestError, match=f"^The text '{bad}' has no vector: the encoder plain gives NaN"):
        cached.encode_documents([good, bad])
    hurt.clear()
    encoder.seen.clear()
    np.testing.assert_array_equal(cached.encode_documents([good, bad]), Plain().encode_documents([good, bad]))
    assert encoder.seen == [[bad]]


@pytest.mark.parametrize(
    ("kind", "message", "left"), [(Spoilt, "(2, 4) for 3 texts", 3), (SpoiltAndPaid, "(0, 4) for 1 texts", 1)]
)
def test_too_few_rows(kind: type[Spoilt], message: str, left: int, path: Path) -> None:
    """What was paid for is kept."""
    with pytest.raises(UsageError, match=re.escape(message)):
        CachedEncoder(kind(lambda vectors: vectors[:2]), path).encode_documents(_texts(3))
    inner = Plain()
    CachedEncoder(inner, path).encode_documents(_texts(3))
    assert inner.seen == [_texts(3)[-left:]]


def test_money_that_was_not_known_stays_unknown(path: Path) -> None:
    with ledger.record_calls() as tally:
        CachedEncoder(Paying(priced=False), path).encode_documents(["aa"])
    assert tally.unpriced == {"plain"}
    replayed = _encoded(path, ["aa", "b"])
    assert [entry.money for entry in replayed.entries] == [0.001, None]


def test_tokens_that_were_estimated_stay_estimates(path: Path) -> None:
    with ledger.record_calls() as tally:
        CachedEncoder(Paying(estimated=True), path).encode_documents(["aa", "bbbb"])
    assert tally.spent == Usage(0.25, 6, 0, 0.006, estimated=True)
    replayed = _encoded(path, ["bbbb", "aa", "c"])
    assert replayed.spent == Usage(0.25, 1, 0, 0.001)
    assert [(entry.input_tokens, entry.estimated) for entry in replayed.entries] == [(1, False), (6, True)]


def test_vectors_of_an_encoder_that_costs_nothing_are_not_booked(path: Path) -> None:
    CachedEncoder(Plain(), path).encode_documents(["a"])
    with ledger.record_calls() as tally:
        CachedEncoder(Plain(), path).encode_documents(["a"])
    assert tally.entries == ()
    assert tally.correction > 0


def _encoded(path: Path, texts: Sequence[str]) -> ledger.Tally:
    with ledger.record_calls() as tally:
        CachedEncoder(Paying(), path).encode_documents(texts)
    return tally


def test_batches_are_committed_one_by_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_cache, "_BATCH", 3)
    failing = Plain(fails_at="text 7 ")
    with pytest.raises(ServiceError):
        CachedEncoder(failing, path).encode_documents(_texts(10))
    assert failing.seen == [_texts(10)[:3], _texts(10)[3:6]]
    inner = Plain()
    vectors = CachedEncoder(inner, path).encode_documents(_texts(10))
    assert inner.seen == [_texts(10)[6:9], _texts(10)[9:]]
    np.testing.assert_array_equal(vectors, Plain().encode_documents(_texts(10)))


# ---------------------------------------------------------------- threads


def test_threads(path: Path) -> None:
    inner = Plain()
    encoder = CachedEncoder(inner, path)
    jobs = [_texts(40)[i : i + 20] for i in range(20)]
    with ThreadPoolExecutor(8) as pool:
        for job, vectors in zip(jobs, pool.map(encoder.encode_documents, jobs), strict=True):
            np.testing.assert_array_equal(vectors, Plain().encode_documents(job))
    assert sorted(text for batch in inner.seen for text in batch) == sorted(set(_texts(39)))


def test_two_caches_write_one_file(path: Path) -> None:
    encoders = [CachedEncoder(Plain(), path) for _ in range(2)]
    jobs = [_texts(20)[n % 15 : n % 15 + 5] for n in range(30)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda encoder: [encoder.encode_documents(job) for job in jobs], encoders))
    inner = Plain()
    vectors = CachedEncoder(inner, path).encode_documents(_texts(19))
    np.testing.assert_array_equal(vectors, Plain().encode_documents(_texts(19)))
    assert inner.seen == []


# ---------------------------------------------------------------- bad luck


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, timeout=10)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@pytest.mark.parametrize("spoilt", [b"", b"123", b"x" * 20, "text"])
def test_rows_that_are_not_whole_are_encoded_again(path: Path, spoilt: bytes | str) -> None:
    CachedEncoder(Plain(), path).encode_documents(["a", "b"])
    key = hashlib.sha256(b"a").digest()
    with _database(path) as connection:
        connection.execute("UPDATE vectors SET vector = ? WHERE text = ?", (spoilt, key))
    for expected in ([["a"]], []):
        inner = Plain()
        vectors = CachedEncoder(inner, path).encode_documents(["a", "b"])
        np.testing.assert_array_equal(vectors, Plain().encode_documents(["a", "b"]))
        assert inner.seen == expected


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreError, match="is damaged: file is not a database. Its texts .* Run: ragindex repair"):
        CachedEncoder(Plain(), path).encode_documents(["a"])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Cannot use the vector cache .*: unable to open database file"):
        CachedEncoder(Plain(), tmp_path / "nowhere" / "vectors.sqlite").encode_documents(["a"])


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that even the superuser cannot write to")
def test_a_read_only_folder() -> None:
    with pytest.raises(StoreError, match="Cannot use the vector cache .*: unable to open database file"):
        CachedEncoder(Plain(), Path("/proc/self/vectors.sqlite")).encode_documents(["a"])


def test_a_full_disk(path: Path) -> None:
    """The system refuses to let files grow beyond a limit."""
    CachedEncoder(Plain(), path).encode_documents(_texts(10))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 4096, limits[1]))
    try:
        with pytest.raises(StoreError, match="Cannot use the vector cache .*Check free space and write permission"):
            CachedEncoder(Plain(), path).encode_documents(_texts(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)
    inner = Plain()
    np.testing.assert_array_equal(
        CachedEncoder(inner, path).encode_documents(_texts(10)), Plain().encode_documents(_texts(10))
    )
    assert inner.seen == []
