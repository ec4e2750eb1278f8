"""Cache of document vectors in SQLite, by encoder and text: no text of the index is encoded twice.

A row holds a vector and its share of what its batch first cost. Vectors of questions are not stored, nor those of texts
that are compared with a question only.
"""

import base64
import hashlib
import json
import sqlite3
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from threading import Condition
from typing import TypeAlias

import numpy as np

from ragindex._util import durable_files
from ragindex._util.sqlite import require_sqlite_log, use_sqlite_log
from ragindex._util.text import many
from ragindex.accounting import ledger, timing
from ragindex.encoders import cache_pruning
from ragindex.encoders.vectors import PROBE, check_token_embeddings, separate_failures
from ragindex.encoders.word_counts import WordCount, count_words
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
from ragindex.llm.cache import CachedResponse, CallSource, ResponseCache
from ragindex.types import Span, Usage

_Cost: TypeAlias = tuple[float, float, float, float | None]
"""Seconds, input tokens, output tokens, money; None if the price is unknown. Estimated tokens are negative."""
_BATCH = 2048  # texts sorted by length, encoded and committed together, by encoders that cost nothing
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
class _QuestionVector:
    """The vector of a question, and its share of what its request cost."""

    vector: Floats
    cost: Usage


@dataclass(eq=False, slots=True)
class _PaidQuestions:
    """The vectors of questions that were paid for inside `remember_paid_questions`. Thread-safe.

    The texts in `alone` are encoded one by one, so that their seconds are those of a question that comes alone.
    """

    alone: Set[str]
    vectors: dict[tuple[str, str], _QuestionVector] = field(default_factory=dict)
    in_flight: set[tuple[str, str]] = field(default_factory=set)
    changed: Condition = field(default_factory=Condition)

    def encode(self, id: str, texts: Sequence[str], encode: Callable[[Sequence[str]], Floats]) -> list[Floats]:
        """Return the vectors of texts; each is encoded once, however many threads ask for it at the same time.

        Vectors that were paid for before are recorded in the ledger as replayed, with their first cost.
        """
        keys, paid = {(id, text): text for text in texts}, set[tuple[str, str]]()
        while True:
            with self.changed:
                while not (missing := [key for key in keys if key not in self.vectors]):
                    vectors = [self.vectors[id, text] for text in texts]
                    self._replay(id, [self.vectors[key].cost for key in keys if key not in paid])
                    return [each.vector for each in vectors]
                mine = [key for key in missing if key not in self.in_flight]
                if not mine:
                    self.changed.wait()
                    continue
                self.in_flight.update(mine)
            paid.update(mine)
            try:
                self._pay(mine, encode)
            finally:
                with self.changed:
                    self.in_flight.difference_update(mine)
                    self.changed.notify_all()

    def _pay(self, keys: Sequence[tuple[str, str]], encode: Callable[[Sequence[str]], Floats]) -> None:
        together = [key for key in keys if key[1] not in self.alone]
        for group in (*([key] for key in keys if key[1] in self.alone), *([together] if together else [])):
            with ledger.record_calls() as calls:
                rows = encode([text for _, text in group])
            with self.changed:
                for number, (key, row) in enumerate(zip(group, rows, strict=True)):
                    self.vectors[key] = _QuestionVector(row, _take_share(calls.spent, number, len(group)))

    def _replay(self, id: str, costs: Sequence[Usage]) -> None:
        if not costs:
            return
        total = sum(costs, Usage())
        timing.add_seconds("replayed", total.seconds)
        entry = ledger.CallRecord(
            ledger.EMBEDDING,
            id,
            input_tokens=total.input_tokens,
            estimated=total.estimated,
            money=total.money,
            seconds=total.seconds,
            replayed=True,
        )
        ledger.record_call(entry, 0.0)


def _take_share(usage: Usage, number: int, count: int) -> Usage:
    """Return the share of one of `count` texts; the first ones get the tokens that are left over."""
    read = usage.input_tokens // count + (number < usage.input_tokens % count)
    money = None if usage.money is None else usage.money / count
    return Usage(usage.seconds / count, read, 0, money, usage.estimated)


_paid_questions: ContextVar[_PaidQuestions | None] = ContextVar("ragindex_paid_questions", default=None)


