"""Ledger of the calls to LLMs, encoders and rerankers, and of their cost.

The client that sends a paid request records it once, when the response arrives. Methods and caches record nothing. An
attempt that may have been charged although it gave no answer is recorded apart, at the most that it can have cost.

`attribute_calls` sets the phase and method of the calls inside it; `record_calls` collects them. Both also apply in
threads that copy the context.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce
from heapq import heapreplace
from operator import add
from threading import Lock, RLock
from typing import Any, Literal, TypeAlias

from ragindex._util.text import many
from ragindex.accounting.running_estimate import ExpectedCalls, RunningEstimate
from ragindex.accounting.spending_log import log_payment
from ragindex.types import Usage

Phase: TypeAlias = Literal["", "index", "query"]
EMBEDDING = "embedding"
"""The task of requests of encoders; language models have others."""
DRAFT, THOUGHTS = "draft left out", "thoughts left out"
"""Outcomes: an earlier answer in the same text, and an answer with thoughts."""
RETRIED = "retried"
"""The outcome of an attempt that failed and was repeated."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call that was answered.

    Token counts come from the server; `estimated` is True if some were counted by a tokenizer or guessed instead.
    `money` (US dollars) is None if the model has no price. If the answer was `replayed` from the cache, `money` and
    `seconds` are those of the original request. The `seconds` of an answer that came in a batch (`batched`) are its
    share of the time that the batch took. A `rule` costs only time. `item` is the position of the input in its `map`.
    `index` is the folder of the index that asked.
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
    batched: bool = False
    rule: bool = False
    item: int | None = None
    index: str = ""

    @property
    def usage(self) -> Usage:
        """The call's seconds, tokens and money."""
        return Usage(self.seconds, self.input_tokens, self.output_tokens, self.money, self.estimated)


@dataclass(slots=True)
class _Timeline:
    """Total seconds of sequential calls: as first recorded (`first`) and as measured in this run (`now`)."""

    first: float = 0.0
    now: float = 0.0
    lock: Lock = field(default_factory=Lock)

    def take(self, first: float, now: float) -> None:
        """Add the seconds of a call."""
        with self.lock:
            self.first, self.now = self.first + first, self.now + now


@dataclass(frozen=True, slots=True)
class RunningCosts:
    """Dollars paid for calls with a price, and the `answers` that came from a cache, with the dollars they once cost.

    Answers of encoders are no answers, and their dollars count.
    """

    paid: float = 0.0
    answers: int = 0
    saved: float = 0.0

    def add(self, entry: CallRecord) -> "RunningCosts":
        """Return the costs with those of a call."""
        money = entry.money or 0.0
        if not entry.replayed:
            return replace(self, paid=self.paid + money)
        return replace(self, answers=self.answers + (entry.task != EMBEDDING), saved=self.saved + money)


