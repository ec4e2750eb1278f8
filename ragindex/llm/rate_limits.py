"""Rate limits of an endpoint, and cancellable waits."""

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Condition, Event, Lock
from weakref import WeakSet, WeakValueDictionary

from ragindex._util.http import RequestProblemError

_TOO_MANY = 429


class StopSignal:
    """Ends the waits of its context, and with them the calls that have not begun. Thread-safe.

    A signal made inside the context of another one is set with it, and may also be set alone.
    """

    def __init__(self) -> None:
        self._event, self._inner, self._lock = Event(), WeakSet[StopSignal](), Lock()
        outer = stopping.get()
        if outer is not None:
            outer._add(self)

    def set(self) -> None:
        """End the waits of the context, and those of the contexts inside it."""
        with self._lock:
            self._event.set()
            inner = list(self._inner)
        for signal in inner:
            signal.set()

    def is_set(self) -> bool:
        """Return whether the signal is set."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for at most `seconds`; return whether the signal is set."""
        return self._event.wait(seconds)

    def _add(self, inner: "StopSignal") -> None:
        with self._lock:
            self._inner.add(inner)
            is_stopped = self._event.is_set()
        if is_stopped:
            inner.set()


stopping: ContextVar[StopSignal | None] = ContextVar("ragindex_stopping", default=None)
"""Set by whoever runs many calls: waiting ends with StoppedError when the signal is set."""


class StoppedError(Exception):
    """A wait was cancelled."""


def sleep(seconds: float) -> None:
    """Wait for `seconds`. Raises StoppedError if the signal in `stopping` is set meanwhile."""
    signal = stopping.get()
    if signal is None:
        time.sleep(seconds)
    elif signal.wait(seconds):
        raise StoppedError


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic clock in seconds, with a function to wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = sleep


class Bucket:
    """Token bucket: at most `a_minute` units in any 60 seconds, and a tenth of that at once. Thread-safe.

    It starts with that tenth and refills evenly with the rest. A caller that takes more than is left has to wait until
    the bucket has refilled.
    """

    def __init__(self, a_minute: int, clock: Clock) -> None:
        self._most = max(1.0, a_minute / 10)
        self._rate = max(a_minute - self._most, a_minute / 2) / 60
        self._level, self._at = self._most, clock.now()
        self._clock, self._lock = clock, Lock()

    def take(self, amount: float) -> float:
        """Take `amount`; return the seconds to wait before using it."""
        with self._lock:
            now = self._clock.now()
            self._level = min(self._most, self._level + (now - self._at) * self._rate) - amount
            self._at = now
            return max(0.0, -self._level / self._rate)

    def give_back(self, amount: float) -> None:
        """Return an amount that was taken and not used."""
        with self._lock:
            self._level += amount


@dataclass(eq=False)
class _SharedLimit:
    """What the clients of one model at one endpoint with one key share. Guarded by `changed`."""

    largest: int = 0  # the largest `concurrency` of the clients
    limit: int = 0
    in_flight: int = 0
    answered: int = 0
    round: int = 0  # a round ends with each 429 that halves the limit
    closed_until: float = float("-inf")
    buckets: dict[tuple[str, int], Bucket] = field(default_factory=dict)
    changed: Condition = field(default_factory=Condition)


_shared_limits = WeakValueDictionary[tuple[Hashable, Clock], _SharedLimit]()
_lock = Lock()


class Limits:
    """Limits of one model at an endpoint: requests in flight, requests per minute, and tokens per minute. Thread-safe.

    At most `concurrency` requests are in flight. A response of status 429 halves this limit, once for the requests that
    were in flight together; it grows by one after as many answers as it allows requests.

    Clients with an equal `endpoint` share all of it while they exist: the limit, at most the largest `concurrency` of
    them, each rate that they have in common, and pauses. Without an `endpoint`, nothing is shared.
    """

    def __init__(
        self,
        concurrency: int,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Clock | None = None,
        endpoint: Hashable = None,
    ) -> None:
        self._clock = clock or Clock()
        self._concurrency, self._own_slots = concurrency, BoundedSemaphore(concurrency)
        with _lock:
            new = _SharedLimit()
            shared = new if endpoint is None else _shared_limits.setdefault((endpoint, self._clock), new)
        self._shared, self._changed = shared, shared.changed
        with self._changed:
            if shared.limit == shared.largest:  # not lowered by a 429
                shared.limit = max(shared.limit, concurrency)
            shared.largest = max(shared.largest, concurrency)
            self._requests = self._share_bucket("requests", requests_per_minute)
            self._tokens = self._share_bucket("tokens", tokens_per_minute)

    def _share_bucket(self, unit: str, a_minute: int | None) -> Bucket | None:
        if a_minute is None:
            return None
        return self._shared.buckets.setdefault((unit, a_minute), Bucket(a_minute, self._clock))

    @property
    def requests_at_once(self) -> int:
        """Requests that may be in flight now."""
        return min(self._shared.limit, self._concurrency)

    @contextmanager
    def slot(self, tokens: int) -> Iterator[Callable[[int], None]]:
        """Wait for a slot for one request of at most `tokens` tokens; yield a function to report the actual number.

        The block sends the request. Its RequestProblemError with status 429 lowers the limit of requests in flight, and
        its Retry-After starts a pause before the slot is free: a request that waits for the slot would not know of it.
        """
        shared = self._shared
        with self._own_slots:
            waits = (self._requests and self._requests.take(1), self._tokens and self._tokens.take(tokens))
            self._clock.sleep(max(seconds or 0.0 for seconds in waits))  # before the slot, for clients of other rates
            with self._changed:
                self._changed.wait_for(lambda: shared.in_flight < shared.limit)
                shared.in_flight += 1
            try:
                while (wait := shared.closed_until - self._clock.now()) > 0:
                    self._clock.sleep(wait)
                sent_in = shared.round
                yield lambda used: self._tokens.give_back(tokens - used) if self._tokens else None
                with self._changed:
                    shared.answered += 1
                    if shared.answered >= shared.limit:
                        shared.limit, shared.answered = min(shared.limit + 1, shared.largest), 0
            except RequestProblemError as error:
                problem = error.problem
                refused = problem.status == _TOO_MANY and not problem.out_of_quota
                if refused and problem.passes and problem.retry_after is not None:
                    self.close(problem.retry_after)
                with self._changed:
                    if refused and sent_in == shared.round:  # its reason is not that of the last 429
                        shared.limit, shared.answered, shared.round = max(shared.limit // 2, 1), 0, shared.round + 1
                raise
            finally:
                with self._changed:
                    shared.in_flight -= 1
                    self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Start no request for `seconds`, because the endpoint asked for a pause."""
        with self._changed:
            self._shared.closed_until = max(self._shared.closed_until, self._clock.now() + seconds)
