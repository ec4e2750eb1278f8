"""How long one question takes, asked alone: in all, and in the encoder, the store and the method itself.

All methods of a comparison are timed together once everything is answered, and take turns of a few questions: a machine
that is busy for a while is busy for all of them.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from threading import Lock

import numpy as np

from eval.answering import SURVIVED, retrieve, write_whole
from eval.comparison import NO_USAGE, NOT_TIMED, Latency, Percentiles
from ragindex import durable
from ragindex.errors import BudgetError
from ragindex.interfaces import IndexingScheme, Retriever
from ragindex.language import ledger
from ragindex.meter import recording
from ragindex.progress import bar
from ragindex.types import Query, Retrieval, Usage
from ragindex.workspace import Workspace

SAMPLE = 200
_TURN = 25  # questions: long enough that the first one, after other methods had the processor's caches, is one of many
_WARM_UP = 5
_WHERE = ("total", "encoder", "store", "own")


@dataclass(slots=True)
class OpenedLater:
    """A scheme's retriever, opened when the first question comes: what was answered before needs no open index."""

    scheme: IndexingScheme
    workspace: Workspace
    opened: Retriever | None = None
    lock: Lock = field(default_factory=Lock)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Passed on."""
        with self.lock:
            self.opened = self.opened or self.scheme.open(self.workspace)
        return self.opened.retrieve(queries, k)

    def searches(self) -> list[str]:
        """How each of its parts is searched, as what else is in memory now lets it."""
        return [self.workspace.figures(part).search for part in self.workspace.all_parts(self.scheme)]

    def close(self) -> None:
        """Let go of what is in memory; the next question opens it again."""
        self.opened = None
        self.workspace.close()


@dataclass(slots=True)
class Timing:
    """A method to be timed: the file that its times are kept in, the questions that it failed on, and what was paid.

    `alone` is how its parts are searched while nothing else is in memory.
    """

    label: str
    retriever: OpenedLater
    kept: Path
    failed: Collection[str] = ()
    alone: Sequence[str] = ()
    tallies: list[ledger.Tally] = field(default_factory=list)

    @property
    def latency(self) -> Latency:
        """What is kept; NOT_TIMED where nothing is."""
        rows = _read(self.kept)
        if rows is None:
            return NOT_TIMED
        total, encoder, store, own = (_percentiles(row[at] * 1e3 for row in rows.values()) for at in range(len(_WHERE)))
        return Latency(total, encoder, store, own, {query_id: row[0] * 1e3 for query_id, row in rows.items()})

    @property
    def spent(self) -> Usage:
        """What timing paid for."""
        return sum((tally.spent for tally in self.tallies), NO_USAGE)

    @property
    def stages(self) -> dict[str, Counter[str]]:
        """As a Tally has them."""
        added: dict[str, Counter[str]] = {}
        for tally in self.tallies:
            for task, counts in tally.stages.items():
                added.setdefault(task, Counter()).update(counts)
        return added


def sample(queries: Sequence[Query], seed: int) -> list[Query]:
    """At most 200 questions, drawn by the seed."""
    if len(queries) <= SAMPLE:
        return list(queries)
    return random.Random(seed).sample(list(queries), SAMPLE)  # noqa: S311  # a sample, no secret


def measure(timings: Sequence[Timing], queries: Sequence[Query], k: int) -> None:
    """Time those methods that were not timed before, over `queries` one by one after a warm-up, and keep their times.

    They take turns, where all of them fit into memory together; else one is timed after the other. Questions on which
    a retriever raises are not in its latency.
    """
    waiting = {one.kept: one for one in reversed(timings) if _read(one.kept) is None}  # equal methods have one file
    for together in _together(list(reversed(waiting.values())), queries, k):
        rows = _in_turns(together, queries, k)
        for one, seconds in zip(together, rows, strict=True):
            write_whole(one.kept, durable.sealed({"fields": _WHERE, "seconds": seconds}))
        _close(together)


def _together(timings: Sequence[Timing], queries: Sequence[Query], k: int) -> Iterator[Sequence[Timing]]:
    """Those that are timed together, warmed up: all, where each is searched as it is when it is alone."""
    for one in timings:
        _warm_up(one, queries, k)
    if all(list(one.alone) == one.retriever.searches() for one in timings):
        yield timings
        return
    _close(timings)
    for one in timings:
        _warm_up(one, queries, k)
        yield [one]


def _close(timings: Sequence[Timing]) -> None:
    for one in timings:
        one.retriever.close()


def _warm_up(one: Timing, queries: Sequence[Query], k: int) -> None:
    for query in islice(cycle(_of(one, queries)), _WARM_UP):
        _seconds(one, query, k)


def _of(one: Timing, queries: Sequence[Query]) -> list[Query]:
    return [query for query in queries if query.id not in one.failed]


def _in_turns(timings: Sequence[Timing], queries: Sequence[Query], k: int) -> list[dict[str, list[float]]]:
    """Of each method, the seconds of each question that was answered, in the order of _WHERE.

    Every other turn begins with the last method: what grows steadily grows for all alike.
    """
    rows: list[dict[str, list[float]]] = [{} for _ in timings]
    with bar("timing", len(timings) * len(queries)) as advance:
        for start in range(0, len(queries), _TURN):
            turn = queries[start : start + _TURN]
            order = list(zip(timings, rows, strict=True))
            for one, row in order if start // _TURN % 2 == 0 else reversed(order):
                row.update(_timed(one, _of(one, turn), k))
                advance(len(turn))
    return rows


def _timed(one: Timing, queries: Sequence[Query], k: int) -> Iterator[tuple[str, list[float]]]:
    for query in queries:
        seconds = _seconds(one, query, k)
        if seconds is not None:
            yield query.id, seconds


def _seconds(one: Timing, query: Query, k: int) -> list[float] | None:
    """None where the question was not answered."""
    with ledger.attributed(method=one.label), ledger.recording() as asked:
        one.tallies.append(asked)
        try:
            with recording() as times:
                retrieve(one.retriever, [query], k)
        except BudgetError:
            raise
        except SURVIVED:
            return None  # counted as unanswered where the answers are gathered
    replayed = asked.correction  # a kept answer of a language model takes the seconds that it took first
    return [times.total + replayed, times.encoder, times.store, times.own + replayed]


def _read(path: Path) -> dict[str, list[float]] | None:
    try:
        value = durable.unsealed(path.read_bytes())
    except FileNotFoundError:
        return None
    if value is None:  # not as it was written: timed again
        return None
    rows = value["seconds"].items()
    return {query_id: [float(value) for value in row] for query_id, row in rows}


def _percentiles(milliseconds: Iterable[float]) -> Percentiles:
    values = list(milliseconds)
    if not values:
        return Percentiles(None, None)
    p50, p95 = np.percentile(values, (50, 95))
    return Percentiles(float(p50), float(p95))
