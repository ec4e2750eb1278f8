"""A limit on what is paid."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

from ragindex.errors import BudgetError, UsageError


class Booking:
    """Money set aside for one call."""

    def __init__(self) -> None:
        self.paid = 0.0

    def pay(self, money: float) -> None:
        """What was really paid; an answer that was not received in full costs nothing as far as is known."""
        self.paid += money


class Budget:
    """At most `limit` dollars. What calls in flight could cost at most is set aside until they are answered.

    Thread-safe. A server that ignores max_tokens, or an input whose tokens could only be estimated, can go over what
    was set aside for it, by no more than that call.
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
        """Dollars paid so far."""
        with self._changed:
            return self._spent

    @contextmanager
    def reserved(self, most: float) -> Iterator[Booking]:
        """Set `most` dollars aside for one call, waiting for calls in flight where only they stand in the way.

        Raises BudgetError where it does not fit even so.
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
                self._reserved = self._reserved - most if self._in_flight else 0.0  # nothing of what rounding leaves
                self._spent += booking.paid
                self._changed.notify_all()

    def _exhausted(self, most: float) -> BudgetError:
        return BudgetError(
            f"The budget of ${self.limit:.4f} is exhausted: ${self._spent:.4f} spent; the next call could cost "
            f"${most:.4f}. Progress saved. Run the same command with a larger --budget to resume."
        )


@contextmanager
def reserve_money(budget: Budget | None, most: float | None) -> Iterator[Booking]:
    """`Budget.reserved`; without a budget nothing is set aside. None: what the call could cost is not known."""
    if budget is None:
        yield Booking()
        return
    with budget.reserved(most or 0.0) as booking:
        yield booking


def parse_budget(to: float | Budget | None) -> Budget | None:
    """A budget of so many dollars, None without one; a budget that is there already goes on."""
    return to if to is None or isinstance(to, Budget) else Budget(to)
