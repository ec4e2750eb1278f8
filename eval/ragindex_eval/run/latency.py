"""How long one question takes, asked alone: in all, and in the encoder, the store and the method itself.

All methods of a comparison are timed together once everything is answered, and take turns of a few questions: a machine
that is busy for a while is busy for all of them. Times that were kept are used again only where those of all methods
were taken in one run: a table never holds times of different days.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from threading import Lock
from uuid import uuid4

import numpy as np

from ragindex import durable_files
from ragindex.accounting import ledger
from ragindex.accounting.timing import record_times
from ragindex.canonical import digest
from ragindex.interfaces import Retriever, Scheme
from ragindex.progress import bar
from ragindex.types import Query, Retrieval, Usage
from ragindex.workspace.workspace import Workspace
from ragindex_eval.results.model import NO_USAGE, NOT_TIMED, Latency, Percentiles
from ragindex_eval.run.ask import SURVIVED, ends_all, retrieve, write_whole
from ragindex_eval.run.environment import environment

SAMPLE = 200
_TURN = 25  # questions: long enough that the first one, after other methods had the processor's caches, is one of many
_WARM_UP = 5
_WHERE = ("total", "encoder", "store", "own")


@dataclass(slots=True)
class OpenedLater:
    """A scheme's retriever, opened when the first question comes: what was answered before needs no open index."""

    scheme: Scheme
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


@dataclass(frozen=True, slots=True)
class Timed:
    """The times of one method, taken in the timing `run` that began at `taken` (UTC), of the questions `asked`.

    `seconds` are by query id, in the order of _WHERE; questions that were not answered have none.
    """

    run: str
    taken: str
    asked: tuple[str, ...]
    seconds: Mapping[str, Sequence[float]]


@dataclass(slots=True)
class Timing:
    """A method to be timed: the file that its times are kept in, the questions that it failed on, and what was paid.

    `alone` is how its parts are searched while nothing else is in memory. `timed` is what `measure` took or read.
    """

    label: str
    retriever: OpenedLater
    kept: Path
    failed: Collection[str] = ()
    alone: Sequence[str] = ()
    tallies: list[ledger.Tally] = field(default_factory=list)
    timed: Timed | None = None

    @property
    def latency(self) -> Latency:
        """What was taken; NOT_TIMED where nothing was."""
        if self.timed is None:
            return NOT_TIMED
        rows = self.timed.seconds
        total, encoder, store, own = (_percentiles(row[at] * 1e3 for row in rows.values()) for at in range(len(_WHERE)))
        whole = {query_id: row[0] * 1e3 for query_id, row in rows.items()}
        return Latency(total, encoder, store, own, whole, self.timed.taken)

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


def file_name(k: int) -> str:
    """Where the times of a method at `k` are kept: times of another machine or of other versions are not these."""
    return f"latency-{k}-{digest(dict(environment()))}.json"


def measure(timings: Sequence[Timing], queries: Sequence[Query], k: int) -> None:
    """Time the methods over `queries` one by one after a warm-up, and keep their times.

    All of them, unless all were timed in one run before: times of different runs are not compared. They take turns,
    where all of them fit into memory together; else one is timed after the other. Questions on which a retriever
    raises are not in its latency, and a method that was timed on none has no times.
    """
    wanted = [one for one in timings if _of(one, queries)]
    held = [_held(one, queries) for one in wanted]
    if None in held or len({one.run for one in held if one}) > 1:
        taken = _taken({one.kept: one for one in reversed(wanted)}, queries, k)  # equal methods have one file
        held = [taken.get(one.kept) for one in wanted]
    for one, times in zip(wanted, held, strict=True):
        one.timed = times


def _taken(waiting: Mapping[Path, Timing], queries: Sequence[Query], k: int) -> dict[Path, Timed]:
    """What is measured now, by file. The times of earlier runs are gone from the first question on."""
    moment, found = datetime.now(UTC).isoformat(timespec="seconds"), dict[Path, Timed]()
    run = f"{moment} {uuid4().hex[:8]}"
    for path in waiting:
        path.unlink(missing_ok=True)
    for together in _together(list(waiting.values())[::-1], queries, k):
        rows = _in_turns(together, queries, k)
        for one, seconds in zip(together, rows, strict=True):
            if seconds:
                times = Timed(run, moment, tuple(query.id for query in _of(one, queries)), seconds)
                write_whole(one.kept, durable_files.dump_hashed_json({"fields": _WHERE, **asdict(times)}))
                found[one.kept] = times
        _close(together)
    return found


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
    with ledger.attribute_calls(method=one.label), ledger.record_calls() as asked:
        one.tallies.append(asked)
        try:
            with record_times() as times:
                retrieve(one.retriever, [query], k)
        except SURVIVED as error:
            if ends_all(error):
                raise
            return None  # counted as unanswered where the answers are gathered
    replayed = asked.correction  # a kept answer of a language model takes the seconds that it took first
    return [times.total + replayed, times.encoder, times.store, times.own + replayed]


def _held(one: Timing, queries: Sequence[Query]) -> Timed | None:
    """The times that are kept, where they are of the same questions."""
    try:
        value = durable_files.load_hashed_json(one.kept.read_bytes())
    except FileNotFoundError:
        return None
    if value is None:  # not as it was written: timed again
        return None
    rows = {query_id: [float(part) for part in row] for query_id, row in value["seconds"].items()}
    times = Timed(value["run"], value["taken"], tuple(value["asked"]), rows)
    return times if rows and times.asked == tuple(query.id for query in _of(one, queries)) else None


def _percentiles(milliseconds: Iterable[float]) -> Percentiles:
    values = list(milliseconds)
    if not values:
        return Percentiles(None, None)
    p50, p95 = np.percentile(values, (50, 95))
    return Percentiles(float(p50), float(p95))
