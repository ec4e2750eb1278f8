"""How long one question takes, asked alone: in all, and in the encoder, the store and the method itself."""

import json
import random
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from eval.answering import SURVIVED, retrieve, write_whole
from eval.comparison import Latency, Percentiles
from ragindex.errors import BudgetError
from ragindex.interfaces import Retriever
from ragindex.language import ledger
from ragindex.meter import recording
from ragindex.progress import bar
from ragindex.types import Query

SAMPLE = 200
_WARM_UP = 5
_WHERE = ("total", "encoder", "store", "own")


def sample(queries: Sequence[Query], seed: int) -> list[Query]:
    """At most 200 questions, drawn by the seed."""
    if len(queries) <= SAMPLE:
        return list(queries)
    return random.Random(seed).sample(list(queries), SAMPLE)  # noqa: S311  # a sample, no secret


def measure(retriever: Retriever, queries: Sequence[Query], k: int, kept: Path, label: str) -> Latency:
    """The latency over `queries`, one by one after a warm-up; read from the file `kept` where it was measured before.

    Questions on which the retriever raises are not in it.
    """
    rows = _read(kept)
    if rows is None:
        rows = _timed(retriever, queries, k, label)
        write_whole(kept, json.dumps({"fields": _WHERE, "seconds": rows}).encode())
    total, encoder, store, own = (_percentiles(row[at] * 1e3 for row in rows.values()) for at in range(len(_WHERE)))
    return Latency(total, encoder, store, own, {query_id: row[0] * 1e3 for query_id, row in rows.items()})


def _read(path: Path) -> dict[str, list[float]] | None:
    try:
        rows = json.loads(path.read_bytes())["seconds"].items()
    except (FileNotFoundError, ValueError, KeyError, AttributeError):
        return None
    return {query_id: [float(value) for value in row] for query_id, row in rows}


def _timed(retriever: Retriever, queries: Sequence[Query], k: int, label: str) -> dict[str, list[float]]:
    """Seconds of each question that was answered, in the order of _WHERE."""
    for query in islice(cycle(queries), _WARM_UP):
        _seconds(retriever, query, k)
    rows = {}
    with bar(f"{label}: timing", len(queries)) as advance:
        for query in queries:
            seconds = _seconds(retriever, query, k)
            if seconds is not None:
                rows[query.id] = seconds
            advance(1)
    return rows


def _seconds(retriever: Retriever, query: Query, k: int) -> list[float] | None:
    """None where the question was not answered."""
    try:
        with ledger.recording() as asked, recording() as times:
            retrieve(retriever, [query], k)
    except BudgetError:
        raise
    except SURVIVED:
        return None  # counted as unanswered where the answers are gathered
    replayed = asked.correction  # a kept answer of a language model takes the seconds that it took first
    return [times.total + replayed, times.encoder, times.store, times.own + replayed]


def _percentiles(milliseconds: Iterable[float]) -> Percentiles:
    values = list(milliseconds)
    if not values:
        return Percentiles(None, None)
    p50, p95 = np.percentile(values, (50, 95))
    return Percentiles(float(p50), float(p95))
