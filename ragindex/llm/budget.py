"""Spending limit for paid requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Event, Lock

from ragindex.errors import BudgetError, UsageError


class Booking:
    """Money reserved for one call: what was `paid`, and what was `possibly_charged` for attempts without an answer."""

    def __init__(self) -> None:
        self.paid = self.possibly_charged = 0.0

    def pay(self, money: float) -> None:
        """Add the amount paid for an answer."""
        self.paid += money

    def lose(self, money: float) -> None:
        """Add the most that an attempt can have cost that may have been charged and gave no answer."""
        self.possibly_charged += money


class SeenExcess:
    """How many times its bound the largest answer of a service took: `factor`, at least 1. Thread-safe.

    Services may ignore a limit of tokens, or count more input tokens than we do. Bookings use what was seen, so a
    budget is exceeded at most by the calls in flight before the first such answer. `answered` is set after any answer.
    """

    def __init__(self) -> None:
        self.factor, self.answered, self._lock = 1.0, Event(), Lock()

    def see(self, actual: float, bound: float) -> None:
        """Learn from an answer that took `actual` tokens or dollars, with a bound of `bound`."""
        with self._lock:
            self.factor = max(self.factor, actual / bound if bound > 0 else 0.0)
        self.answered.set()


class Budget:
    """Limit of `limit` US dollars. The maximum cost of each call in flight is reserved until it is answered.

    Thread-safe. What attempts without an answer can have cost counts as money paid. A call can exceed its reservation
    if the service exceeds the bound of tokens; `SeenExcess` then raises the reservations of later calls.
    """

    def __init__(self, limit: float) -> None:
        if not limit > 0:
            raise UsageError(f"A budget must be more than 0. Got {limit}.")
        self.limit = limit
        self._spent = self._possibly_charged = self._reserved = 0.0
        self._in_flight = 0
        self._changed = Condition()

    @property
    def spent(self) -> float:
        """US dollars paid so far."""
        with self._changed:
            return self._spent

    @property
    def left(self) -> float:
        """US dollars that are neither paid, nor possibly charged, nor reserved."""
        with self._changed:
            return self.limit - self._spent - self._possibly_charged - self._reserved

    @contextmanager
    def recorded(self) -> Iterator[Booking]:
        """Add what is paid inside, for calls that were sent before; raises nothing if that exceeds the limit."""
        booking = Booking()
        try:
            yield booking
        finally:
            self._settle(booking)

    @contextmanager
    def reserved(self, most: float) -> Iterator[Booking]:
        """Reserve `most` US dollars for one call; wait while reservations of calls in flight leave too little.

        Raises BudgetError if the money left is still too little when no call is in flight.
        """
        booking = Booking()
        with self._changed:
            while self._spent + self._possibly_charged + self._reserved + most > self.limit:
                if not self._in_flight:
                    raise self._exhausted(most)
                self._changed.wait()
            self._reserved, self._in_flight = self._reserved + most, self._in_flight + 1
        try:
            yield booking
        finally:
            with self._changed:
                self._in_flight -= 1
                self._reserved = self._reserved - most if self._in_flight else 0.0  # drop the rounding error
                self._settle(booking)

    def _settle(self, booking: Booking) -> None:
        with self._changed:
            self._spent += booking.paid
            self._possibly_charged += booking.possibly_charged
            self._changed.notify_all()

    def _exhausted(self, most: float) -> BudgetError:
        lost = self._possibly_charged
        possibly = f", up to ${lost:.4f} possibly charged for requests without an answer" if lost else ""
        return BudgetError(
            f"The budget of ${self.limit:.4f} is exhausted: ${self._spent:.4f} spent{possibly}; the next call could "
            f"cost ${most:.4f}. Progress saved. Run the same command with a larger --budget to resume."
        )


@contextmanager
def reserve_money(budget: Budget | None, most: float | None) -> Iterator[Booking]:
    """Reserve money with `Budget.reserved`, or nothing without a budget. `most` is None if the cost is unknown."""
    if budget is None:
        yield Booking()
        return
    with budget.reserved(most or 0.0) as booking:
        yield booking


def parse_budget(to: float | Budget | None) -> Budget | None:
    """Return a new Budget for an amount in US dollars; return None or an existing Budget as it is."""
    return to if to is None or isinstance(to, Budget) else Budget(to)