@contextmanager
def remember_paid_questions(alone: Iterable[str] = ()) -> Iterator[None]:
    """Pay for the vector of a question once inside the block, whichever methods ask for it; for encoders that cost.

    Questions `alone` are encoded one by one, because their times are measured. Nothing is written to a file. An outer
    block remembers for the inner ones.
    """
    if _paid_questions.get() is not None:
        yield
        return
    token = _paid_questions.set(_PaidQuestions(frozenset(alone)))
    try:
        yield
    finally:
        _paid_questions.reset(token)


@dataclass(frozen=True, slots=True)
class _Row:
    """A text's vector and its share of what its batch first cost."""

    vector: Floats
    cost: _Cost


class CachedEncoder(QueryEncoder):
    """An encoder whose document vectors are cached in the SQLite file `path`. Safe for threads and processes.

    With `questions`, a cache of paid answers, it keeps the vectors of questions and of texts compared with them there.
    It is a TokenEncoder if the given encoder is. The file is opened when documents are encoded, so encoding questions
    needs no writable folder.
    """

    encode_tokens: Callable[[Sequence[str]], list[TokenEmbeddings]]
    encode_queries_with_tokens: Callable[[Sequence[str]], tuple[Floats, list[TokenEmbeddings]]]

    def __init__(
        self, encoder: Encoder, path: Path, id: str | None = None, questions: ResponseCache | None = None
    ) -> None:
        self._encoder, self._path, self._id, self._paid_questions = encoder, path, id or encoder.id, questions
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
        """Whether the encoder has no room for more words."""
        return self._encoder.is_full

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode queries; cached only inside `share_question_vectors` and `remember_paid_questions`, or if kept."""
        shared = _questions.get()
        if shared is None:
            return self._encode_questions(texts)
        missing = [text for text in dict.fromkeys(texts) if (self.id, text) not in shared]
        vectors = self._encode_questions(missing)
        shared.update({(self.id, text): vector for text, vector in zip(missing, vectors, strict=True)})
        return np.stack([shared[self.id, text] for text in texts]) if texts else self._no_vectors()

    def _encode_questions(self, texts: Sequence[str]) -> Floats:
        self._count_words(texts)
        remembered = None if self._encoder.texts_a_request is None else _paid_questions.get()
        if remembered is None or not texts:
            return self._encode_paid("query", self._encoder.encode_queries, texts)
        encode = partial(self._encode_paid, "query", self._encoder.encode_queries)
        return np.stack(remembered.encode(self.id, texts, encode))

    def encode_passing(self, texts: Sequence[str]) -> Floats:
        """Encode texts that are compared with a question but are not in the index (chains of triples).

        They are cached only where paid questions are kept.
        """
        return self._encode_paid("passing", self._encoder.encode_documents, texts)

    def _encode_paid(self, kind: str, encode: Callable[[Sequence[str]], Floats], texts: Sequence[str]) -> Floats:
        """Encode texts, but for those whose vectors are kept with the paid answers."""
        cache = self._paid_questions
        if cache is None or not texts:
            return self._vectors(encode, texts)
        keys = {text: _question_key(kind, self.id, text) for text in texts}
        # One question waits for an equal one in flight. Many texts do not: requests of other threads would queue.
        with cache.claimed(next(iter(keys.values()))) if len(keys) == 1 else nullcontext():
            responses = {text: response for text, key in keys.items() if (response := cache.get(key)) is not None}
            vectors = {text: _load_vector(response) for text, response in responses.items()}
            missing = [text for text in keys if text not in vectors]
            for text, vector, cost in self._pay_vectors(encode, missing):
                cache.put(
                    keys[text], CallSource(ledger.EMBEDDING, 1, "encoder", self.id, ""), _dump_vector(vector, cost)
                )
                vectors[text] = vector
        self._replay(reduce(add, (_usage_of(response) for response in responses.values()), Usage()))
        return np.stack([vectors[text] for text in texts])

    def _count_words(self, questions: Sequence[str]) -> None:
        self.question_words = reduce(add, (count_words(self._encoder, text) for text in questions), self.question_words)

    def _pay_vectors(
        self, encode: Callable[[Sequence[str]], Floats], texts: Sequence[str]
    ) -> Iterator[tuple[str, Floats, Usage]]:
        """Yield texts with their vectors and their shares of what these cost."""
        if not texts:
            return
        start = time.perf_counter()
        with ledger.record_calls() as calls:
            vectors = self._vectors(encode, texts)
        paid = replace(calls.spent, seconds=time.perf_counter() - start)
        length = sum(len(text) + 1 for text in texts)
        for text, vector in zip(texts, vectors, strict=True):
            seconds, read, written, money = _share(paid, (len(text) + 1) / length)
            yield text, vector, Usage(seconds, round(abs(read)), round(abs(written)), money, paid.estimated)

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
        wanted = dict(zip(keys, texts, strict=True))
        turn = hashlib.sha256(self.id.encode()).hexdigest()
        with _open_file(self._path) as connection:
            cache_pruning.mark_used(connection, self.id, list(wanted))
            rows = self._read_rows(connection, list(wanted))
            missing = [key for key in wanted if key not in rows]
            costs = [row.cost for row in rows.values()]
            size = self._encoder.texts_a_request or _BATCH
            for start in range(0, len(missing), size):
                batch = missing[start : start + size]
                with key_locks.hold_key(self._path, turn):
                    written = self._read_rows(connection, batch)  # by another thread or process meanwhile
                    costs += [row.cost for row in written.values()]
                    rows.update(written)
                    left = {key: wanted[key] for key in batch if key not in rows}
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

    def _replay(self, first: Usage) -> None:
        """Record in the ledger what cached vectors first cost, if they cost more than time."""
        if not (first.input_tokens or first.output_tokens or first.money is None or first.money):
            ledger.add_time(first.seconds, 0.0)
            return
        entry = ledger.CallRecord(
            ledger.EMBEDDING,
            self.id,
            input_tokens=first.input_tokens,
            output_tokens=first.output_tokens,
            estimated=first.estimated,
            money=first.money,
            seconds=first.seconds,
            replayed=True,
        )
        ledger.record_call(entry, 0.0)

    def forget(self, texts: Sequence[str]) -> None:
        """Mark texts that have left a part: pruning removes their vectors first, unless they are encoded again."""
        if texts and self._path.exists():
            with _open_file(self._path) as connection:
                cache_pruning.mark_unused(connection, self.id, map(_key, texts))

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

    def _write_rows(self, connection: sqlite3.Connection, rows: Mapping[bytes, _Row]) -> None:
        with connection:
            connection.executemany(
                _WRITE,
                [
                    (self.id, key, _add_checksum(key, row.vector.astype("<f4").tobytes(), row.cost), *row.cost)
                    for key, row in rows.items()
                ],
            )


def _question_key(kind: str, encoder: str, text: str) -> str:
    written = json.dumps(["vector", kind, encoder, text])
    return hashlib.sha256(written.encode()).hexdigest()


def _dump_vector(vector: Floats, cost: Usage) -> CachedResponse:
    """Return a vector as a paid answer: its text is the array in base64."""
    text = base64.b64encode(vector.astype("<f4").tobytes()).decode()
    counts = (cost.input_tokens, 0, cost.output_tokens, cost.estimated, cost.money, cost.seconds)
    return CachedResponse(text, "stop", "", "vector", *counts, at=time.time())


def _load_vector(response: CachedResponse) -> Floats:
    return np.frombuffer(base64.b64decode(response.text), dtype="<f4")


def _usage_of(response: CachedResponse) -> Usage:
    counts = (response.input_tokens, response.output_tokens)
    return Usage(response.seconds, *counts, response.money, response.estimated)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _add_checksum(key: bytes, vector: bytes, cost: Sequence[float | None]) -> bytes:
    """Append a checksum of the row to the vector, because SQLite has none."""
    written = repr([None if number is None else float(number) for number in cost]).encode()
    return vector + zlib.crc32(written, zlib.crc32(vector, zlib.crc32(key))).to_bytes(_SUM, "little")


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
    """Open a connection for one call, so that none is left open or shared with a forked process."""
    key_locks.require_one_name(path)
    try:
        require_sqlite_log(path)
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as connection:
            with key_locks.hold_key(path, "tables"):
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                use_sqlite_log(connection, _PATIENCE)
                for statement in (_SCHEMA, *cache_pruning.PRUNING_SCHEMA):
                    connection.execute(statement)
            yield connection
    except sqlite3.OperationalError as error:
        hint = "Check free space and write permission."
        raise StoreError(f"Cannot use the vector cache {path}: {error}. {hint}") from error
    except sqlite3.DatabaseError as error:
        hint = f"Its texts are then encoded again. {durable_files.repair_hint(path.parent.parent)}"
        raise StoreError(f"The vector cache {path} is damaged: {error}. {hint}") from error
