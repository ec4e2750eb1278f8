"""How long one question takes, asked alone: in all, and in the encoder, the store and the method itself.

All methods of a comparison are timed together once everything is answered, and take turns of a few questions: a machine
that is busy for a while is busy for all of them. Times that were kept are used again only where those of all methods
were taken in one run: a table never holds times of different days.
"""

import random
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
from ragindex.progress import progress_bar
from ragindex.types import Query, Retrieval
from ragindex.workspace.workspace import Workspace
from ragindex_eval.results.model import NOT_TIMED, Latency, Percentiles
from ragindex_eval.run.answers_file import write_whole
from ragindex_eval.run.ask import SURVIVED, ends_all, retrieve
from ragindex_eval.run.environment import environment

SAMPLE = 200
_TURN = 25  # questions: long enough that the first one, after other methods had the processor's caches, is one of many
_WARM_UP = 5
_WHERE = ("total", "encoder", "store", "own")


@dataclass(slots=True)
class LazyRetriever:
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
class Times:
    """The times of one method, taken in the timing `run` that began at `taken` (UTC), of the questions `asked`.

    `seconds` are by query id, in the order of _WHERE; questions that were not answered have none.
    """

    run: str
    taken: str
    asked: tuple[str, ...]
    seconds: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Timing:
    """A method to be timed, the questions that it failed on, and the file that its times are kept in.

    `alone` is how its parts are searched while nothing else is in memory.
    """

    label: str
    retriever: LazyRetriever
    kept: Path
    failed: Collection[str] = ()
    alone: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class MethodTimes:
    """The times of a method, None where it was timed on no question; and what timing paid for."""

    times: Times | None = None
    paid: tuple[ledger.Tally, ...] = ()

    @property
    def latency(self) -> Latency:
        """The percentiles; NOT_TIMED where there are no times."""
        if self.times is None:
            return NOT_TIMED
        rows = self.times.seconds
        total, encoder, store, own = (_percentiles(row[at] * 1e3 for row in rows.values()) for at in range(len(_WHERE)))
        whole = {query_id: row[0] * 1e3 for query_id, row in rows.items()}
        return Latency(total, encoder, store, own, whole, self.times.taken)


@dataclass(frozen=True, slots=True)
class _Metered:
    """A method while it is timed; each question adds what it paid to `paid`."""

    timing: Timing
    paid: list[ledger.Tally]

    def queries(self, queries: Sequence[Query]) -> list[Query]:
        """The questions that the method did not fail on."""
        return [query for query in queries if query.id not in self.timing.failed]


def sample(queries: Sequence[Query], seed: int) -> list[Query]:
    """At most 200 questions, drawn by the seed."""
    if len(queries) <= SAMPLE:
        return list(queries)
    return random.Random(seed).sample(list(queries), SAMPLE)  # noqa: S311  # a sample, no secret


def latency_file_name(k: int) -> str:
    """Where the times of a method at `k` are kept: times of another machine or of other versions are not these."""
    return f"latency-{k}-{digest(dict(environment()))}.json"


def measure_latency(timings: Sequence[Timing], queries: Sequence[Query], k: int) -> list[MethodTimes]:
    """Time the methods over `queries` one by one after a warm-up, and keep their times.

    All of them, unless all were timed in one run before: times of different runs are not compared. They take turns,
    where all of them fit into memory together; else one is timed after the other. Questions on which a retriever
    raises are not in its latency, and a method that was timed on none has no times.
    """
    metered = [_Metered(timing, []) for timing in timings]
    wanted = [one for one in metered if one.queries(queries)]
    times = {one.timing.label: _read_times(one, queries) for one in wanted}
    if None in times.values() or len({one.run for one in times.values() if one}) > 1:
        by_file = {one.timing.kept: one for one in reversed(wanted)}  # equal methods have one file
        measured = _measure_now(by_file, queries, k)
        times = {one.timing.label: measured.get(one.timing.kept) for one in wanted}
    return [MethodTimes(times.get(one.timing.label), tuple(one.paid)) for one in metered]


