"""Texts encoded by the workers of an executor: each once, ahead of the writer, and by the same model."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Timer
from typing import Any, ClassVar

import letters
import numpy as np
import pytest
from letters import Letters, LettersEncoder

import ragindex
from ragindex._util.executors import ExecutorWorkers
from ragindex.accounting import ledger
from ragindex.encoders.on_workers import EncodingRequest, WorkerEncoder, _open_once, make_worker_encoder
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.errors import RagindexError, UsageError
from ragindex.index.index import Index
from ragindex.interfaces import EncoderPlugin, Floats
from ragindex.interfaces.llm import LLMSettings
from ragindex.plugins import registry
from ragindex.types import Document, Query


class Numbered(EncoderPlugin):
    """Its weights are in a file, and so is whether it fails."""

    argument: ClassVar[str] = "file"
    file: str = ""

    def open(self, setting: LLMSettings | None = None) -> "NumberedEncoder":
        return NumberedEncoder(f"numbered {Path(self.file).read_text()}")


class NumberedEncoder(LettersEncoder):
    def encode_documents(self, texts: Sequence[str]) -> Floats:
        if any("deadly" in text for text in texts) and os.environ.get("SPARED") != self.id:
            raise MemoryError("no memory left")
        return self.encode_queries(texts)


class Recording(Executor):
    """Passes work on, and keeps the texts that were sent for encoding."""

    def __init__(self, inner: Executor) -> None:
        self.inner, self.sent, self.most = inner, list[tuple[str, ...]](), 0
        self._open = list[Future[Any]]()

    def submit(self, function: Any, *given: Any, **named: Any) -> Any:  # type: ignore[override]
        future = self.inner.submit(function, *given, **named)
        if requests := [item.texts for item in given[1] if isinstance(item, EncodingRequest)]:  # no other kind of work
            self.sent += requests
            self._open = [*(earlier for earlier in self._open if not earlier.done()), future]
            self.most = max(self.most, len(self._open))
        return future

    @property
    def texts(self) -> list[str]:
        return [text for texts in self.sent for text in texts]


@pytest.fixture
def threads() -> Iterator[Recording]:
    with ThreadPoolExecutor(2) as pool:
        yield Recording(pool)
    _open_once.cache_clear()


def documents(count: int, first: int = 0) -> list[Document]:
    return [Document(f"d{n:04d}", f"Title {n}", f"abc {n} xyz {'q' * (n % 7)}") for n in range(first, first + count)]


def answers(index: Index) -> list[tuple[str, float]]:
    hits = registry.scheme("dense").open(index).retrieve([Query("q", "qqq abc 17")], 50)[0].hits
    return [(hit.id, hit.score) for hit in hits]


def build(folder: Path, count: int, encoder: Any) -> list[tuple[str, float]]:
    with Index.open(folder, encoder=encoder, chunking=None, create=True) as index:
        index.add(documents(count))
        index.build("dense")
        return answers(index)


def test_index_is_that_of_one_process(tmp_path: Path, threads: Recording) -> None:
    """Each text is sent once, in batches of at most 256; an update sends what is new."""
    expected = build(tmp_path / "alone", 1000, Letters())
    encoded = len(letters.ENCODED)
    with ragindex.use_executor(threads, batches=2):
        assert build(tmp_path / "threads", 1000, Letters()) == expected
        assert sorted(threads.texts) == sorted(f"Title {n}\nabc {n} xyz {'q' * (n % 7)}" for n in range(1000))
        assert max(map(len, threads.sent)) == 256
        with Index.open(tmp_path / "threads", encoder=Letters()) as index:
            index.add(documents(10, first=995))
            index.build()
    assert len(letters.ENCODED) - encoded == len(threads.texts) == 1005  # workers are threads of this process


def test_processes_give_what_threads_give(tmp_path: Path) -> None:
    expected = build(tmp_path / "alone", 300, Letters())
    letters.ENCODED.clear()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool, ragindex.use_executor(recording := Recording(pool)):
        assert build(tmp_path / "processes", 300, Letters()) == expected
    assert len(recording.texts) == 300
    assert letters.ENCODED == []


def test_batches_are_bounded_by_bytes(threads: Recording) -> None:
    wide, long = WorkerEncoder(Letters(), "letters", 4096), WorkerEncoder(Letters(), "letters", 26)
    wide.send((str(number) for number in range(300)), ExecutorWorkers(threads, 8))
    assert list(map(len, threads.sent)) == [128, 128, 44]  # 2 MB of vectors
    threads.sent.clear()
    long.send((f"{number}{'x' * 900_000}" for number in range(5)), ExecutorWorkers(threads, 8))
    assert list(map(len, threads.sent)) == [2, 2, 1]  # 2 MB of texts


def test_no_more_batches_are_under_way_than_may_be(threads: Recording) -> None:
    encoder, texts, released = Letters().open(), [f"text {number}" for number in range(1000)], Event()
    for _ in range(2):
        threads.inner.submit(released.wait)  # both threads are busy while the first batches are sent
    Timer(0.2, released.set).start()
    vectors = WorkerEncoder(Letters(), encoder.id, 26).encode(texts, ExecutorWorkers(threads, 2))
    assert threads.most <= 2
    assert list(map(len, threads.sent)) == [256, 256, 256, 232]
    assert vectors.tolist() == encoder.encode_documents(texts).tolist()


def test_failed_batch_keeps_what_is_done(tmp_path: Path, threads: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names batch and worker; the same build goes on, and encodes nothing twice."""
    (tmp_path / "weights").write_text("1")
    encoder = Numbered(file=str(tmp_path / "weights"))
    deadly = Document("d0500", "Title 500", "deadly")
    with Index.open(tmp_path / "index", encoder=encoder, chunking=None, create=True) as index:
        index.add([*documents(500), deadly, *documents(499, first=501)])
        expected = r"^Batch 2 of encoding \(256 texts from 'Title 256.*\) failed \(MemoryError: no memory left\)"
        with ragindex.use_executor(threads):
            with pytest.raises(RagindexError, match=expected):
                index.build("dense")
            (lost,) = [texts for texts in threads.sent if any("deadly" in text for text in texts)]
            sent = len(threads.texts)
            assert sent == 1000
            monkeypatch.setenv("SPARED", "numbered 1")
            index.build("dense")
        assert sorted(threads.texts[sent:]) == sorted(lost)
        assert index.counts().passages == 1000


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("2", r"The encoder .*Numbered.* of worker .+ is another .* id is numbered 2, where numbered 1 is expected"),
        (None, r"The encoder .* cannot be opened on worker .+, which needs its files and packages: .*No such file"),
    ],
    ids=["other weights", "no model"],
)
def test_worker_with_another_model_is_refused(
    tmp_path: Path, threads: Recording, weights: str | None, expected: str
) -> None:
    file = tmp_path / "weights"
    file.write_text("1")
    with Index.open(tmp_path / "index", encoder=Numbered(file=str(file)), chunking=None, create=True) as index:
        index.add(documents(3))
        index.encoders.open(None)
        file.unlink()
        if weights is not None:
            file.write_text(weights)
        with ragindex.use_executor(threads), pytest.raises(UsageError, match=expected):
            index.build("dense")


