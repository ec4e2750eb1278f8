"""Cache of document vectors in SQLite, by encoder and text: no text of the index is encoded twice.

Each vector keeps its share of what its batch first cost. Questions never come here, nor what is compared with them.
"""

import hashlib
import sqlite3
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
from filelock import FileLock

from ragindex import durable_files
from ragindex.accounting import ledger, timing
from ragindex.encoders import cache_pruning, token_spans
from ragindex.errors import StoreError, UsageError
from ragindex.interfaces import Encoder, Floats, PaidEncoder, TokenCounter, TokenEmbeddings, TokenEncoder
from ragindex.llm import key_locks
from ragindex.types import Span, Usage

_Made = TypeVar("_Made")
_Cost: TypeAlias = tuple[float, float, float, float | None]
"""Seconds, input tokens, output tokens, money; None where the price was not known."""
_BATCH = 2048  # texts sorted by length, encoded and committed together, by encoders that cost nothing
_ASKED = 500  # keys in one question to SQLite
_SUM = 4  # bytes of a checksum
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
    token = _questions.set({} if (held := _questions.get()) is None else held)
    try:
        yield
    finally:
        _questions.reset(token)


@dataclass(frozen=True, slots=True)
class _Row:
    """A text's vector and its share of what its batch first cost."""

    vector: Floats
    cost: _Cost


