"""Whose calls, how many, how long, how much."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace

import pytest

from ragindex.accounting import ledger
from ragindex.accounting.ledger import (
    CallRecord,
    ConcurrentTimes,
    RunningCosts,
    format_running,
    format_savings,
    format_spending,
    spending_to_json,
)
from ragindex.types import Usage

CALL = CallRecord("echo", "small", input_tokens=10, cached_tokens=4, output_tokens=5, money=0.5, seconds=2.0)
KEPT = CallRecord("echo", "small", input_tokens=20, output_tokens=1, money=0.25, seconds=3.0, replayed=True)


# ---------------------------------------------------------------- the tally


def test_what_the_cache_has_saved() -> None:
    with ledger.record_calls(paid_only=True) as tally:
        assert (format_running(tally), format_savings(tally)) == ("", None)
        ledger.record_call(CALL, now=2.5)
        ledger.record_call(KEPT, now=0.001)
        ledger.record_call(KEPT, now=0.001)
        ledger.record_call(replace(KEPT, task=ledger.EMBEDDING, money=0.125), now=0.0)
        ledger.record_call(CallRecord("echo", "offline rules", seconds=0.5, rule=True, replayed=True), now=0.5)
    assert tally.costs == RunningCosts(paid=0.5, answers=2, saved=0.625)
    assert format_savings(tally) == "Saved by the cache: 2 answers, $0.625000."
    assert format_running(tally) == "$0.5000, 2 cached"
    assert tally.entries == (replace(CALL, phase="", method="", item=None),)


def test_first_and_spent() -> None:
    with ledger.record_calls() as tally:
        ledger.record_call(CALL, now=2.5)
        ledger.record_call(KEPT, now=0.001)
        ledger.record_call(CallRecord("echo", "other", money=None, seconds=1.0, estimated=True), now=1.0)
        ledger.record_call(CallRecord("echo", "offline rules", seconds=0.5, rule=True), now=0.5)
    assert tally.first == Usage(6.5, 30, 6, None, estimated=True)  # money that is not known is no 0, in no sum
    assert tally.spent == Usage(3.5, 10, 5, None, estimated=True)
    assert (tally.calls, tally.replayed, tally.rules, tally.cached_tokens) == (3, 1, 1, 4)
    assert tally.unpriced == {"other"}
    assert tally.correction == pytest.approx(3.0 - 0.001)
    assert tally.by_item() == {None: tally.first}
    ledger.record_call(CALL, now=1.0)
    assert tally.calls == 3


def test_recordings_inside_one_another_get_the_same_calls() -> None:
    with ledger.record_calls() as outer:
        ledger.record_call(CALL, 2.0)
        with ledger.record_calls() as inner:
            ledger.record_call(KEPT, 1.0)
            ledger.count_outcome("echo", "strict")
    assert (outer.calls, inner.calls) == (2, 1)
    assert outer.stages == inner.stages == {"echo": Counter(strict=1)}
    assert (outer.correction, inner.correction) == (2.0, 2.0)


def test_the_outermost_attribution_wins_and_travels_into_threads() -> None:
    def work() -> None:
        with ledger.attribute_calls(method="base"):
            ledger.record_call(CALL, 1.0)

    with ledger.record_calls() as tally:
        work()
        with ledger.attribute_calls("query", "gear"):
            work()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(copy_context().run, work).result()
            thread = threading.Thread(target=work)  # copies no context: its calls are nobody's
            thread.start()
            thread.join()
        with ledger.attribute_calls("index"):
            work()
    assert [(entry.phase, entry.method) for entry in tally.entries] == [
        ("", "base"),
        ("query", "gear"),
        ("query", "gear"),
        ("index", "base"),
    ]


def test_times_beside_one_another() -> None:
    with ledger.record_calls() as tally:
        slots = ConcurrentTimes(2)
        for number, seconds in enumerate([3.0, 1.0, 1.0, 2.0]):
            with slots.item(number):
                ledger.record_call(CallRecord("echo", "small", seconds=seconds, replayed=True), 0.25)
        assert tally.correction == 0.0
        slots.close()
        ledger.record_call(CallRecord("echo", "small", seconds=1.0, replayed=True), 0.5)
    assert tally.correction == pytest.approx((4.0 - 0.5) + (1.0 - 0.5))  # 3 | 1 + 1 + 2 in two lanes
    assert tally.by_item()[3] == Usage(2.0)
    assert tally.first.seconds == 8.0


PAID = CallRecord("echo", "small", input_tokens=7, money=0.5)
GUESSED = replace(PAID, estimated=True)


@pytest.mark.parametrize(
    ("entries", "sentence", "estimated"),
    [
        ([PAID], "Spent: 7 tokens, $0.500000.", False),
        ([PAID, GUESSED], "Spent: about 14 tokens, about $1.000000.", True),
        ([replace(GUESSED, money=None)], "Spent: about 7 tokens, no price is known for small.", True),
        ([PAID, replace(GUESSED, replayed=True)], "Spent: 7 tokens, $0.500000.", False),
    ],
)
def test_estimated_tokens_are_marked_in_what_was_spent(
    entries: list[CallRecord], sentence: str, estimated: bool
) -> None:
    with ledger.record_calls() as paid:
        for entry in entries:
            ledger.record_call(entry, 0.0)
    assert format_spending(paid) == sentence
    assert spending_to_json(paid)["estimated"] == estimated