def _measure_now(waiting: Mapping[Path, _Metered], queries: Sequence[Query], k: int) -> dict[Path, Times]:
    """New times, by file. The times of earlier runs are gone from the first question on."""
    moment, found = datetime.now(UTC).isoformat(timespec="seconds"), dict[Path, Times]()
    run = f"{moment} {uuid4().hex[:8]}"
    for path in waiting:
        path.unlink(missing_ok=True)
    for group in _groups(list(waiting.values())[::-1], queries, k):
        for one, seconds in zip(group, _in_turns(group, queries, k), strict=True):
            if seconds:
                times = Times(run, moment, tuple(query.id for query in one.queries(queries)), seconds)
                write_whole(one.timing.kept, durable_files.dump_hashed_json({"fields": _WHERE, **asdict(times)}))
                found[one.timing.kept] = times
        _close(group)
    return found


def _groups(metered: Sequence[_Metered], queries: Sequence[Query], k: int) -> Iterator[Sequence[_Metered]]:
    """The methods that are timed together, warmed up: all if they fit into memory together, else one by one."""
    for one in metered:
        _warm_up(one, queries, k)
    if all(list(one.timing.alone) == one.timing.retriever.searches() for one in metered):
        yield metered
        return
    _close(metered)
    for one in metered:
        _warm_up(one, queries, k)
        yield [one]


def _close(metered: Sequence[_Metered]) -> None:
    for one in metered:
        one.timing.retriever.close()


def _warm_up(one: _Metered, queries: Sequence[Query], k: int) -> None:
    for query in islice(cycle(one.queries(queries)), _WARM_UP):
        _seconds(one, query, k)


def _in_turns(metered: Sequence[_Metered], queries: Sequence[Query], k: int) -> list[dict[str, list[float]]]:
    """Of each method, the seconds of each question that was answered, in the order of _WHERE.

    Every other turn begins with the last method: what grows steadily grows for all alike.
    """
    rows: list[dict[str, list[float]]] = [{} for _ in metered]
    with progress_bar("timing", len(metered) * len(queries)) as advance:
        for start in range(0, len(queries), _TURN):
            turn = queries[start : start + _TURN]
            order = list(zip(metered, rows, strict=True))
            for one, row in order if start // _TURN % 2 == 0 else reversed(order):
                row.update(_time_turn(one, turn, k))
                advance(len(turn))
    return rows


def _time_turn(one: _Metered, queries: Sequence[Query], k: int) -> Iterator[tuple[str, list[float]]]:
    for query in one.queries(queries):
        seconds = _seconds(one, query, k)
        if seconds is not None:
            yield query.id, seconds


def _seconds(one: _Metered, query: Query, k: int) -> list[float] | None:
    """The seconds of one question, in the order of _WHERE; None where it was not answered."""
    with ledger.attribute_calls(method=one.timing.label), ledger.record_calls() as asked:
        one.paid.append(asked)
        try:
            with record_times() as times:
                retrieve(one.timing.retriever, [query], k)
        except SURVIVED as error:
            if ends_all(error):
                raise
            return None  # counted as unanswered where the answers are gathered
    replayed = asked.correction  # a cached answer of an LLM takes the seconds that it took first
    return [times.total + replayed, times.encoder, times.store, times.own + replayed]


def _read_times(one: _Metered, queries: Sequence[Query]) -> Times | None:
    """The times in the file, where they are of the same questions."""
    try:
        value = durable_files.load_hashed_json(one.timing.kept.read_bytes())
    except FileNotFoundError:
        return None
    if value is None:  # not as it was written: timed again
        return None
    rows = {query_id: [float(part) for part in row] for query_id, row in value["seconds"].items()}
    times = Times(value["run"], value["taken"], tuple(value["asked"]), rows)
    return times if rows and times.asked == tuple(query.id for query in one.queries(queries)) else None


def _percentiles(milliseconds: Iterable[float]) -> Percentiles:
    values = list(milliseconds)
    if not values:
        return Percentiles(None, None)
    p50, p95 = np.percentile(values, (50, 95))
    return Percentiles(float(p50), float(p95))
