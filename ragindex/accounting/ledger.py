"""What was asked of language models, encoders and rerankers, and what it cost. Methods book nothing themselves.

Who sends a paid request books it here when it is answered, once: not who asked for it, nor who keeps the answer.

`attributed` says whose calls follow; `recording` collects them. Both travel into threads that copy the context.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce
from heapq import heapreplace
from operator import add
from threading import Lock
from typing import Literal, TypeAlias

from ragindex.types import Usage

Phase: TypeAlias = Literal["", "index", "query"]
EMBEDDING = "embedding"
"""The task of requests of encoders; language models have others."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call that was answered.

    Tokens are as the server reported them; `estimated` where a tokenizer or a guess had to stand in. `money` is None
    for a model without a price; money and `seconds` are as first recorded where the answer was `replayed`. A `rule`
    costs nothing but time. `item` is the place of the input in its `map`.
    """

    task: str
    model: str
    phase: Phase = ""
    method: str = ""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    money: float | None = 0.0
    seconds: float = 0.0
    replayed: bool = False
    rule: bool = False
    item: int | None = None

    @property
    def usage(self) -> Usage:
        """Seconds, tokens and money."""
        return Usage(self.seconds, self.input_tokens, self.output_tokens, self.money)


@dataclass(slots=True)
class _Lane:
    """Seconds of calls one after the other: as first recorded and as they took now."""

    first: float = 0.0
    now: float = 0.0
    lock: Lock = field(default_factory=Lock)

    def take(self, first: float, now: float) -> None:
        """One more call."""
        with self.lock:
            self.first, self.now = self.first + first, self.now + now


class Tally:
    """The calls of one `recording`, also while it goes on. Thread-safe."""

    def __init__(self) -> None:
        self._entries: list[CallRecord] = []
        self._stages: dict[str, Counter[str]] = {}
        self._lock, self._lane = Lock(), _Lane()

    @property
    def entries(self) -> tuple[CallRecord, ...]:
        """Every call, in the order of their answers."""
        with self._lock:
            return tuple(self._entries)

    @property
    def first(self) -> Usage:
        """As if every call were paid now: replayed ones with what they first cost."""
        return _sum(self.entries)

    @property
    def spent(self) -> Usage:
        """What was paid now."""
        return _sum([entry for entry in self.entries if not entry.replayed])

    def by_item(self) -> dict[int | None, Usage]:
        """`first`, for each place in a `map`; None: the calls outside of one."""
        usages: dict[int | None, Usage] = {}
        for entry in self.entries:
            usages[entry.item] = usages.get(entry.item, Usage()) + entry.usage
        return usages

    @property
    def calls(self) -> int:
        """Calls of language models and rerankers, paid or replayed; rules and encoders are not among them."""
        return sum(not entry.rule and entry.task != EMBEDDING for entry in self.entries)

    @property
    def replayed(self) -> int:
        """Those of `calls` that were answered from the cache."""
        return sum(entry.replayed and entry.task != EMBEDDING for entry in self.entries)

    @property
    def rules(self) -> int:
        """Answers that a rule gave."""
        return sum(entry.rule for entry in self.entries)

    @property
    def cached_tokens(self) -> int:
        """Input tokens that the server had seen before, of all calls; they are among the input tokens too."""
        return sum(entry.cached_tokens for entry in self.entries)

    @property
    def estimated(self) -> bool:
        """Whether some of the tokens are not the server's own count."""
        return any(entry.estimated for entry in self.entries)

    @property
    def unpriced(self) -> frozenset[str]:
        """Models without a price: where there are any, the money of `first` is not known."""
        return frozenset(entry.model for entry in self.entries if entry.money is None)

    @property
    def stages(self) -> dict[str, Counter[str]]:
        """By task, how often answers were read how (`strict`, `found`, …) or failed why, and requests `sent again`."""
        with self._lock:
            return {task: Counter(counts) for task, counts in self._stages.items()}

    @property
    def correction(self) -> float:
        """Seconds to add to a measured time, so that replayed calls count with the seconds first recorded."""
        return self._lane.first - self._lane.now

    def _add(self, entry: CallRecord) -> None:
        with self._lock:
            self._entries.append(entry)

    def _count(self, task: str, stage: str) -> None:
        with self._lock:
            self._stages.setdefault(task, Counter())[stage] += 1


def _sum(entries: Sequence[CallRecord]) -> Usage:
    return reduce(add, (entry.usage for entry in entries), Usage())


# ---------------------------------------------------------------- whose calls, and who collects them


_phase: ContextVar[Phase] = ContextVar("ragindex_phase", default="")
_method: ContextVar[str] = ContextVar("ragindex_method", default="")
_item: ContextVar[int | None] = ContextVar("ragindex_item", default=None)
_tallies: ContextVar[tuple[Tally, ...]] = ContextVar("ragindex_tallies", default=())
_lanes: ContextVar[tuple[_Lane, ...]] = ContextVar("ragindex_lanes", default=())


@contextmanager
def attribute_calls(phase: Phase = "", method: str = "") -> Iterator[None]:
    """Calls inside belong to `method` and `phase`. The outermost wins: a base's calls are its wrapper's."""
    tokens = _phase.set(_phase.get() or phase), _method.set(_method.get() or method)
    try:
        yield
    finally:
        _method.reset(tokens[1])
        _phase.reset(tokens[0])


@contextmanager
def record_calls() -> Iterator[Tally]:
    """Collect every call of this context and of threads that copy it; recordings outside this one get them too."""
    tally = Tally()
    tokens = _tallies.set((*_tallies.get(), tally)), _lanes.set((*_lanes.get(), tally._lane))
    try:
        yield tally
    finally:
        _lanes.reset(tokens[1])
        _tallies.reset(tokens[0])


def record_call(entry: CallRecord, now: float) -> None:
    """Record an answered call that took `now` seconds here; it belongs to whom this context says."""
    booked = replace(entry, phase=_phase.get(), method=_method.get(), item=_item.get())
    for tally in _tallies.get():
        tally._add(booked)
    add_time(entry.seconds if entry.replayed else now, now)


def count_outcome(task: str, stage: str) -> None:
    """Record how an answer was read, or what befell a request."""
    for tally in _tallies.get():
        tally._count(task, stage)


def add_time(first: float, now: float) -> None:
    """Record work that took `first` seconds when it was first done, and `now` seconds here."""
    for lane in _lanes.get():
        lane.take(first, now)


# ---------------------------------------------------------------- many at once


@dataclass(slots=True)
class Lanes:
    """The times of the inputs of one `map`, which go on beside one another."""

    workers: int
    lanes: list[_Lane] = field(default_factory=list)

    @contextmanager
    def item(self, number: int) -> Iterator[None]:
        """The calls inside are for the input `number`."""
        lane = _Lane()
        self.lanes.append(lane)
        tokens = _item.set(number), _lanes.set((lane,))
        try:
            yield
        finally:
            _lanes.reset(tokens[1])
            _item.reset(tokens[0])

    def close(self) -> None:
        """Book the time of the whole: as many at once as there are workers, each the next input when it is free."""
        add_time(
            _together([lane.first for lane in self.lanes], self.workers),
            _together([lane.now for lane in self.lanes], self.workers),
        )


def _together(seconds: Sequence[float], workers: int) -> float:
    busy_until = [0.0] * max(1, min(workers, len(seconds)))
    for needed in seconds:
        heapreplace(busy_until, busy_until[0] + needed)
    return max(busy_until)
