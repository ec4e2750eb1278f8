"""Spending limit for paid requests."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from threading import Condition, Event, Lock

from ragindex.accounting.spending_log import DaySum, log_folder, require_log
from ragindex.errors import BudgetError, DailyBudgetError, UsageError


class Booking:
    """Money `reserved` for one call, what was `paid`, and `possibly_charged` for attempts without an answer.

    Without a budget, `reserved` is infinite.
    """

    def __init__(self, reserved: float = math.inf) -> None:
        self.reserved = reserved
        self.paid = self.possibly_charged = 0.0
        self._waiting: list[Callable[[], None]] = []

    def when_settled(self, action: Callable[[], None]) -> None:
        """Run an action once the money counts as paid, and before a call that waits for money may go on."""
        self._waiting.append(action)

    def finish(self) -> None:
        """Run the actions that wait for the money to be settled."""
        while self._waiting:
            self._waiting.pop(0)()

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
    def charged(self) -> float:
        """US dollars paid so far, and the most that attempts without an answer can have cost."""
        with self._changed:
            return self._spent + self._possibly_charged

    @property
    def left(self) -> float:
        """US dollars that are neither paid, nor possibly charged, nor reserved."""
        with self._changed:
            return self.limit - self.charged - self._reserved

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
        booking = Booking(most)
        with self._changed:
            while self.charged + self._reserved + most > self.limit:
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
            booking.finish()
            self._changed.notify_all()

    def reserve_now(self, most: float) -> "ExitStack | None":
        """Reserve money as `reserved` does, without waiting; closing the result returns it.

        None if calls in flight have reserved what is missing. Raises BudgetError if too little is left without them.
        """
        with self._changed:
            if self.charged + most > self.limit:
                raise self._exhausted(most)
            if self.charged + self._reserved + most > self.limit:
                return None
            holding = ExitStack()
            holding.enter_context(self.reserved(most))
            return holding

    def _exhausted(self, most: float) -> BudgetError:
        lost = self._possibly_charged
        possibly = f", up to ${lost:.4f} possibly charged for requests without an answer" if lost else ""
        return BudgetError(
            f"The budget of ${self.limit:.4f} is exhausted: ${self._spent:.4f} spent{possibly}; the next call could "
            f"cost ${most:.4f}. Progress saved. Run the same command with a larger --budget to resume."
        )


@contextmanager
def reserve_money(budget: Budget | None, bound: Callable[[], float | None]) -> Iterator[Booking]:
    """Reserve money with `Budget.reserved`, or nothing without a budget. `bound` returns None if the cost is unknown.

    While a call waits for money, an answer may show that the bound is larger (`SeenExcess`): then that is reserved. A
    caller that waits for anything else before it sends compares `Booking.reserved` with the bound once more.
    """
    if budget is None:
        free = Booking()
        yield free
        free.finish()
        return
    while True:
        most = bound() or 0.0
        with budget.reserved(most) as booking:
            if (bound() or 0.0) <= most:
                yield booking
                return


def parse_budget(to: float | Budget | None) -> Budget | None:
    """Return a Budget for an amount in US dollars, or the given one; None without a limit.

    Where there is a limit of the day for all runs, the budget is within it.
    """
    own = to if to is None or isinstance(to, Budget) else Budget(to)
    daily = find_daily_budget()
    if daily is None or own is daily or isinstance(own, CombinedBudget):
        return own
    return daily if own is None else CombinedBudget(own, daily)


class CombinedBudget(Budget):
    """A budget within another: a call must fit into both."""

    def __init__(self, own: Budget, outer: Budget) -> None:
        super().__init__(min(own.limit, outer.limit))
        self.own, self.outer = own, outer

    @property
    def spent(self) -> float:
        """US dollars paid so far, of the inner budget."""
        return self.own.spent

    @property
    def charged(self) -> float:
        """US dollars paid so far, and possibly charged, of the inner budget."""
        return self.own.charged

    @property
    def left(self) -> float:
        """US dollars that are neither paid nor reserved, in both."""
        return min(self.own.left, self.outer.left)

    @contextmanager
    def recorded(self) -> Iterator[Booking]:
        """Add what is paid inside, in both."""
        with self.outer.recorded() as outer, self.own.recorded() as booking:
            try:
                yield booking
            finally:
                outer.pay(booking.paid)
                outer.lose(booking.possibly_charged)

    @contextmanager
    def reserved(self, most: float) -> Iterator[Booking]:
        """Reserve money for one call in both. Raises BudgetError."""
        with self.own.reserved(most) as booking, self.outer.reserved(most) as outer:
            try:
                yield booking
            finally:
                outer.pay(booking.paid)
                outer.lose(booking.possibly_charged)


# ---------------------------------------------------------------- the limit of a day


DAILY_VARIABLE = "RAGINDEX_DAILY_BUDGET"


class DailyBudget(Budget):
    """What all runs together may pay in a day of local time, by the log that each of them writes.

    Calls that other processes have in flight are not known: the limit is exceeded by no more than those.
    """

    def __init__(self, limit: float) -> None:
        super().__init__(limit)
        self._today = DaySum()

    @property
    def spent(self) -> float:
        """US dollars that all runs have paid today, what is possibly charged included."""
        return self._today.read()

    @property
    def charged(self) -> float:
        """The same: the log has what is paid, and this process need not add it up."""
        return self._today.read()

    @contextmanager
    def reserved(self, most: float) -> Iterator[Booking]:
        """Reserve money for one call. Raises BudgetError, and StoreError if the log cannot be written or read."""
        require_log()
        with super().reserved(most) as booking:
            yield booking

    def _exhausted(self, most: float) -> BudgetError:
        return DailyBudgetError(
            f"The limit of a day for all runs, {DAILY_VARIABLE}, is reached: ${self._today.read():.4f} of "
            f"${self.limit:.4f} spent today; the next call could cost ${most:.4f}. Progress saved. To see what was "
            f"paid, run: ragindex spending. To resume, run the same command tomorrow, or raise {DAILY_VARIABLE}."
        )


def find_daily_budget() -> Budget | None:
    """Return what all runs together may pay in a day, by RAGINDEX_DAILY_BUDGET; None if it is not set.

    Raises UsageError unless it is an amount of US dollars.
    """
    variable = os.environ.get(DAILY_VARIABLE, "").strip()
    if not variable:
        return None
    try:
        limit = float(variable)
    except ValueError:
        limit = 0.0
    if not 0 < limit < math.inf:
        raise UsageError(f"{DAILY_VARIABLE} must be an amount of US dollars of more than 0, as 5.00. Got {variable!r}.")
    return _open_daily_budget(limit, log_folder())


@cache
def _open_daily_budget(limit: float, folder: Path) -> DailyBudget:
    """Return the one budget of this process by a limit and a log."""
    return DailyBudget(limit)
