"""Spend caps of keys: the index's one budget, which charges the key whose request is being answered."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ragindex.accounting import ledger
from ragindex.accounting.ledger import Tally
from ragindex.llm.budget import Booking, Budget, reserve_money
from ragindex.serve.keys import AccessKey, Keyring
from ragindex.serve.metrics import ServerMetrics

_payer: ContextVar[Budget | None] = ContextVar("ragindex_payer", default=None)


class CallersBudget(Budget):
    """A budget that reserves money from that of the key whose request is being answered; no cap without one."""

    def __init__(self) -> None:
        super().__init__(float("inf"))

    @contextmanager
    def reserved(self, most: float) -> Iterator[Booking]:
        """Reserve money for one call from the caller's budget. Raises BudgetError."""
        with reserve_money(_payer.get(), most) as booking:
            yield booking


def callers_budget(keys: Keyring) -> Budget | None:
    """Return the budget to open indexes with: None if no key has a cap, because a budget requires all prices."""
    return CallersBudget() if any(key.budget is not None for key in keys.keys) else None


@contextmanager
def charge(key: AccessKey, metrics: ServerMetrics) -> Iterator[Tally]:
    """Charge paid calls inside, and in threads that copy the context, to the key.

    Yields what is paid. It is counted in the metrics, also if the request fails after it has paid.
    """
    token = _payer.set(key.budget)
    with ledger.record_calls() as paid:
        try:
            yield paid
        finally:
            _payer.reset(token)
            spent = paid.spent
            metrics.tokens.labels(key.name).inc(spent.input_tokens + spent.output_tokens)
            metrics.dollars.labels(key.name).inc(spent.money or 0.0)