def test_only_local_pretrained_encoders_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lsa = registry.encoder("lsa")
    lsa.fit(["one two", "two three"], "english", 0, tmp_path)  # type: ignore[union-attr]
    assert make_worker_encoder(lsa, lsa.load(tmp_path)) is None  # type: ignore[arg-type,union-attr]
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    paid = registry.encoder("openai(model=text-embedding-3-small, dimensions=48)")
    assert make_worker_encoder(paid, paid.open(LLMSettings())) is None  # type: ignore[arg-type,union-attr]
    assert make_worker_encoder(Letters(), LettersEncoder()) is not None


def test_only_misses_are_sent(tmp_path: Path, threads: Recording) -> None:
    encoder = CachedEncoder(
        LettersEncoder(), tmp_path / "vectors.sqlite", on_workers=WorkerEncoder(Letters(), "letters", 26)
    )
    texts = [f"text {number}" for number in range(3000)]
    alone = encoder.encode_documents(texts[:100])
    with ragindex.use_executor(threads, batches=4), ledger.record_calls() as calls:
        vectors = encoder.encode_documents([*texts, *texts])
    assert np.array_equal(vectors[:100], alone)
    assert np.array_equal(vectors, LettersEncoder().encode_queries([*texts, *texts]))
    assert sorted(threads.texts) == sorted(texts[100:])
    assert calls.entries == ()