class Tally:
    """Calls collected by `record_calls`, readable while recording is in progress. Thread-safe."""

    def __init__(self, *, paid_only: bool = False) -> None:
        self._entries: list[CallRecord] = []
        self._lost: list[CallRecord] = []
        self._paid_only = paid_only
        self._costs = RunningCosts()
        self._stages: dict[str, Counter[str]] = {}
        self._sums: dict[tuple[str, str], tuple[int, float]] = {}
        self._progress: dict[str, tuple[int, int]] = {}
        self._estimate = RunningEstimate()
        self._lock, self._timeline = RLock(), _Timeline()  # a handler of signals may read while this thread adds

    @property
    def entries(self) -> tuple[CallRecord, ...]:
        """All calls, in the order in which they were answered."""
        with self._lock:
            return tuple(self._entries)

    @property
    def first(self) -> Usage:
        """Total usage as if every call were paid now: replayed calls count with their original cost."""
        return _sum_usage(self.entries)

    @property
    def spent(self) -> Usage:
        """Usage of the calls that were paid in this run; replayed calls are excluded."""
        return _sum_usage([entry for entry in self.entries if not entry.replayed])

    @property
    def lost(self) -> tuple[CallRecord, ...]:
        """Attempts that may have been charged and gave no answer, with the most that each can have cost."""
        with self._lock:
            return tuple(self._lost)

    @property
    def possibly_charged(self) -> float | None:
        """US dollars that the `lost` attempts can have cost at most; None if a price is unknown."""
        return _sum_usage(self.lost).money

    @property
    def retries(self) -> int:
        """Number of attempts that failed and were repeated."""
        return sum(counts[RETRIED] for counts in self.stages.values())

    @property
    def costs(self) -> RunningCosts:
        """What was paid and what the cache has saved, known at once also while millions of calls are recorded."""
        with self._lock:
            return self._costs

    def expect(self, calls: Iterable[ExpectedCalls]) -> None:
        """Begin with an estimate, which the calls that follow correct."""
        with self._lock:
            self._estimate = RunningEstimate(calls)

    def project(self) -> float | None:
        """Return the dollars that this run will have cost at its end; None without an estimate."""
        with self._lock:
            return self._estimate.project(self._sums, self._progress)

    def by_item(self) -> dict[int | None, Usage]:
        """Return the `first` usage by input position in a `map`. The key None holds the calls outside any `map`."""
        usages: dict[int | None, Usage] = {}
        for entry in self.entries:
            usages[entry.item] = usages.get(entry.item, Usage()) + entry.usage
        return usages

    @property
    def calls(self) -> int:
        """Number of calls to LLMs and rerankers, paid or replayed; rules and encoders are excluded."""
        return sum(not entry.rule and entry.task != EMBEDDING for entry in self.entries)

    @property
    def replayed(self) -> int:
        """Number of `calls` that were answered from the cache."""
        return sum(entry.replayed and entry.task != EMBEDDING for entry in self.entries)

    @property
    def rules(self) -> int:
        """Number of answers given by rules."""
        return sum(entry.rule for entry in self.entries)

    @property
    def cached_tokens(self) -> int:
        """Input tokens of all calls that the server read from its prompt cache; the input tokens include them."""
        return sum(entry.cached_tokens for entry in self.entries)

    @property
    def unpriced(self) -> frozenset[str]:
        """Models without a price. If there are any, the money of `first` is unknown."""
        return frozenset(entry.model for entry in self.entries if entry.money is None)

    @property
    def stages(self) -> dict[str, Counter[str]]:
        """Counts of outcomes by task: how answers were parsed (`strict`, `found`, …), why they failed, retries."""
        with self._lock:
            return {task: Counter(counts) for task, counts in self._stages.items()}

    @property
    def correction(self) -> float:
        """Seconds to add to a measured time, so that replayed calls count with the seconds of the original request."""
        return self._timeline.first - self._timeline.now

    def _add(self, entry: CallRecord) -> None:
        if not entry.rule:
            with self._lock:
                self._costs = self._costs.add(entry)
                if not entry.replayed:
                    key = (entry.task, entry.method if entry.phase == "query" and entry.task != EMBEDDING else "")
                    calls, money = self._sums.get(key, (0, 0.0))
                    self._sums[key] = (calls + 1, money + (entry.money or 0.0))
        if self._paid_only and (entry.replayed or entry.rule):
            return
        with self._lock:
            self._entries.append(entry)

    def _count(self, task: str, stage: str, count: int) -> None:
        with self._lock:
            self._stages.setdefault(task, Counter())[stage] += count


def _sum_usage(entries: Sequence[CallRecord]) -> Usage:
    return reduce(add, (entry.usage for entry in entries), Usage())


# ---------------------------------------------------------------- attribution and recording


_phase: ContextVar[Phase] = ContextVar("ragindex_phase", default="")
_method: ContextVar[str] = ContextVar("ragindex_method", default="")
_item: ContextVar[int | None] = ContextVar("ragindex_item", default=None)
_tallies: ContextVar[tuple[Tally, ...]] = ContextVar("ragindex_tallies", default=())
_timelines: ContextVar[tuple[_Timeline, ...]] = ContextVar("ragindex_lanes", default=())


@contextmanager
def attribute_calls(phase: Phase = "", method: str = "") -> Iterator[None]:
    """Attribute calls inside to `method` and `phase`. The outermost wins: a base's calls count for its wrapper."""
    tokens = _phase.set(_phase.get() or phase), _method.set(_method.get() or method)
    try:
        yield
    finally:
        _method.reset(tokens[1])
        _phase.reset(tokens[0])


@contextmanager
def record_calls(*, paid_only: bool = False) -> Iterator[Tally]:
    """Collect the calls of this context and of threads that copy it. Enclosing recordings collect them as well.

    `paid_only` leaves out answers of rules and caches, which may be millions.
    """
    tally = Tally(paid_only=paid_only)
    tokens = _tallies.set((*_tallies.get(), tally)), _timelines.set((*_timelines.get(), tally._timeline))
    try:
        yield tally
    finally:
        _timelines.reset(tokens[1])
        _tallies.reset(tokens[0])


@contextmanager
def unrecorded() -> Iterator[None]:
    """Record no calls and no time inside: the caller records them later, where they belong."""
    tokens = _tallies.set(()), _timelines.set(())
    try:
        yield
    finally:
        _timelines.reset(tokens[1])
        _tallies.reset(tokens[0])


def record_call(entry: CallRecord, now: float) -> None:
    """Record an answered call that took `now` seconds in this run, with the phase, method and item of the context."""
    attributed = _attribute(entry)
    if not (entry.replayed or entry.batched or entry.rule):  # what batches cost is logged when they are collected
        _log(entry)
    for tally in _tallies.get():
        tally._add(attributed)
    add_time(entry.seconds if entry.replayed or entry.batched else now, now)


def record_lost(entry: CallRecord) -> None:
    """Record an attempt that may have been charged and gave no answer; tokens and money are the most it can cost."""
    attributed = _attribute(entry)
    _log(entry, possibly_charged=True)
    for tally in _tallies.get():
        with tally._lock:
            tally._lost.append(attributed)


