"""Cache of document vectors in SQLite, by encoder and text: no text of the index is encoded twice.

A row holds a vector and its share of what its batch first cost. Vectors of questions are not stored, nor those of texts
that are compared with a question only.
"""

import hashlib
import os
import sqlite3
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np

from ragindex._util import durable_files
from ragindex._util.executors import MOST_ITEMS
from ragindex._util.sqlite import require_sqlite_log, use_sqlite_log
from ragindex._util.text import many
from ragindex._util.workers import current_executor
from ragindex.accounting import ledger, timing
from ragindex.encoders import cache_pruning
from ragindex.encoders.on_workers import WorkerEncoder
from ragindex.encoders.paid_vectors import PaidVectors, TextKind, record_replayed_call, vectors_of_this_run
from ragindex.encoders.vectors import PROBE, WordCount, check_token_embeddings, count_words, separate_failures
from ragindex.errors import RequestError, StoreError, UsageError
from ragindex.interfaces import (
    Encoder,
    EncodingFailure,
    Floats,
    QueryEncoder,
    TokenEmbeddings,
    TokenEncoder,
)
from ragindex.llm import key_locks
from ragindex.llm.cache import ResponseCache
from ragindex.types import Span, Usage

_Cost: TypeAlias = tuple[float, float, float, float | None]
"""Seconds, input tokens, output tokens, money; None if the price is unknown. Estimated tokens are negative."""
_BATCH = 256  # texts encoded and committed together, by encoders that cost nothing
_CACHE_KIB = 65_536  # pages of the file in memory while it stays open: keys are hashes, which touch random pages
_KEYS_PER_STATEMENT = 500
_SUM = 4  # bytes of a checksum
_SHOWN = 80  # characters of a text in an error
_PATIENCE = 60.0  # seconds to wait for another process's commit
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    encoder TEXT NOT NULL, text BLOB NOT NULL, vector BLOB NOT NULL,
    seconds REAL NOT NULL, input_tokens REAL NOT NULL, output_tokens REAL NOT NULL, money REAL,
    PRIMARY KEY (encoder, text)
)"""
_READ = "SELECT text, vector, seconds, input_tokens, output_tokens, money FROM vectors WHERE encoder = ? AND text IN "
_WRITE = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?, ?, ?)"
_ADD = "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?, ?, ?, ?)"
_MEAN_SECONDS = (
    "SELECT avg(seconds) FROM (SELECT seconds FROM vectors WHERE encoder = ? ORDER BY rowid DESC LIMIT 1000)"
)

_Work = TypeVar("_Work")

_questions: ContextVar[dict[tuple[str, str], Floats] | None] = ContextVar("ragindex_questions", default=None)


@contextmanager
def share_question_vectors() -> Iterator[None]:
    """Cache question vectors inside the block, so that a method and its base encode a question once."""
    token = _questions.set({} if (shared := _questions.get()) is None else shared)
    try:
        yield
    finally:
        _questions.reset(token)


@dataclass(frozen=True, slots=True)
class _Row:
    """A text's vector and its share of what its batch first cost."""

    vector: Floats
    cost: _Cost


