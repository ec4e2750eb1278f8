"""Vectors that are paid for and belong to no text of the index: of questions, and of texts compared with these.

An index that is only read keeps them in its cache of answers, a comparison in memory while it runs. Either way each is
paid for once, and counts for whoever asks for it with its first cost and time.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Condition
from typing import Literal, TypeAlias

import numpy as np

from ragindex.accounting import ledger, timing
from ragindex.interfaces import Floats
from ragindex.llm.cache import CachedResponse, CallSource, ResponseCache
from ragindex.llm.reading_cache import MemoryCache, StoredAnswers
from ragindex.types import Usage

TextKind: TypeAlias = Literal["query", "passing"]
_MOST_PASSING_BYTES = 256 << 20  # of texts compared with questions, of which a comparison may have very many


class PaidVectors:
    """Vectors of questions and of texts compared with them, kept as paid answers. Thread-safe."""

    def __init__(self, questions: ResponseCache, passing: ResponseCache) -> None:
        self._caches: dict[TextKind, ResponseCache] = {"query": questions, "passing": passing}
        self._in_flight = set[str]()
        self._changed = Condition()

    def encode(
        self,
        kind: TextKind,
        encoder: str,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], Floats],
        alone: Set[str] = frozenset(),
    ) -> list[Floats]:
        """Return the vectors of texts; each is encoded once, however many threads ask for it at the same time.

        Texts that are `alone` are encoded one by one, so that their seconds are those of a text that comes alone.
        Vectors that were paid for before are recorded in the ledger as replayed, with their first cost.
        """
        batch = _Batch(self._caches[kind], kind, encoder, texts)
        while left := batch.look_up(batch.missing()):
            with self._changed:
                mine = [text for text in left if batch.keys[text] not in self._in_flight]
                if not mine:
                    self._changed.wait()
                    continue
                own_keys = {batch.keys[text] for text in mine}
                self._in_flight |= own_keys
            try:
                mine = batch.look_up(mine)  # another thread may have paid since
                together = [text for text in mine if text not in alone]
                for group in (*([text] for text in mine if text in alone), together):
                    batch.pay(group, encode)
            finally:
                with self._changed:
                    self._in_flight -= own_keys
                    self._changed.notify_all()
        batch.record_replayed()
        return [batch.vectors[text] for text in texts]


class _Batch:
    """The texts of one call, with the vectors that there are."""

    def __init__(self, cache: ResponseCache, kind: TextKind, encoder: str, texts: Sequence[str]) -> None:
        self.cache, self.encoder = cache, encoder
        self.keys = {text: _make_key(kind, encoder, text) for text in texts}
        self.vectors: dict[str, Floats] = {}
        self._replayed = list[Usage]()

    def missing(self) -> list[str]:
        return [text for text in self.keys if text not in self.vectors]

    def look_up(self, texts: Sequence[str]) -> list[str]:
        """Read the vectors of texts from the cache; return the texts without one."""
        left = list[str]()
        for text in texts:
            response = self.cache.get(self.keys[text])
            if response is None:
                left.append(text)
            else:
                self.vectors[text] = np.frombuffer(base64.b64decode(response.text), dtype="<f4")
                counts = (response.input_tokens, response.output_tokens)
                self._replayed.append(Usage(response.seconds, *counts, response.money, response.estimated))
        return left

    def pay(self, texts: Sequence[str], encode: Callable[[Sequence[str]], Floats]) -> None:
        """Encode texts together, and keep their vectors.

        One text waits for an equal one in another process. Many do not: requests of others would queue.
        """
        with self.cache.claimed(self.keys[texts[0]]) if len(texts) == 1 else nullcontext():
            left = self.look_up(texts) if len(texts) == 1 else texts
            if not left:
                return
            with ledger.record_calls() as calls:
                rows = encode(left)
            source = CallSource(ledger.EMBEDDING, 1, "encoder", self.encoder, "")
            for number, (text, row) in enumerate(zip(left, rows, strict=True)):
                self.cache.put(self.keys[text], source, _dump_vector(row, _take_share(calls.spent, number, len(left))))
                self.vectors[text] = row

    def record_replayed(self) -> None:
        """Record what the vectors from the cache first cost."""
        if not self._replayed:
            return
        total = sum(self._replayed, Usage())
        timing.add_seconds("replayed", total.seconds)
        record_replayed_call(self.encoder, total)


def record_replayed_call(encoder: str, first: Usage) -> None:
    """Record in the ledger what vectors from a cache first cost, as a call that was not sent."""
    entry = ledger.CallRecord(
        ledger.EMBEDDING,
        encoder,
        input_tokens=first.input_tokens,
        output_tokens=first.output_tokens,
        estimated=first.estimated,
        money=first.money,
        seconds=first.seconds,
        replayed=True,
    )
    ledger.record_call(entry, 0.0)


def _make_key(kind: TextKind, encoder: str, text: str) -> str:
    key_text = json.dumps(["vector", kind, encoder, text])
    return hashlib.sha256(key_text.encode()).hexdigest()


def _dump_vector(vector: Floats, cost: Usage) -> CachedResponse:
    """Return a vector as a paid answer: its text is the array in base64."""
    text = base64.b64encode(vector.astype("<f4").tobytes()).decode()
    counts = (cost.input_tokens, 0, cost.output_tokens, cost.estimated, cost.money, cost.seconds)
    return CachedResponse(text, "stop", "", "vector", *counts, at=time.time())


def _take_share(usage: Usage, number: int, count: int) -> Usage:
    """Return the share of one of `count` texts; the first ones get the tokens that are left over."""
    read = usage.input_tokens // count + (number < usage.input_tokens % count)
    money = None if usage.money is None else usage.money / count
    return Usage(usage.seconds / count, read, 0, money, usage.estimated)


# ---------------------------------------------------------------- while a comparison runs


@dataclass(frozen=True, slots=True)
class RunVectors:
    """The vectors that a run has paid for, and the questions whose times are measured, which are encoded `alone`."""

    vectors: PaidVectors
    alone: frozenset[str]


_of_this_run: ContextVar[RunVectors | None] = ContextVar("ragindex_paid_vectors", default=None)


def vectors_of_this_run() -> RunVectors | None:
    """Return the memory of the block of `remember_paid_questions` that this code runs in."""
    return _of_this_run.get()


@contextmanager
def remember_paid_questions(alone: Iterable[str] = ()) -> Iterator[None]:
    """Pay for the vector of a question once inside the block, whichever methods ask for it; for encoders that cost.

    Questions `alone` are encoded one by one, because their times are measured. Of texts that are compared with
    questions, the latest 256 MiB are remembered. Nothing is written to a file. An outer block remembers for the inner
    ones.
    """
    if _of_this_run.get() is not None:
        yield
        return
    nothing = StoredAnswers(None)
    vectors = PaidVectors(MemoryCache(nothing, most_bytes=None), MemoryCache(nothing, _MOST_PASSING_BYTES))
    token = _of_this_run.set(RunVectors(vectors, frozenset(alone)))
    try:
        yield
    finally:
        _of_this_run.reset(token)