class CachedEncoder:
    """An encoder whose document vectors are cached in the SQLite file `path`. Safe for threads and processes.

    It is a TokenEncoder and a TokenCounter where the encoder inside is. Nothing is opened before the first
    document is encoded, so questions need no writable folder.
    """

    max_tokens: int | None
    token_spans: Callable[[str], list[Span]]
    encode_tokens: Callable[[Sequence[str]], list[TokenEmbeddings]]
    encode_queries_with_tokens: Callable[[Sequence[str]], tuple[Floats, list[TokenEmbeddings]]]

    def __init__(self, encoder: Encoder, path: Path, id: str | None = None) -> None:
        self._encoder, self._path, self._id = encoder, path, id or encoder.id
        if isinstance(encoder, TokenEncoder):
            self.encode_tokens = partial(self._tokens, encoder.encode_tokens)
            self.encode_queries_with_tokens = partial(self._with_tokens, encoder.encode_queries_with_tokens)
        if isinstance(encoder, TokenCounter):
            self.max_tokens, self.token_spans = encoder.max_tokens, encoder.token_spans

    @property
    def id(self) -> str:
        """The encoder's id, or the one given; part of the cache key."""
        return self._id

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return self._encoder.dimensions

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode queries; cached only inside `share_question_vectors`."""
        held = _questions.get()
        if held is None:
            return self._vectors(self._encoder.encode_queries, texts)
        missing = [text for text in dict.fromkeys(texts) if (self.id, text) not in held]
        made = self._vectors(self._encoder.encode_queries, missing)
        held.update({(self.id, text): vector for text, vector in zip(missing, made, strict=True)})
        return np.stack([held[self.id, text] for text in texts]) if texts else self._none()

    def encode_passing(self, texts: Sequence[str]) -> Floats:
        """Encode texts that are compared with a question but are not in the index (chains of triples); not cached."""
        return self._vectors(self._encoder.encode_documents, texts)

    def _tokens(
        self, encode: Callable[[Sequence[str]], list[TokenEmbeddings]], texts: Sequence[str]
    ) -> list[TokenEmbeddings]:
        return token_spans.check_token_embeddings(self.id, self.dimensions, texts, _metered(encode)(texts))

    def _with_tokens(
        self, encode: Callable[[Sequence[str]], tuple[Floats, list[TokenEmbeddings]]], texts: Sequence[str]
    ) -> tuple[Floats, list[TokenEmbeddings]]:
        """Inside `share_question_vectors`, the questions need not be encoded again."""
        made, found = self._asked(encode, texts)
        vectors = self._rows(made, len(texts))
        tokens = token_spans.check_token_embeddings(self.id, self.dimensions, texts, found)
        held = _questions.get()
        if held is not None:
            held.update({(self.id, text): vector for text, vector in zip(texts, vectors, strict=True)})
        return vectors, tokens

    def _vectors(self, encode: Callable[[Sequence[str]], Floats], texts: Sequence[str]) -> Floats:
        return self._rows(self._asked(encode, texts), len(texts)) if texts else self._none()

    def _asked(self, encode: Callable[[Sequence[str]], _Made], texts: Sequence[str]) -> _Made:
        """Seconds are booked on `ragindex.accounting.timing`; what it costs is booked by who pays."""
        return _metered(encode)(texts)

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """(len(texts), dimensions); only texts that are not in the file are encoded.

        What is in the file is booked as replayed, with what it first cost. Every batch is committed before the next is
        encoded, and of an encoder that pays every answer before the next request: what was paid is kept. Of all who
        encode for the file with this encoder, in whichever process, one does so at a time, and looks first at what the
        others have made. Raises StoreError where the file fails.
        """
        keys = [_key(text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        turn = hashlib.sha256(self.id.encode()).hexdigest()
        with _opened(self._path) as connection:
            cache_pruning.mark_used(connection, self.id, list(wanted))
            rows = self._held(connection, list(wanted))
            missing = [key for key in wanted if key not in rows]
            held = [row.cost for row in rows.values()]
            size = self._encoder.texts_a_request if isinstance(self._encoder, PaidEncoder) else _BATCH
            for start in range(0, len(missing), size):
                batch = missing[start : start + size]
                with key_locks.hold_key(self._path, turn):
                    found = self._held(connection, batch)
                    held += [row.cost for row in found.values()]
                    rows.update(found)
                    left = {key: wanted[key] for key in batch if key not in rows}
                    for made in self._encoded(left):
                        self._keep(connection, made)
                        rows.update(made)
        self._replay(_sum(held))
        return np.stack([rows[key].vector for key in keys]) if keys else self._none()

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
            money=first.money,
            seconds=first.seconds,
            replayed=True,
        )
        ledger.record_call(entry, 0.0)

    def forget(self, texts: Sequence[str]) -> None:
        """These texts are in a part no more: `pruning` removes their vectors first, unless they are asked for again."""
        if texts and self._path.exists():
            with _opened(self._path) as connection:
                cache_pruning.mark_unused(connection, self.id, map(_key, texts))

    def _none(self) -> Floats:
        return np.zeros((0, self.dimensions), dtype=np.float32)

    def _held(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, _Row]:
        """The rows there are; one that is not as it was written counts as missing, and is replaced."""
        rows: dict[bytes, _Row] = {}
        for start in range(0, len(keys), _ASKED):
            asked = keys[start : start + _ASKED]
            question = f"{_READ}({','.join('?' * len(asked))})"
            for key, blob, *cost in connection.execute(question, (self.id, *asked)):
                vector = blob[:-_SUM] if isinstance(blob, bytes) else b""
                if len(vector) == 4 * self.dimensions and blob == _summed(key, vector, cost):
                    rows[key] = _Row(np.frombuffer(vector, dtype="<f4"), (cost[0], cost[1], cost[2], cost[3]))
        return rows

    def _encoded(self, batch: Mapping[bytes, str]) -> Iterator[dict[bytes, _Row]]:
        """The rows of `batch`, those of each request apart where requests are paid."""
        if not batch:
            return
        left, answers = deque(batch.items()), self._answers(list(batch.values()))
        while left:
            start = time.perf_counter()
            with ledger.record_calls() as asked:
                vectors = next(answers)
            paid = replace(asked.spent, seconds=time.perf_counter() - start)
            texts = [left.popleft() for _ in vectors]
            whole = sum(len(text) + 1 for _, text in texts)
            yield {
                key: _Row(vector, _share(paid, (len(text) + 1) / whole))
                for (key, text), vector in zip(texts, vectors, strict=True)
            }

    def _rows(self, made: Floats, count: int) -> Floats:
        """Check the array of vectors for `count` texts. Raises UsageError."""
        if made.shape != (count, self.dimensions):
            found = f"an array of {made.shape} for {count} texts"
        elif not np.isfinite(made).all():
            found = "NaN or infinity"
        else:
            return made
        raise UsageError(
            f"The encoder {self.id} must give a row of {self.dimensions} finite numbers for each text. It gave "
            f"{found}. Fix the encoder, or choose another with --encoder."
        )

    def _answers(self, texts: Sequence[str]) -> Iterator[Floats]:
        """The rows of `texts`, in as many arrays as there are requests."""
        if not isinstance(self._encoder, PaidEncoder):
            yield self._rows(self._encoder.encode_documents(texts), len(texts))
            return
        left = len(texts)
        for made in self._encoder.encode_by_request(texts):
            yield self._rows(made, min(len(made), left) or left)
            left -= len(made)
        if left:
            self._rows(self._none(), left)

    def _keep(self, connection: sqlite3.Connection, rows: Mapping[bytes, _Row]) -> None:
        with connection:
            connection.executemany(
                _WRITE,
                [
                    (self.id, key, _summed(key, row.vector.astype("<f4").tobytes(), row.cost), *row.cost)
                    for key, row in rows.items()
                ],
            )


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _summed(key: bytes, vector: bytes, cost: Sequence[float | None]) -> bytes:
    """The vector with a checksum of its row: SQLite has none."""
    told = repr([None if one is None else float(one) for one in cost]).encode()
    return vector + zlib.crc32(told, zlib.crc32(vector, zlib.crc32(key))).to_bytes(_SUM, "little")


def _share(paid: Usage, share: float) -> _Cost:
    money = None if paid.money is None else paid.money * share
    return (paid.seconds * share, paid.input_tokens * share, paid.output_tokens * share, money)


def _sum(costs: Iterable[_Cost]) -> Usage:
    """Tokens are shared as fractions and reported as whole numbers; money is unknown if that of one text is."""
    whole = list(costs)
    seconds, read, written = (sum(column) for column in zip((0.0,) * 3, *(cost[:3] for cost in whole), strict=True))
    paid = [cost[3] for cost in whole if cost[3] is not None]
    return Usage(seconds, round(read), round(written), sum(paid, 0.0) if len(paid) == len(whole) else None)


def _metered(work: Callable[[Sequence[str]], _Made]) -> Callable[[Sequence[str]], _Made]:
    def booked(texts: Sequence[str]) -> _Made:
        start = time.perf_counter()
        try:
            return work(texts)
        finally:
            timing.add_seconds("encoder", time.perf_counter() - start)

    return booked


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of this call's own: nothing to close later, nothing shared with a forked process."""
    key_locks.require_one_name(path)
    try:
        durable_files.require_sqlite_log(path)
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as connection:
            _prepare(connection, path)
            yield connection
    except sqlite3.OperationalError as error:
        raise _unusable(path, error) from error
    except sqlite3.DatabaseError as error:
        hint = f"Its texts are then encoded again. {durable_files.repair_hint(path.parent.parent)}"
        raise StoreError(f"The vector cache {path} is damaged: {error}. {hint}") from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    try:
        with FileLock(f"{path}.lock", timeout=_PATIENCE):  # SQLite lets nobody wait for a change of journal mode
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            for statement in (_SCHEMA, *cache_pruning.PRUNING_SCHEMA):
                connection.execute(statement)
    except OSError as error:  # a lock that is not got in time is one too
        raise _unusable(path, error) from error


def _unusable(path: Path, error: Exception) -> StoreError:
    hint = "Make sure that there is space and that the folder may be written."
    return StoreError(f"Cannot use the vector cache {path}: {error}. {hint}")