class CachedEncoder(QueryEncoder):
    """An encoder whose document vectors are cached in the SQLite file `path`. Safe for threads and processes.

    With `questions`, a cache of paid answers, it keeps the vectors of questions and of texts compared with them there.
    It is a TokenEncoder if the given encoder is. The file is opened when documents are encoded, so encoding questions
    needs no writable folder. Inside `use_executor`, `on_workers` encodes the texts that are not in the file.
    """

    encode_tokens: Callable[[Sequence[str]], list[TokenEmbeddings]]
    encode_queries_with_tokens: Callable[[Sequence[str]], tuple[Floats, list[TokenEmbeddings]]]

    def __init__(
        self,
        encoder: Encoder,
        path: Path,
        id: str | None = None,
        questions: ResponseCache | None = None,
        on_workers: WorkerEncoder | None = None,
    ) -> None:
        self._encoder, self._path, self._id = encoder, path, id or encoder.id
        self._on_workers = on_workers
        self._paid_vectors = None if questions is None else PaidVectors(questions, questions)
        self._open_until: tuple[tuple[int, int], ExitStack] | None = None
        self._open_connection: sqlite3.Connection | None = None
        self.question_words = WordCount()
        """Of the questions that were encoded since it was opened. Threads may lose some of each other's."""
        if isinstance(encoder, TokenEncoder):
            self.encode_tokens = partial(self._tokens, encoder.encode_tokens)
            self.encode_queries_with_tokens = partial(self._with_tokens, encoder.encode_queries_with_tokens)

    @property
    def id(self) -> str:
        """The encoder's id, or the one given; part of the cache key."""
        return self._id

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return self._encoder.dimensions

    @property
    def max_tokens(self) -> int | None:
        """Those of the encoder."""
        return self._encoder.max_tokens

    def token_spans(self, text: str) -> list[Span]:
        """Call the encoder."""
        return self._encoder.token_spans(text)

    def check_words(self, text: str) -> dict[str, bool] | None:
        """Call the encoder."""
        return self._encoder.check_words(text)

    @property
    def is_full(self) -> bool:
        """Whether the encoder's vocabulary takes no more words."""
        return self._encoder.is_full

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode queries; cached only inside `share_question_vectors` and `remember_paid_questions`, or if kept."""
        shared = _questions.get()
        if shared is None:
            return self._encode_paid("query", self._encoder.encode_queries, texts)
        missing = [text for text in dict.fromkeys(texts) if (self.id, text) not in shared]
        vectors = self._encode_paid("query", self._encoder.encode_queries, missing)
        shared.update({(self.id, text): vector for text, vector in zip(missing, vectors, strict=True)})
        return np.stack([shared[self.id, text] for text in texts]) if texts else self._no_vectors()

    def encode_passing(self, texts: Sequence[str]) -> Floats:
        """Encode texts that are compared with a question but are not in the index (chains of triples).

        They are cached only where paid questions are kept.
        """
        return self._encode_paid("passing", self._encoder.encode_documents, texts)

    def _encode_paid(self, kind: TextKind, encode: Callable[[Sequence[str]], Floats], texts: Sequence[str]) -> Floats:
        """Encode texts, but for those whose vectors are kept by the index or in this run."""
        if kind == "query":
            self._count_words(texts)
        run = None if self._encoder.texts_a_request is None else vectors_of_this_run()
        paid = self._paid_vectors or (None if run is None else run.vectors)
        if paid is None or not texts:
            return self._vectors(encode, texts)
        alone = run.alone if run is not None and kind == "query" else frozenset[str]()
        return np.stack(paid.encode(kind, self.id, texts, partial(self._vectors, encode), alone))

    def _count_words(self, questions: Sequence[str]) -> None:
        self.question_words = sum((count_words(self._encoder, text) for text in questions), self.question_words)

    def _tokens(
        self, encode: Callable[[Sequence[str]], list[TokenEmbeddings]], texts: Sequence[str]
    ) -> list[TokenEmbeddings]:
        """Encode texts, of which some may have NaN or infinity."""
        with _time_encoder():
            embeddings = encode(texts)
        return check_token_embeddings(self.id, self.dimensions, texts, embeddings, finite=False)

    def _with_tokens(
        self, encode: Callable[[Sequence[str]], tuple[Floats, list[TokenEmbeddings]]], texts: Sequence[str]
    ) -> tuple[Floats, list[TokenEmbeddings]]:
        """Inside `share_question_vectors`, the questions need not be encoded again."""
        self._count_words(texts)
        with _time_encoder():
            vectors, embeddings = encode(texts)
        self._check_vectors(vectors, len(texts))
        tokens = check_token_embeddings(self.id, self.dimensions, texts, embeddings)
        shared = _questions.get()
        if shared is not None:
            shared.update({(self.id, text): vector for text, vector in zip(texts, vectors, strict=True)})
        return vectors, tokens

    def _vectors(self, encode: Callable[[Sequence[str]], Floats], texts: Sequence[str]) -> Floats:
        if not texts:
            return self._no_vectors()
        with _time_encoder():
            vectors = encode(texts)
        self._check_vectors(vectors, len(texts))
        return vectors

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """Return vectors, shape (len(texts), dimensions); see `encode_each`. Raises RequestError if one is missing."""
        vectors, failures = self.encode_each(texts)
        for number, failure in failures.items():
            others = f" So have {many(len(failures) - 1, 'other text')}." if len(failures) > 1 else ""
            raise RequestError(f"The text {texts[number][:_SHOWN]!r} has no vector: {failure.reason}{others}")
        return vectors

    def encode_each(self, texts: Sequence[str]) -> tuple[Floats, dict[int, EncodingFailure]]:
        """Return vectors, shape (len(texts), dimensions), and the failures of texts that alone have none, by position.

        Their rows are zero. Only texts that are not in the file are encoded. Cached vectors are recorded in the ledger
        as replayed, with their first cost. Every batch is committed before the next one is encoded; of an encoder that
        costs money, every response before the next request. Threads and processes that encode for the same file with
        the same encoder take turns, and each reads first what the others have written. Raises StoreError if the file
        cannot be read or written.
        """
        keys, failures = [_key(text) for text in texts], dict[bytes, EncodingFailure]()
        texts_by_key = dict(zip(keys, texts, strict=True))
        turn = hashlib.sha256(self.id.encode()).hexdigest()
        with self._connection() as connection:
            cache_pruning.mark_used(connection, self.id, list(texts_by_key))
            rows = self._read_rows(connection, list(texts_by_key))
            missing = [key for key in texts_by_key if key not in rows]
            costs = [row.cost for row in rows.values()]
            size = self._encoder.texts_a_request or _BATCH
            for start in range(0, len(missing), size):
                batch = missing[start : start + size]
                self._send_ahead(texts_by_key[key] for key in missing[start:])
                with key_locks.hold_key(self._path, turn):
                    cached_rows = self._read_rows(connection, batch)  # by another thread or process meanwhile
                    costs += [row.cost for row in cached_rows.values()]
                    rows.update(cached_rows)
                    left = {key: texts_by_key[key] for key in batch if key not in rows}
                    for answer in self._encode_batch(left):
                        if isinstance(answer, dict):
                            self._write_rows(connection, answer)
                            rows.update(answer)
                        else:
                            failures.update([answer])
        self._replay(_sum(costs))
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, key in zip(vectors, keys, strict=True):
            if key not in failures:
                row[:] = rows[key].vector
        return vectors, {number: failures[key] for number, key in enumerate(keys) if key in failures}

    def encoding_ahead(
        self, works: Iterable[_Work], list_texts: Callable[[_Work], Sequence[str]]
    ) -> Generator[_Work, None, None]:
        """Yield pieces of work in order, while workers, if there are any, encode the texts of those that follow.

        Texts in the file are not sent. Close it at last: it stores what was encoded for pieces that were not reached.
        """
        workers, encoder = current_executor(), self._on_workers
        if workers is None or encoder is None:
            yield from works
            return
        waiting = deque[tuple[_Work, Sequence[str]]]()
        try:
            for work in works:
                waiting.append((work, texts := list_texts(work)))
                with self._connection() as connection:
                    keys = {_key(text): text for text in texts}
                    stored = self._read_rows(connection, list(keys))
                encoder.send((text for key, text in keys.items() if key not in stored), workers)
                while encoder.is_full(workers):
                    yield from _pass_on(waiting, encoder)
            while waiting:
                yield from _pass_on(waiting, encoder)
        finally:
            self._store_unclaimed()

    def _store_unclaimed(self) -> None:
        """Store what workers have encoded and nobody has asked for; take the rest back."""
        vectors = {} if self._on_workers is None else self._on_workers.close()
        rows = {
            _key(text): _Row(vector, (seconds, 0.0, 0.0, 0.0))
            for text, (vector, seconds) in vectors.items()
            if vector.shape == (self.dimensions,) and np.isfinite(vector).all()
        }
        if rows:
            with self._connection() as connection:
                self._write_rows(connection, rows, _ADD)

    def _send_ahead(self, texts: Iterator[str]) -> None:
        """Send as many texts to workers, if there are any, as may be under way."""
        workers = current_executor()
        if workers is not None and self._on_workers is not None:
            self._on_workers.send(islice(texts, workers.batches * MOST_ITEMS), workers)

    def _replay(self, first: Usage) -> None:
        """Record in the ledger what cached vectors first cost, if they cost more than time."""
        if not (first.input_tokens or first.output_tokens or first.money is None or first.money):
            ledger.add_time(first.seconds, 0.0)
            return
        record_replayed_call(self.id, first)

    @contextmanager
    def keep_cache_open(self) -> Iterator[None]:
        """Keep the file open inside the block once it is used, for this thread of this process.

        Closing it after each call would rewrite what is new. Commits of an encoder that costs nothing survive the end
        of the process, but maybe not that of the power.
        """
        with ExitStack() as exits:
            self._open_until = (os.getpid(), threading.get_ident()), exits
            try:
                yield
            finally:
                self._open_until = self._open_connection = None

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._open_until is None or self._open_until[0] != (os.getpid(), threading.get_ident()):
            with _open_file(self._path) as connection:
                yield connection
            return
        if self._open_connection is None:
            self._open_connection = self._open_until[1].enter_context(_open_file(self._path))
            self._open_connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            if self._encoder.texts_a_request is None:
                self._open_connection.execute("PRAGMA synchronous = NORMAL")
        with _wrap_errors(self._path):
            yield self._open_connection

    def take_vectors(self, wanted: bool) -> None:
        """Choose whether `forget` keeps vectors until the next pruning; those that were paid for are kept anyway."""
        self.takes_vectors = wanted and self._encoder.texts_a_request is None

    def forget(self, texts: Sequence[str], vectors: Floats | None = None) -> None:
        """Mark texts that have left a part: pruning removes their vectors first, unless they are encoded again.

        While the encoder `takes_vectors`, the part's `vectors` of texts that are not in the file are added to it.
        """
        added = vectors if self.takes_vectors else None
        if texts and (added is not None or self._path.exists()):
            with self._connection() as connection:
                if added is not None:
                    self._add_rows(connection, texts, added)
                cache_pruning.mark_unused(connection, self.id, map(_key, texts))

    def _add_rows(self, connection: sqlite3.Connection, texts: Sequence[str], vectors: Floats) -> None:
        """Add vectors of an encoder that costs only time, with the mean seconds of its others: parts keep none."""
        (mean,) = connection.execute(_MEAN_SECONDS, (self.id,)).fetchone()
        cost: _Cost = (mean or 0.0, 0.0, 0.0, 0.0)
        rows = {_key(text): _Row(vector, cost) for text, vector in zip(texts, vectors, strict=True)}
        self._write_rows(connection, rows, _ADD)

    def _no_vectors(self) -> Floats:
        return np.zeros((0, self.dimensions), dtype=np.float32)

    def _read_rows(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, _Row]:
        """Return the rows of the file by key. A row with a wrong checksum counts as missing, and is replaced."""
        rows: dict[bytes, _Row] = {}
        for start in range(0, len(keys), _KEYS_PER_STATEMENT):
            some = keys[start : start + _KEYS_PER_STATEMENT]
            query = f"{_READ}({','.join('?' * len(some))})"
            for key, blob, *cost in connection.execute(query, (self.id, *some)):
                vector = blob[:-_SUM] if isinstance(blob, bytes) else b""
                if len(vector) == 4 * self.dimensions and blob == _add_checksum(key, vector, cost):
                    rows[key] = _Row(np.frombuffer(vector, dtype="<f4"), (cost[0], cost[1], cost[2], cost[3]))
        return rows

    def _encode_batch(self, batch: Mapping[bytes, str]) -> Iterator[dict[bytes, _Row] | tuple[bytes, EncodingFailure]]:
        """Encode the texts of `batch`; yield failures, and rows: one mapping per request if requests cost money."""
        if not batch:
            return
        left, answers = deque(batch.items()), self._encode_by_request(list(batch.values()))
        while left:
            start = time.perf_counter()
            with ledger.record_calls() as calls:
                vectors = next(answers)
            if isinstance(vectors, EncodingFailure):
                yield left.popleft()[0], vectors
                continue
            paid = replace(calls.spent, seconds=time.perf_counter() - start + calls.correction)
            texts = [left.popleft() for _ in vectors]
            length = sum(len(text) + 1 for _, text in texts)
            yield {
                key: _Row(vector, _share(paid, (len(text) + 1) / length))
                for (key, text), vector in zip(texts, vectors, strict=True)
            }

    def _check_vectors(self, vectors: Floats, count: int, *, finite: bool = True) -> None:
        """Check the array of vectors for `count` texts. Raises UsageError."""
        if vectors.shape != (count, self.dimensions):
            fault = f"an array of {vectors.shape} for {count} texts"
        elif finite and not np.isfinite(vectors).all():
            fault = "NaN or infinity"
        else:
            return
        raise UsageError(
            f"The encoder {self.id} must give a row of {self.dimensions} finite numbers for each text. It gave "
            f"{fault}. Fix the encoder, or choose another with --encoder."
        )

    def _isolate(self, vectors: Floats, count: int) -> Iterator[Floats | EncodingFailure]:
        """Yield the rows for `count` texts, and a failure for each that is not finite. Raises UsageError if all are."""
        self._check_vectors(vectors, count, finite=False)
        faulty = np.flatnonzero(~np.isfinite(vectors).all(axis=1)).tolist()
        if faulty and len(faulty) == count:  # the encoder may be at fault, and not the texts
            self._check_vectors(self._encoder.encode_documents([PROBE]), 1)
        yield from separate_failures(vectors, dict.fromkeys(faulty, f"the encoder {self.id} gives NaN or infinity."))

    def _encode_by_request(self, texts: Sequence[str]) -> Iterator[Floats | EncodingFailure]:
        """Yield the vectors of `texts` in order, one array per request, and a failure for each text without one."""
        workers = current_executor()
        if workers is not None and self._on_workers is not None:
            try:
                vectors = self._on_workers.encode(texts, workers)
            except BaseException:  # what others have encoded is kept
                self._store_unclaimed()
                raise
            yield from self._isolate(vectors, len(texts))
            return
        if self._encoder.texts_a_request is None:
            yield from self._isolate(self._encoder.encode_documents(texts), len(texts))
            return
        left = len(texts)
        for answer in self._encoder.encode_by_request(texts):
            if isinstance(answer, EncodingFailure):
                yield answer
                left -= 1
            else:
                yield from self._isolate(answer, min(len(answer), left) or left)
                left -= len(answer)
        if left:
            self._check_vectors(self._no_vectors(), left)

    def _write_rows(self, connection: sqlite3.Connection, rows: Mapping[bytes, _Row], statement: str = _WRITE) -> None:
        with connection:
            connection.executemany(
                statement,
                [
                    (self.id, key, _add_checksum(key, row.vector.astype("<f4").tobytes(), row.cost), *row.cost)
                    for key, row in rows.items()
                ],
            )


def _pass_on(waiting: deque[tuple[_Work, Sequence[str]]], encoder: WorkerEncoder) -> Iterator[_Work]:
    work, texts = waiting.popleft()
    yield work
    encoder.drop(texts)


def find_stored_texts(path: Path, encoder: str, texts: Sequence[str]) -> set[str]:
    """Return the texts whose vectors by the encoder with an id are in the file `path`. Raises StoreError."""
    keys, stored = {_key(text): text for text in texts}, set[str]()
    with _open_file(path) as connection:
        for start in range(0, len(keys), _KEYS_PER_STATEMENT):
            some = list(keys)[start : start + _KEYS_PER_STATEMENT]
            query = f"{_READ}({','.join('?' * len(some))})"
            stored.update(keys[key] for key, *_ in connection.execute(query, (encoder, *some)))
    return stored


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _add_checksum(key: bytes, vector: bytes, cost: Sequence[float | None]) -> bytes:
    """Append a checksum of the row to the vector, because SQLite has none."""
    cost_text = repr([None if number is None else float(number) for number in cost]).encode()
    return vector + zlib.crc32(cost_text, zlib.crc32(vector, zlib.crc32(key))).to_bytes(_SUM, "little")


def _share(paid: Usage, share: float) -> _Cost:
    money = None if paid.money is None else paid.money * share
    sign = -1 if paid.estimated else 1
    tokens = sign * paid.input_tokens * share, sign * paid.output_tokens * share  # no -0.0, which SQLite stores as 0.0
    return (paid.seconds * share, *tokens, money)


def _sum(costs: Sequence[_Cost]) -> Usage:
    """Add costs; tokens become whole numbers, and money is None if that of one text is."""
    seconds, read, written = (
        sum(map(abs, column)) for column in zip((0.0,) * 3, *(cost[:3] for cost in costs), strict=True)
    )
    estimated = any(tokens < 0 for cost in costs for tokens in cost[1:3])
    paid = [cost[3] for cost in costs if cost[3] is not None]
    return Usage(seconds, round(read), round(written), sum(paid, 0.0) if len(paid) == len(costs) else None, estimated)


@contextmanager
def _time_encoder() -> Iterator[None]:
    """Record the seconds in `ragindex.accounting.timing`; the encoder records tokens and money."""
    start = time.perf_counter()
    try:
        yield
    finally:
        timing.add_seconds("encoder", time.perf_counter() - start)


@contextmanager
def _open_file(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection, so that none is left open or shared with a forked process."""
    key_locks.require_one_name(path)
    with _wrap_errors(path):
        require_sqlite_log(path)
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as connection:
            with key_locks.hold_key(path, "tables"):
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                use_sqlite_log(connection, _PATIENCE)
                for statement in (_SCHEMA, *cache_pruning.PRUNING_SCHEMA):
                    connection.execute(statement)
            yield connection


@contextmanager
def _wrap_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        hint = "Check free space and write permission."
        raise StoreError(f"Cannot use the vector cache {path}: {error}. {hint}") from error
    except sqlite3.DatabaseError as error:
        hint = f"Its texts are then encoded again. {durable_files.repair_hint(path.parent.parent)}"
        raise StoreError(f"The vector cache {path} is damaged: {error}. {hint}") from error