def _log(entry: CallRecord, *, possibly_charged: bool = False) -> None:
    log_payment(
        index=entry.index,
        model=entry.model,
        task=entry.task,
        input_tokens=entry.input_tokens,
        output_tokens=entry.output_tokens,
        money=entry.money,
        estimated=entry.estimated,
        possibly_charged=possibly_charged,
    )


def _attribute(entry: CallRecord) -> CallRecord:
    return replace(entry, phase=_phase.get(), method=_method.get(), item=_item.get())


def count_asked(method: str, done: int, questions: int) -> None:
    """Note that a method has answered `done` more questions, of so many: estimates of a run follow from it."""
    for tally in _tallies.get():
        with tally._lock:
            before = tally._progress.get(method, (0, 0))[0]
            tally._progress[method] = (before + done, questions)


def count_outcome(task: str, stage: str, count: int = 1) -> None:
    """Count how an answer was parsed, or what happened to a request."""
    for tally in _tallies.get() if count else ():
        tally._count(task, stage, count)


def add_time(first: float, now: float) -> None:
    """Record work that took `first` seconds originally and `now` seconds in this run."""
    for timeline in _timelines.get():
        timeline.take(first, now)


# ---------------------------------------------------------------- concurrent calls


@dataclass(slots=True)
class ConcurrentTimes:
    """Times of the inputs of one `map`, which run concurrently on `workers` workers."""

    workers: int
    timelines: list[_Timeline] = field(default_factory=list)

    @contextmanager
    def item(self, number: int) -> Iterator[None]:
        """Attribute calls inside to input `number`."""
        timeline = _Timeline()
        self.timelines.append(timeline)
        tokens = _item.set(number), _timelines.set((timeline,))
        try:
            yield
        finally:
            _timelines.reset(tokens[1])
            _item.reset(tokens[0])

    def close(self) -> None:
        """Record the total time: the makespan of the inputs if each goes, in order, to the first free worker."""
        add_time(
            _compute_makespan([item.first for item in self.timelines], self.workers),
            _compute_makespan([item.now for item in self.timelines], self.workers),
        )


def _compute_makespan(seconds: Sequence[float], workers: int) -> float:
    busy_until = [0.0] * max(1, min(workers, len(seconds)))
    for needed in seconds:
        heapreplace(busy_until, busy_until[0] + needed)
    return max(busy_until)


# ---------------------------------------------------------------- reports of what a command paid, each call once


def spending_to_json(paid: Tally) -> dict[str, Any]:
    """Return the tokens, whether they are `estimated`, and the money in US dollars, None if a price is unknown.

    `possibly_charged` is the most that attempts without an answer can have cost beyond that; `retries` counts attempts
    that failed and were repeated.
    """
    spent = paid.spent
    tokens = {"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
    return {
        **tokens,
        "estimated": spent.estimated,
        "money": spent.money,
        "possibly_charged": paid.possibly_charged,
        "retries": paid.retries,
    }


def format_spending(paid: Tally) -> str | None:
    """Return what was paid in this run, or possibly charged, as a sentence; None if that is nothing."""
    spent, lost = paid.spent, paid.lost
    unknown = sorted({entry.model for entry in paid.entries if entry.money is None and not entry.replayed})
    tokens = spent.input_tokens + spent.output_tokens
    if not (tokens or spent.money or unknown or lost):
        return None
    about = "about " if spent.estimated else ""
    price = f"no price is known for {' and '.join(unknown)}" if spent.money is None else f"{about}${spent.money:.6f}"
    amounts = [f"{about}{many(tokens, 'token')}", price, *_describe_lost(paid)]
    return f"Spent: {', '.join(amounts)}."


def describe_lost(paid: Tally) -> str | None:
    """Return what attempts without an answer can have cost, and how many were repeated; None if there are none."""
    words = ", ".join(_describe_lost(paid))
    return f"{words[0].upper()}{words[1:]}." if words else None


def _describe_lost(paid: Tally) -> list[str]:
    words, money = list[str](), paid.possibly_charged
    if paid.lost:
        most = sum(entry.input_tokens + entry.output_tokens for entry in paid.lost)
        words.append(f"possibly charged: up to {many(most, 'token') if money is None else f'${money:.6f}'}")
    if paid.retries:
        words.append(many(paid.retries, "retry", "retries"))
    return words


def format_savings(paid: Tally) -> str | None:
    """Return what the caches have saved in this run as a sentence, or None if they have saved nothing."""
    costs = paid.costs
    if not (costs.answers or costs.saved):
        return None
    money = [f"${costs.saved:.6f}"] if costs.saved else []
    answers = [many(costs.answers, "answer")] if costs.answers else []
    return f"Saved by the cache: {', '.join([*answers, *money])}."


def format_running(paid: Tally) -> str:
    """Return dollars and cached answers so far in few words, for the progress of a command; "" if there are none."""
    costs = paid.costs
    total = paid.project()
    of = "" if total is None or total <= costs.paid else f" of about ${total:.4f}"
    money = [f"${costs.paid:.4f}{of}"] if costs.paid else []
    return ", ".join([*money, *([f"{costs.answers:,} cached"] if costs.answers else [])])
