"""Latency of single questions: in total, and in the encoder, the store and the method itself.

All methods of a comparison are timed together after everything is answered. They take turns of a few questions, so that
a temporary load on the machine affects all of them. Saved times are reused only if those of all methods were taken in
one run: a table never mixes times of different days.
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
_TURN = 25  # questions: long enough that the first one, which runs with cold processor caches, is one of many
_WARM_UP = 5
_COMPONENTS = ("total", "encoder", "store", "own")


@dataclass(slots=True)
class LazyRetriever:
    """Retriever of a scheme that is opened on the first question, since saved answers need no open index."""

    scheme: Scheme
    workspace: Workspace
    opened: Retriever | None = None
    lock: Lock = field(default_factory=Lock)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the results of the scheme's retriever, and open it if necessary."""
        with self.lock:
            self.opened = self.opened or self.scheme.open(self.workspace)
        return self.opened.retrieve(queries, k)

    def searches(self) -> list[str]:
        """Return how each of its parts is searched, which depends on what else is in memory now."""
        return [self.workspace.figures(part).search for part in self.workspace.all_parts(self.scheme)]

    def close(self) -> None:
        """Free the memory of the index; the next question opens it again."""
        self.opened = None
        self.workspace.close()


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one method for the questions `asked`, from the timing `run` that began at `taken` (UTC).

    `seconds` are by query id, in the order of _COMPONENTS; questions that were not answered are missing.
    """

    run: str
    taken: str
    asked: tuple[str, ...]
    seconds: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Timing:
    """Method to be timed, with the questions on which it failed and the file of its times.

    `alone` is how its parts are searched when nothing else is in memory.
    """

    label: str
    retriever: LazyRetriever
    kept: Path
    failed: Collection[str] = ()
    alone: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class MethodTimes:
    """Times of a method, None if it was timed on no question, and the costs of timing it."""

    times: Times | None = None
    paid: tuple[ledger.Tally, ...] = ()

    @property
    def latency(self) -> Latency:
        """The latency percentiles; NOT_TIMED if there are no times."""
        if self.times is None:
            return NOT_TIMED
        rows = self.times.seconds
        total, encoder, store, own = (
            _percentiles(row[at] * 1e3 for row in rows.values()) for at in range(len(_COMPONENTS))
        )
        whole = {query_id: row[0] * 1e3 for query_id, row in rows.items()}
        return Latency(total, encoder, store, own, whole, self.times.taken)


@dataclass(frozen=True, slots=True)
class _MeteredMethod:
    """Method while it is timed; each question adds its costs to `paid`."""

    timing: Timing
    paid: list[ledger.Tally]

    def queries(self, queries: Sequence[Query]) -> list[Query]:
        """Return the questions on which the method did not fail."""
        return [query for query in queries if query.id not in self.timing.failed]


def sample(queries: Sequence[Query], seed: int) -> list[Query]:
    """Draw at most 200 questions with the seed."""
    if len(queries) <= SAMPLE:
        return list(queries)
    return random.Random(seed).sample(list(queries), SAMPLE)  # noqa: S311  # a sample, no secret


def latency_file_name(k: int) -> str:
    """Return the name of the file with the times of a method at `k`.

    It includes a hash of the environment, so that times of other machines or versions are never reused.
    """
    return f"latency-{k}-{digest(dict(environment()))}.json"


def measure_latency(timings: Sequence[Timing], queries: Sequence[Query], k: int) -> list[MethodTimes]:
    """Time the methods over `queries`, one question at a time after a warm-up, and save their times.

    Saved times are reused only if those of all methods come from one run; otherwise all methods are timed again. The
    methods take turns if all of them fit into memory together; otherwise one is timed after the other. Questions on
    which a retriever raises are left out of its latency. A method that was timed on no question has no times.
    """
    metered = [_MeteredMethod(timing, []) for timing in timings]
    wanted = [one for one in metered if one.queries(queries)]
    times = {one.timing.label: _read_times(one, queries) for one in wanted}
    if None in times.values() or len({one.run for one in times.values() if one}) > 1:
        by_file = {one.timing.kept: one for one in reversed(wanted)}  # equal methods share one file
        measured = _measure_now(by_file, queries, k)
        times = {one.timing.label: measured.get(one.timing.kept) for one in wanted}
    return [MethodTimes(times.get(one.timing.label), tuple(one.paid)) for one in metered]


def _measure_now(waiting: Mapping[Path, _MeteredMethod], queries: Sequence[Query], k: int) -> dict[Path, Times]:
    """Time the methods and return the times by file. Times of earlier runs are deleted first."""
    moment, found = datetime.now(UTC).isoformat(timespec="seconds"), dict[Path, Times]()
    run = f"{moment} {uuid4().hex[:8]}"
    for path in waiting:
        path.unlink(missing_ok=True)
    for group in _group_by_memory(list(waiting.values())[::-1], queries, k):
        for one, seconds in zip(group, _in_turns(group, queries, k), strict=True):
            if seconds:
                times = Times(run, moment, tuple(query.id for query in one.queries(queries)), seconds)
                write_whole(one.timing.kept, durable_files.dump_hashed_json({"fields": _COMPONENTS, **asdict(times)}))
                found[one.timing.kept] = times
        _close(group)
    return found


def _group_by_memory(
    metered: Sequence[_MeteredMethod], queries: Sequence[Query], k: int
) -> Iterator[Sequence[_MeteredMethod]]:
    """Yield groups of warmed-up methods to time together: all if they fit into memory together, else one by one."""
    for one in metered:
        _warm_up(one, queries, k)
    if all(list(one.timing.alone) == one.timing.retriever.searches() for one in metered):
        yield metered
        return
    _close(metered)
    for one in metered:
        _warm_up(one, queries, k)
        yield [one]


def _close(metered: Sequence[_MeteredMethod]) -> None:
    for one in metered:
        one.timing.retriever.close()


def _warm_up(one: _MeteredMethod, queries: Sequence[Query], k: int) -> None:
    for query in islice(cycle(one.queries(queries)), _WARM_UP):
        _time_question(one, query, k)


def _in_turns(metered: Sequence[_MeteredMethod], queries: Sequence[Query], k: int) -> list[dict[str, list[float]]]:
    """Return for each method the seconds of each answered question, in the order of _COMPONENTS.

    Every other turn begins with the last method, so that a steady drift affects all methods alike.
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


def _time_turn(one: _MeteredMethod, queries: Sequence[Query], k: int) -> Iterator[tuple[str, list[float]]]:
    for query in one.queries(queries):
        seconds = _time_question(one, query, k)
        if seconds is not None:
            yield query.id, seconds


def _time_question(one: _MeteredMethod, query: Query, k: int) -> list[float] | None:
    """Time one question and return the seconds in the order of _COMPONENTS; None if it was not answered."""
    with ledger.attribute_calls(method=one.timing.label), ledger.record_calls() as asked:
        one.paid.append(asked)
        try:
            with record_times() as times:
                retrieve(one.timing.retriever, [query], k)
        except SURVIVED as error:
            if ends_all(error):
                raise
            return None  # `answer_all` counts unanswered questions
    replayed = asked.correction  # a cached LLM answer counts with the seconds of its first call
    return [times.total + replayed, times.encoder, times.store, times.own + replayed]


def _read_times(one: _MeteredMethod, queries: Sequence[Query]) -> Times | None:
    """Load the times in the file; None if they are missing, damaged, or of other questions."""
    try:
        value = durable_files.load_hashed_json(one.timing.kept.read_bytes())
    except FileNotFoundError:
        return None
    if value is None:  # damaged, so it is timed again
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
