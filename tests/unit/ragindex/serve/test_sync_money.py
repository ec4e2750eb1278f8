"""Money of a sync process: what its server grants, books and returns, and what both say to each other."""

import json
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from ragindex.accounting.spending_log import Payment
from ragindex.errors import BudgetError
from ragindex.llm.budget import Budget
from ragindex.serve.keys import AccessKey, CallersBudget, Keyring
from ragindex.serve.sync_money import LinkedBudget, Purse, ServerLink
from ragindex.serve.telemetry import ServerMetrics


def make_key(name: str, limit: float | None) -> AccessKey:
    return AccessKey(name, frozenset({"write"}), budget=None if limit is None else Budget(limit))


class Pair:
    """A sync process and its server in one process: a message is answered when it is sent, unless `killed`."""

    def __init__(self, *keys: AccessKey, server: float = float("inf")) -> None:
        self.keys = Keyring(keys)
        self.purse = Purse(lambda: self.keys, ServerMetrics(), CallersBudget(server))
        self.link = ServerLink(self.deliver)
        self.sent = list[dict[str, Any]]()
        self.killed = False

    def deliver(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        message = json.loads(line)
        self.sent.append(message)
        reply = None if self.killed else self.purse.answer(message)
        if reply is not None:
            self.link.receive(json.dumps(reply))

    def pay(self, money: float, most: float, *, reported: bool = True) -> None:
        with LinkedBudget(self.link).reserved(most) as booking:
            if reported:
                self.link.report(Payment(0.0, "serve", "w", "small", "t", 1, 30, 10, money))
            booking.pay(money)


def count(purse: Purse, name: str, key: str) -> float:
    return purse.metrics.registry.get_sample_value(f"ragindex_paid_{name}_total", {"key": key}) or 0.0


def budget(key: AccessKey) -> Budget:
    assert key.budget is not None
    return key.budget


def test_call_is_reserved_and_booked_on_its_key() -> None:
    red, blue = make_key("red", 1.0), make_key("blue", 1.0)
    pair = Pair(red, blue, server=1.5)
    with pair.link.paying("red"):
        assert pair.link.find_left() == float("inf")  # without limits
        pair.link.limited = True
        assert pair.link.find_left() == 1.0
        with LinkedBudget(pair.link).reserved(0.75):
            assert (budget(red).left, budget(blue).left) == (0.25, 1.0)
        pair.pay(0.5, most=0.75)
    assert (budget(red).spent, budget(red).left, budget(blue).spent) == (0.5, 0.5, 0.0)
    assert pair.purse.server is not None
    assert (pair.purse.server.spent, pair.purse.server.left) == (0.5, 1.0)
    assert (count(pair.purse, "dollars", "red"), count(pair.purse, "tokens", "red")) == (0.5, 40)
    assert count(pair.purse, "dollars", "blue") == 0
    assert pair.link.paid == 0.5


@pytest.mark.parametrize("kind", ["key", "server", "gone"])
def test_call_beyond_a_limit_is_refused(kind: str) -> None:
    key = make_key("red", 1.0 if kind == "key" else 9.0)
    pair = Pair(key, server=1.0 if kind == "server" else 9.0)
    owner = "removed" if kind == "gone" else "red"
    reasons = {"key": "of this key is used up: \\$0.0000 of \\$1.0000", "server": "--budget", "gone": "'removed'"}
    with pair.link.paying(owner), pytest.raises(BudgetError, match=reasons[kind]):
        pair.pay(0.1, most=1.5)
    assert budget(key).left == key.budget.limit  # type: ignore[union-attr]
    assert pair.purse.server is not None
    assert pair.purse.server.left == pair.purse.server.limit


def test_call_waits_for_money_that_others_reserve() -> None:
    key = make_key("red", 1.0)
    pair, order = Pair(key), list[str]()

    def pay() -> None:
        pair.pay(0.5, most=0.75)
        order.append("paid")

    with pair.link.paying("red"):
        with budget(key).reserved(0.75):  # a search
            thread = Thread(target=pay)
            thread.start()
            while sum(message["event"] == "reserve" for message in pair.sent) < 3:
                pass
            order.append("released")
        thread.join()
    assert order == ["released", "paid"]
    assert (budget(key).spent, budget(key).left) == (0.5, 0.5)


def test_killed_process_reserves_nothing_any_more() -> None:
    key = make_key("red", 1.0)
    pair = Pair(key)
    with pair.link.paying("red"), LinkedBudget(pair.link).reserved(0.75):
        pair.link.report(Payment(0.0, "serve", "w", "small", "t", 1, 30, 10, 0.25))
        assert budget(key).left == 0.0
        pair.killed = True
        pair.purse.close()
        assert (budget(key).spent, budget(key).left) == (0.25, 0.75)


def test_cost_that_was_not_reported_is_charged_when_the_call_ends() -> None:
    """A call may cost more than its answers say, as where one was lost."""
    key = make_key("red", 1.0)
    pair = Pair(key)
    with pair.link.paying("red"):
        pair.pay(0.25, most=0.5, reported=False)
        assert budget(key).spent == 0.25
        pair.pay(0.25, most=0.5)
    assert (budget(key).spent, budget(key).left) == (0.5, 0.5)
    assert pair.purse.paid_since_sync == {"red": 0.5}
    assert pair.purse.find_left("red") == 1.0  # as if the changes in progress were unpaid


def test_lost_answers_count_against_budgets_and_are_no_payments() -> None:
    key = make_key("red", 1.0)
    pair = Pair(key)
    with pair.link.paying("red"), LinkedBudget(pair.link).reserved(0.75) as booking:
        pair.link.report(Payment(0.0, "serve", "w", "small", "t", 1, 30, 10, 0.75, possibly_charged=True))
        booking.lose(0.75)
    assert (budget(key).spent, budget(key).charged, budget(key).left) == (0.0, 0.75, 0.25)
    assert count(pair.purse, "dollars", "red") == 0
    assert pair.purse.find_left("red") == 0.25
    with pair.link.paying("red"), pytest.raises(BudgetError, match=r"\$0.7500 of \$1.0000"):
        pair.pay(0.5, most=0.5)


def test_keys_without_a_cap_pay_without_limit() -> None:
    pair = Pair(make_key("red", None))
    with pair.link.paying("red"):
        pair.pay(100.0, most=200.0)
    assert count(pair.purse, "dollars", "red") == 100.0
    assert pair.purse.find_left("red") == float("inf")


@pytest.mark.parametrize(
    ("line", "wakes", "capped"), [("\n", True, {"red"}), ('{"capped": ["blue"], "lifts": 2}\n', True, {"blue"})]
)
def test_lines_of_the_server(line: str, wakes: bool, capped: set[str]) -> None:
    written: Callable[[bytes], object] = print
    link = ServerLink(written)
    link.capped = {"red"}
    assert link.receive(line) == wakes
    assert link.capped == capped


def test_cap_says_what_the_process_had_heard_when_it_began() -> None:
    """A budget may be raised while documents are put back, after the call was refused."""
    pair = Pair(make_key("red", 1.0))
    with pair.link.paying("red"):
        pair.link.receive('{"capped": [], "lifts": 1}')
        pair.killed = True
        pair.link.cap(BudgetError("used up"), daily=False)
    with pair.link.paying("red"):
        pair.link.cap(BudgetError("used up"), daily=False)
    assert [message["lifts"] for message in pair.sent] == [0, 1]
    assert pair.link.capped == {"red"}
