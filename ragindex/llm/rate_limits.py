"""Rate limits of an endpoint, and cancellable waits."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Condition, Event, Lock
from weakref import WeakSet

from ragindex._util.http import TroubleError

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
        for one in inner:
            one.set()

    def is_set(self) -> bool:
        """Return whether the signal is set."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for at most `seconds`; return whether the signal is set."""
        return self._event.wait(seconds)

    def _add(self, inner: "StopSignal") -> None:
        with self._lock:
            self._inner.add(inner)
            done = self._event.is_set()
        if done:
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


class Limits:
    """Limits of one model at an endpoint: requests in flight, requests per minute, and tokens per minute. Thread-safe.

    At most `concurrency` requests are in flight. A response of status 429 halves this limit, once for the requests that
    were in flight together; it grows by one after as many answers as it allows requests.
    """

    def __init__(
        self,
        concurrency: int,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._concurrency = self._limit = concurrency
        self._in_flight = self._answered = self._round = 0  # a round ends with each 429 that halves the limit
        self._changed = Condition()
        self._requests = None if requests_per_minute is None else Bucket(requests_per_minute, self._clock)
        self._tokens = None if tokens_per_minute is None else Bucket(tokens_per_minute, self._clock)
        self._closed_until, self._lock = float("-inf"), Lock()

    @property
    def requests_at_once(self) -> int:
        """Requests that may be in flight now."""
        return self._limit

    @contextmanager
    def slot(self, tokens: int) -> Iterator[Callable[[int], None]]:
        """Wait for a slot for one request of at most `tokens` tokens; yield a function to report the actual number.

        The block sends the request. Its TroubleError with status 429 lowers the limit of requests in flight.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._in_flight < self._limit)
            self._in_flight += 1
        try:
            self._clock.sleep(max(self._requests.take(1) if self._requests else 0.0, self._wait_for(tokens)))
            while (wait := self._closed_until - self._clock.now()) > 0:
                self._clock.sleep(wait)
            sent_in = self._round
            yield lambda used: self._give_back(tokens - used)
            self._grow()
        except TroubleError as error:
            if error.trouble.status == _TOO_MANY and not error.trouble.out_of_quota:
                self._shrink(sent_in)
            raise
        finally:
            with self._changed:
                self._in_flight -= 1
                self._changed.notify_all()

    def _grow(self) -> None:
        with self._changed:
            self._answered += 1
            if self._answered >= self._limit:
                self._limit, self._answered = min(self._limit + 1, self._concurrency), 0

    def _shrink(self, sent_in: int) -> None:
        with self._changed:
            if sent_in == self._round:  # the endpoint has refused it for what was in flight since the last 429
                self._limit, self._answered, self._round = max(self._limit // 2, 1), 0, self._round + 1

    def close(self, seconds: float) -> None:
        """Start no request for `seconds`, because the endpoint asked for a pause."""
        with self._lock:
            self._closed_until = max(self._closed_until, self._clock.now() + seconds)

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, without holding a slot."""
        self._clock.sleep(seconds)

    def _wait_for(self, tokens: int) -> float:
        return self._tokens.take(tokens) if self._tokens else 0.0

    def _give_back(self, tokens: int) -> None:
        if self._tokens:
            self._tokens.give_back(tokens)
