"""Latency of single questions: in total, and in the encoder, the store and the method itself.

All methods of a comparison are timed together after everything is answered. Each question is asked of all methods one
after the other, in random order, so that a temporary load on the machine affects all of them. Few questions are timed
several times. A fixed computation is timed just before each question, which shows the noise of the machine. Saved times
are reused only if those of all methods were taken in one run: a table never mixes times of different days.
"""

import random
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from threading import Lock
from uuid import uuid4

import numpy as np

from ragindex._util import durable_files
from ragindex._util.canonical import digest
from ragindex._util.progress import progress_bar
from ragindex.accounting import ledger
from ragindex.accounting.timing import record_times
from ragindex.index.index import Index
from ragindex.interfaces import Retriever, Scheme
from ragindex.types import Query, Retrieval
from ragindex_eval.results.model import NOT_TIMED, Latency, Percentiles
from ragindex_eval.run.answers_file import write_whole
from ragindex_eval.run.ask import ends_all, retrieve
from ragindex_eval.run.environment import environment

SAMPLE = 200
_TIMINGS = 100  # of each method at least, if that takes no more rounds and no more time than these:
_MOST_ROUNDS = 10
_REPEAT_SECONDS = 20.0
_WARM_UP = 5
_COMPONENTS = ("total", "encoder", "store", "own", "reference")
_REFERENCE = np.random.default_rng(0).random(10_000)


@dataclass(slots=True)
class LazyRetriever:
    """Retriever of a scheme that is opened on the first question, since saved answers need no open index."""

    scheme: Scheme
    index: Index
    opened: Retriever | None = None
    lock: Lock = field(default_factory=Lock)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the results of the scheme's retriever, and open it if necessary."""
        with self.lock:
            self.opened = self.opened or self.scheme.open(self.index)
        return self.opened.retrieve(queries, k)

    def searches(self) -> list[str]:
        """Return how each of its parts is searched, which depends on what else is in memory now."""
        return [self.index.figures(part).search for part in self.index.all_parts(self.scheme)]

    def close(self) -> None:
        """Free the memory of the index; the next question opens it again."""
        self.opened = None
        self.index.close()


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one method for the questions `asked`, from the timing `run` that began at `taken` (UTC).

    `seconds` are by query id, in the order of _COMPONENTS; questions that were not answered are missing. Of several
    timings of a question, they are the one with the median total.
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
    path: Path
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
        total, encoder, store, own = (_percentiles(row[at] * 1e3 for row in rows.values()) for at in range(4))
        milliseconds, reference = ({query_id: row[at] * 1e3 for query_id, row in rows.items()} for at in (0, 4))
        return Latency(total, encoder, store, own, milliseconds, self.times.taken, reference)


@dataclass(frozen=True, slots=True)
class _MeteredMethod:
    """Method while it is timed; each question adds its costs to `paid`."""

    timing: Timing
    paid: list[ledger.Tally]

    def queries(self, queries: Sequence[Query]) -> list[Query]:
        """Return the questions on which the method did not fail."""
        return [query for query in queries if query.id not in self.timing.failed]

    def pays(self) -> bool:
        """Return whether any timing so far sent a request that costs tokens or money."""
        spent = [tally.spent for tally in self.paid]
        return any(usage.input_tokens or usage.output_tokens or usage.money != 0 for usage in spent)


def sample(queries: Sequence[Query], seed: int) -> list[Query]:
    """Draw at most 200 questions with the seed."""
    if len(queries) <= SAMPLE:
        return list(queries)
    return random.Random(seed).sample(list(queries), SAMPLE)  # noqa: S311  # a sample, no secret


def latency_file_name(k: int) -> str:
    """Return the name of the file with the times of a method at `k`.

    It includes a hash of the environment and of what was timed, so that times of other machines or versions are never
    reused.
    """
    return f"latency-{k}-{digest([dict(environment()), _COMPONENTS])}.json"


def measure_latency(timings: Sequence[Timing], queries: Sequence[Query], k: int, seed: int) -> list[MethodTimes]:
    """Time the methods over `queries`, one question at a time after a warm-up, and save their times.

    Saved times are reused only if those of all methods come from one run; otherwise all methods are timed again, in an
    order drawn with the seed. Each question is asked of all methods in turn if all of them fit into memory together;
    otherwise one method is timed after the other. Questions on which a retriever raises are left out of its latency. A
    method that was timed on no question has no times.
    """
    metered = [_MeteredMethod(timing, []) for timing in timings]
    wanted = [method for method in metered if method.queries(queries)]
    times = {method.timing.label: _read_times(method, queries) for method in wanted}
    if None in times.values() or len({method.run for method in times.values() if method}) > 1:
        by_file = {method.timing.path: method for method in reversed(wanted)}  # equal methods share one file
        measured = _measure_now(by_file, queries, k, seed)
        times = {method.timing.label: measured.get(method.timing.path) for method in wanted}
    return [MethodTimes(times.get(method.timing.label), tuple(method.paid)) for method in metered]


