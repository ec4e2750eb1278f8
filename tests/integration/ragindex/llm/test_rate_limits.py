"""Waiting: for the limit of a minute, for servers that ask for it, for those that failed; and money set aside."""

import contextlib
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from random import Random
from threading import Barrier, BrokenBarrierError, Event

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_language import ECHO, PRICES, QUICK, Echo, opened, texts
from openai_server import KEY, Answer, Fault, OpenAIServer, Received, status

from ragindex._util.http import RequestProblem, RequestProblemError, retry, retry_after, retry_delay
from ragindex.accounting import ledger
from ragindex.errors import BudgetError, UsageError
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import rate_limits
from ragindex.llm.budget import Budget, SeenExcess, reserve_money
from ragindex.llm.cache import SQLiteCache
from ragindex.llm.rate_limits import Bucket, Clock, Limits, StoppedError, StopSignal, sleep, stopping


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.clock = Clock(lambda: self.seconds, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


# ---------------------------------------------------------------- a minute's worth


def test_a_tenth_at_once_then_evenly() -> None:
    now = Time()
    bucket = Bucket(60, now.clock)
    assert [round(bucket.take(1), 6) for _ in range(9)] == [0, 0, 0, 0, 0, 0, *(round(n / 0.9, 6) for n in (1, 2, 3))]
    now.sleep(60)
    assert bucket.take(6) == 0.0
    bucket.give_back(4)
    assert bucket.take(5) == pytest.approx(1 / 0.9)


@given(st.integers(1, 500), st.lists(st.floats(0, 20), min_size=1, max_size=60))
def test_no_minute_holds_more_than_allowed(a_minute: int, pauses: list[float]) -> None:
    now = Time()
    bucket, used = Bucket(a_minute, now.clock), []
    for pause in pauses * 3:
        now.sleep(pause / a_minute)
        now.sleep(bucket.take(1))
        used.append(now.seconds)
    for start, first in enumerate(used):
        assert sum(at < first + 59.999 for at in used[start:]) <= a_minute


def test_requests_and_tokens_wait_for_the_scarcer() -> None:
    now = Time()
    limits = Limits(2, requests_per_minute=600, tokens_per_minute=6000, clock=now.clock)
    times = []
    for _ in range(4):
        with limits.slot(600) as used:
            times.append(now.seconds - 1000.0)
            used(600)
    assert times == pytest.approx([0.0, 600 / 90, 1200 / 90, 1800 / 90])
    with limits.slot(600) as used:
        used(60)  # the rest is given back
    with limits.slot(600):
        assert now.seconds - 1000.0 == pytest.approx(2460 / 90)


def test_nobody_begins_while_the_server_wants_rest() -> None:
    now = Time()
    limits = Limits(2, clock=now.clock)
    limits.close(5.0)
    limits.close(3.0)
    with limits.slot(1):
        assert now.seconds == 1005.0


def test_retry_after_pauses_before_the_slot_is_free() -> None:
    now = Time()
    limits = Limits(1, clock=now.clock)
    with pytest.raises(RequestProblemError), limits.slot(1):
        raise RequestProblemError(RequestProblem("slow down", 429, retry_after=5.0))
    with limits.slot(1):  # as of a thread that has waited for the slot
        assert now.seconds == 1005.0


def test_waiting_can_be_called_off() -> None:
    event = StopSignal()
    token = stopping.set(event)
    try:
        threading.Timer(0.05, event.set).start()
        with pytest.raises(StoppedError):
            sleep(600.0)
        with pytest.raises(StoppedError), Limits(1).slot(1):
            raise AssertionError
    finally:
        stopping.reset(token)
    sleep(0.0)


def test_requests_in_flight(server: OpenAIServer) -> None:
    full = Barrier(32)

    def answer_together(right: Answer) -> Answer:
        full.wait(60)
        return right

    server.choose = lambda received, earlier: answer_together
    assert opened(server, concurrency=32).map(ECHO, texts(64)) == [Echo(**inputs) for inputs in texts(64)]
    assert (server.most_in_flight, len(server.requests)) == (32, 64)


def test_one_told_to_wait_is_all_told_to_wait(server: OpenAIServer) -> None:
    server.choose = lambda received, earlier: (
        status(429, retry_after="0.3") if "first" in received.body["messages"][-1]["content"] and not earlier else None
    )
    language = opened(server, setting=LLMSettings(prices=PRICES), concurrency=1)
    start = time.monotonic()
    language.map(ECHO, [{"text": "first"}, {"text": "second"}])
    assert [request.at - start >= 0.3 for request in server.requests] == [False, True, True]


# ---------------------------------------------------------------- requests in flight, by 429


def finish(limits: Limits, outcomes: list[RequestProblem | None]) -> int:
    """Send requests together, which end with these outcomes, in order; return how many may be in flight then."""
    slots = [limits.slot(1) for _ in outcomes]
    for slot in slots:
        slot.__enter__()
    for slot, problem in zip(slots, outcomes, strict=True):
        error = None if problem is None else RequestProblemError(problem)
        slot.__exit__(type(error) if error else None, error, None)
    return limits.requests_at_once


def test_limit_halves_once_a_round_and_grows_by_one() -> None:
    limits, refused = Limits(8, clock=Time().clock), RequestProblem("slow down", 429)
    assert finish(limits, [refused] * 8) == 4  # one reason refused them all
    assert finish(limits, [None, None, refused, refused]) == 2
    assert finish(limits, [RequestProblem("busy", 503), RequestProblem("no credit", 429, "insufficient_quota")]) == 2
    assert finish(limits, [None]) == 2
    assert finish(limits, [None]) == 3
    assert finish(limits, [refused]) == 1
    assert finish(limits, [refused]) == 1
    assert [finish(limits, [None] * count) for count in range(1, 9)] == [2, 3, 4, 5, 6, 7, 8, 8]


def test_request_sent_before_limit_halved_does_not_halve_it_again() -> None:
    limits, refused = Limits(8, clock=Time().clock), RequestProblemError(RequestProblem("slow down", 429))
    early, late = limits.slot(1), limits.slot(1)
    early.__enter__()
    assert finish(limits, [refused.problem]) == 4
    late.__enter__()
    early.__exit__(RequestProblemError, refused, None)
    assert limits.requests_at_once == 4
    late.__exit__(RequestProblemError, refused, None)
    assert limits.requests_at_once == 2


def test_endpoint_that_takes_few_at_once(server: OpenAIServer) -> None:
    """It takes 4 at once and is sent 16; it first answers when it has refused one."""
    lock, full, busy, refused = threading.Lock(), Event(), 0, 0

    def answer(right: Answer) -> Answer:
        nonlocal busy
        assert full.wait(60)
        time.sleep(0.05)
        with lock:
            busy -= 1
        return right

    def choose(received: Received, earlier: int) -> Fault:
        nonlocal busy, refused
        with lock:
            if busy < 4:
                busy += 1
                return answer
            refused += 1
            full.set()
            return status(429)

    server.choose = choose
    language = opened(server, concurrency=16, retries=20)
    assert language.map(ECHO, texts(200)) == [Echo(**inputs) for inputs in texts(200)]
    assert len(server.requests) == 200 + refused
    assert 0 < refused < 100  # a fixed limit of 16 has more refusals than answers


# ---------------------------------------------------------------- clients of one endpoint


def test_clients_of_one_endpoint_share_its_limit() -> None:
    clock, refused = Time().clock, RequestProblem("slow down", 429)
    first, second = Limits(8, clock=clock, endpoint="a"), Limits(4, clock=clock, endpoint="a")
    other, private = Limits(8, clock=clock, endpoint="b"), Limits(8, clock=clock)
    assert finish(second, [refused]) == 4  # half of the largest
    assert finish(first, [refused]) == 2
    assert (first.requests_at_once, second.requests_at_once) == (2, 2)
    assert (other.requests_at_once, private.requests_at_once) == (8, 8)
    assert Limits(8, clock=clock, endpoint="a").requests_at_once == 2  # a client that comes later
    assert finish(second, [None] * 2) == 3


def test_clients_of_one_endpoint_share_rates_and_pauses() -> None:
    now = Time()
    first, second = (Limits(2, 600, clock=now.clock, endpoint="c") for _ in range(2))
    for limits in [first, second] * 30:  # sixty are a tenth of what a minute has
        with limits.slot(1):
            assert now.seconds == 1000.0
    with first.slot(1):
        assert now.seconds > 1000.0
    first.close(5.0)
    until = now.seconds + 5.0
    with second.slot(1):
        assert now.seconds == pytest.approx(until)


def test_one_429_slows_both_clients(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = LLMSettings(prices=PRICES, clock=QUICK)
    first, second = (opened(server, setting=setting, concurrency=8) for _ in range(2))
    server.key = None
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-account")
    other = opened(server, setting=setting, concurrency=8)
    server.choose = lambda received, earlier: None if earlier or server.sent else status(429)
    first.run(ECHO, {"text": "refused once"})
    most = {}
    for name, client in {"second": second, "other": other}.items():
        full = Barrier(8)

        def answer_together(right: Answer, full: Barrier = full) -> Answer:
            with contextlib.suppress(BrokenBarrierError):
                full.wait(0.5)
            return right

        server.choose = lambda received, earlier, answer=answer_together: answer
        server.most_in_flight = 0
        client.map(ECHO, texts(8))
        most[name] = server.most_in_flight
    assert most == {"second": 4, "other": 8}
    assert KEY not in repr(vars(rate_limits))


# ---------------------------------------------------------------- retry rules


def test_retry_after() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    date = format_datetime(now + timedelta(seconds=90), usegmt=True)
    cases = {"2": 2.0, " 0.5 ": 0.5, "-3": 0.0, "0": 0.0, date: 90.0, "soon": None, "": None, "nan": None}
    assert {value: retry_after({"retry-after": value}, now.timestamp) for value in cases} == cases
    assert retry_after({"retry-after": "7", "retry-after-ms": "250"}) == 0.25
    assert retry_after({}) is None
    assert retry_after({"retry-after": format_datetime(now - timedelta(days=1), usegmt=True)}, now.timestamp) == 0.0


def test_waits_grow_to_a_limit_with_chance_in_them() -> None:
    waits = [
        [retry_delay(RequestProblem("x", 500), attempt, Random(seed)) for attempt in range(12)] for seed in range(200)
    ]
    longest = [min(30.0, 0.5 * 2**attempt) for attempt in range(12)]
    for attempt, most in enumerate(longest):
        column = [row[attempt] for row in waits]
        assert most / 2 <= min(column) < most * 0.55
        assert most * 0.95 < max(column) <= most
    assert waits[0] == [retry_delay(RequestProblem("x", 500), attempt, Random(0)) for attempt in range(12)]
    assert 4.0 <= retry_delay(RequestProblem("x", 429, retry_after=4.0), 9, Random(1)) <= 4.25


@pytest.mark.parametrize(
    ("problem", "passes"),
    [
        (RequestProblem("lost"), True),
        *((RequestProblem("x", code), True) for code in (408, 409, 429, 500, 502, 503, 504, 529)),
        *((RequestProblem("x", code), False) for code in (400, 401, 403, 404, 413, 422, 501)),
        (RequestProblem("x", 429, code="insufficient_quota"), False),
        (RequestProblem("You exceeded your current quota, check your plan", 429), False),
        (RequestProblem("x", 429, retry_after=119.0), True),
        (RequestProblem("x", 503, retry_after=121.0), False),
    ],
)
def test_what_passes(problem: RequestProblem, passes: bool) -> None:
    assert problem.passes is passes


def test_retrying_ends() -> None:
    calls, waited = [], []

    def ask() -> str:
        calls.append(1)
        if len(calls) < 4:
            raise RequestProblemError(RequestProblem("busy", 503))
        return "answer"

    assert retry(ask, 3, Random(0), lambda problem, seconds: waited.append(problem.status)) == "answer"
    assert waited == [503, 503, 503]
    calls.clear()
    with pytest.raises(RequestProblemError, match="status 503: busy"):
        retry(ask, 2, Random(0), lambda problem, seconds: None)
    assert len(calls) == 3


# ---------------------------------------------------------------- the budget


def test_money_is_set_aside_for_calls_in_flight() -> None:
    budget = Budget(1.0)
    with budget.reserved(0.6) as first:
        started, done = Event(), Event()

        def second() -> None:
            started.set()
            with budget.reserved(0.6) as booking:
                booking.pay(0.1)
            done.set()

        thread = threading.Thread(target=second)
        thread.start()
        started.wait()
        assert not done.wait(0.05)  # it waits for the first
        first.pay(0.3)
    thread.join()
    assert budget.spent == pytest.approx(0.4)
    message = r"\$1.0000 is exhausted: \$0.4000 spent; .* could cost \$0.6100"
    with pytest.raises(BudgetError, match=message) as caught, budget.reserved(0.61):
        raise AssertionError
    assert caught.value.exit_code == 9
    with budget.reserved(0.6):
        pass  # failed: nothing was paid
    assert budget.spent == pytest.approx(0.4)
    with pytest.raises(UsageError, match="must be more than 0"):
        Budget(0.0)


def test_a_call_that_waits_for_money_reserves_what_was_seen_meanwhile() -> None:
    budget, excess = Budget(1.0), SeenExcess()
    sent, started = list[float](), Event()

    def wait_for_money() -> None:
        started.set()
        with reserve_money(budget, lambda: 0.4 * excess.factor) as booking:
            sent.append(0.4 * excess.factor)
            booking.pay(0.4)

    with reserve_money(budget, lambda: 0.7) as first:
        thread = threading.Thread(target=wait_for_money)
        thread.start()
        started.wait()
        first.pay(0.1)
        first.when_settled(lambda: excess.see(2.0, 1.0))  # an answer took twice its bound
    thread.join()
    assert sent == [0.8]
    assert budget.spent == pytest.approx(0.5)


def test_a_run_stops_before_its_budget_and_goes_on_from_there(server: OpenAIServer, tmp_path: Path) -> None:
    cache = SQLiteCache(tmp_path / "calls.sqlite")
    inputs = texts(40)  # each costs 0.010 + 0.015, and could cost 0.3 more than its input
    budget = Budget(1.0)
    with pytest.raises(BudgetError, match="Run the same command with a larger --budget to resume"):
        opened(server, setting=LLMSettings(cache=cache, prices=PRICES, budget=budget, clock=QUICK)).map(ECHO, inputs)
    paid = len(server.requests)
    each = 10e-3 + 4 * 3e-3
    assert budget.spent == pytest.approx(each * paid)
    assert 0 < paid < 40
    assert budget.spent + 0.3 < 1.0 < budget.spent + 0.3 + 0.12  # the next might have gone over
    with ledger.record_calls() as tally:
        language = opened(server, setting=LLMSettings(cache=cache, prices=PRICES, budget=Budget(2.0), clock=QUICK))
        assert language.map(ECHO, inputs) == [Echo(**each) for each in inputs]
    assert (tally.replayed, len(server.requests)) == (paid, 40)
    assert tally.first.money == pytest.approx(40 * each)


def test_a_budget_needs_a_price(server: OpenAIServer) -> None:
    with pytest.raises(
        UsageError, match=r"price of local/model-7b, .*'  local/model-7b: \{input: PRICE, output: PRICE\}'"
    ):
        opened(server, model="local/model-7b", setting=LLMSettings(prices=PRICES, budget=Budget(1.0)))


# ---------------------------------------------------------------- stopping


def test_a_signal_ends_those_made_inside_it_and_not_the_one_around_it() -> None:
    outer = StopSignal()
    token = stopping.set(outer)
    try:
        first, second = StopSignal(), StopSignal()
        first.set()
        assert (outer.is_set(), first.is_set(), second.is_set()) == (False, True, False)
        outer.set()
        assert second.is_set()
        assert StopSignal().is_set()  # too late to begin anything
    finally:
        stopping.reset(token)
    assert not StopSignal().is_set()
