"""Spending limit for paid requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

from ragindex.errors import BudgetError, UsageError


class Booking:
    """Money reserved for one call."""

    def __init__(self) -> None:
        self.paid = 0.0

    def pay(self, money: float) -> None:
        """Add the amount paid. A response that was not fully received counts as free, as its cost is unknown."""
        self.paid += money


class Budget:
    """Limit of `limit` US dollars. The maximum cost of each call in flight is reserved until it is answered.

    Thread-safe. A call can exceed its reservation if the server ignores max_tokens or its input tokens were only
    estimated; the budget is then exceeded by no more than that call.
    """

    def __init__(self, limit: float) -> None:
        if not limit > 0:
            raise UsageError(f"A budget must be more than 0. Got {limit}.")
        self.limit = limit
        self._spent = self._reserved = 0.0
        self._in_flight = 0
        self._changed = Condition()

    @property
    def spent(self) -> float:
        """US dollars paid so far."""
        with self._changed:
            return self._spent

    @property
    def left(self) -> float:
        """US dollars that are neither paid nor reserved."""
        with self._changed:
            return self.limit - self._spent - self._reserved

    @contextmanager
    def recorded(self) -> Iterator[Booking]:
        """Add what is paid inside, for calls that were sent before; raises nothing if that exceeds the limit."""
        booking = Booking()
        try:
            yield booking
        finally:
            with self._changed:
                self._spent += booking.paid
                self._changed.notify_all()

    @contextmanager
    def reserved(self, most: float) -> Iterator[Booking]:
        """Reserve `most` US dollars for one call; wait while reservations of calls in flight leave too little.

        Raises BudgetError if the money left is still too little when no call is in flight.
        """
        booking = Booking()
        with self._changed:
            while self._spent + self._reserved + most > self.limit:
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
                self._spent += booking.paid
                self._changed.notify_all()

    def _exhausted(self, most: float) -> BudgetError:
        return BudgetError(
            f"The budget of ${self.limit:.4f} is exhausted: ${self._spent:.4f} spent; the next call could cost "
            f"${most:.4f}. Progress saved. Run the same command with a larger --budget to resume."
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