def _measure_now(
    waiting: Mapping[Path, _MeteredMethod], queries: Sequence[Query], k: int, seed: int
) -> dict[Path, Times]:
    """Time the methods and return the times by file. Times of earlier runs are deleted first."""
    moment, times_by_file = datetime.now(UTC).isoformat(timespec="seconds"), dict[Path, Times]()
    run = f"{moment} {uuid4().hex[:8]}"
    for path in waiting:
        path.unlink(missing_ok=True)
    for group in _group_by_memory(list(waiting.values())[::-1], queries, k):
        for method, seconds in zip(group, _time_in_rounds(group, queries, k, seed), strict=True):
            if seconds:
                times = Times(run, moment, tuple(query.id for query in method.queries(queries)), seconds)
                write_whole(
                    method.timing.path, durable_files.dump_hashed_json({"fields": _COMPONENTS, **asdict(times)})
                )
                times_by_file[method.timing.path] = times
        _close(group)
    return times_by_file


def _group_by_memory(
    metered: Sequence[_MeteredMethod], queries: Sequence[Query], k: int
) -> Iterator[Sequence[_MeteredMethod]]:
    """Yield groups of warmed-up methods to time together: all if they fit into memory together, else one by one."""
    for method in metered:
        _warm_up(method, queries, k)
    if all(list(method.timing.alone) == method.timing.retriever.searches() for method in metered):
        yield metered
        return
    _close(metered)
    for method in metered:
        _warm_up(method, queries, k)
        yield [method]


def _close(metered: Sequence[_MeteredMethod]) -> None:
    for method in metered:
        method.timing.retriever.close()


def _warm_up(method: _MeteredMethod, queries: Sequence[Query], k: int) -> None:
    for query in islice(cycle(method.queries(queries)), _WARM_UP):
        _time_question(method, query, k)


def _time_in_rounds(
    metered: Sequence[_MeteredMethod], queries: Sequence[Query], k: int, seed: int
) -> list[dict[str, list[float]]]:
    """Return for each method the seconds of each answered question, in the order of _COMPONENTS.

    In each round, questions and the methods of each question are in random order. The rounds end after _TIMINGS
    timings of a method, _MOST_ROUNDS rounds, or the first round that ends later than _REPEAT_SECONDS. A method that
    pays for requests is timed in the first round only.
    """
    order, start = random.Random(seed), time.perf_counter()  # noqa: S311  # an order, no secret
    rows: list[dict[str, list[list[float]]]] = [{} for _ in metered]
    rounds = min(_MOST_ROUNDS, -(-_TIMINGS // len(queries)))
    with progress_bar("timing", rounds * len(metered) * len(queries)) as advance:
        for number in range(rounds):
            timed = [at for at, method in enumerate(metered) if number == 0 or not method.pays()]
            if not timed or (number and time.perf_counter() - start > _REPEAT_SECONDS):
                break
            for query in order.sample(queries, len(queries)):
                for at in order.sample(timed, len(timed)):
                    seconds = _time_question(metered[at], query, k) if metered[at].queries([query]) else None
                    if seconds is not None:
                        rows[at].setdefault(query.id, []).append(seconds)
                advance(len(metered))
    return [{query.id: _take_median(row[query.id]) for query in queries if query.id in row} for row in rows]


def _take_median(timings: Sequence[list[float]]) -> list[float]:
    """Return the timing with the (lower) median total, with the median of the reference."""
    middle = sorted(timings)[(len(timings) - 1) // 2]
    return [*middle[:-1], sorted(timing[-1] for timing in timings)[(len(timings) - 1) // 2]]


def _time_reference() -> float:
    """Return the seconds of a fixed computation, sorting 10,000 numbers: about as long as a quick search."""
    start = time.perf_counter()
    np.sort(_REFERENCE)
    return time.perf_counter() - start


def _time_question(method: _MeteredMethod, query: Query, k: int) -> list[float] | None:
    """Time one question and return the seconds in the order of _COMPONENTS; None if it was not answered."""
    reference = _time_reference()
    with ledger.attribute_calls(method=method.timing.label), ledger.record_calls() as tally:
        method.paid.append(tally)
        try:
            with record_times() as times:
                retrieve(method.timing.retriever, [query], k)
        except Exception as error:
            if ends_all(error):
                raise
            return None  # `answer_all` counts unanswered questions
    replayed = tally.correction  # a cached answer counts with the seconds of its first call, of an encoder as well
    own = times.own + replayed - times.replayed
    return [times.total + replayed, times.encoder + times.replayed, times.store, own, reference]


def _read_times(method: _MeteredMethod, queries: Sequence[Query]) -> Times | None:
    """Load the times in the file; None if they are missing, damaged, or of other questions."""
    try:
        value = durable_files.load_hashed_json(method.timing.path.read_bytes())
    except FileNotFoundError:
        return None
    if value is None:  # damaged, so it is timed again
        return None
    rows = {query_id: [float(part) for part in row] for query_id, row in value["seconds"].items()}
    times = Times(value["run"], value["taken"], tuple(value["asked"]), rows)
    return times if rows and times.asked == tuple(query.id for query in method.queries(queries)) else None


def _percentiles(milliseconds: Iterable[float]) -> Percentiles:
    values = list(milliseconds)
    if not values:
        return Percentiles(None, None)
    p50, p95 = np.percentile(values, (50, 95))
    return Percentiles(float(p50), float(p95))
