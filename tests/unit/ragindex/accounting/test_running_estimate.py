"""The total of a run, as it is corrected by the run's first calls."""

import pytest

from ragindex.accounting import ledger
from ragindex.accounting.running_estimate import ExpectedCalls, RunningEstimate

EXTRACT = ExpectedCalls("extract", "", 100, 1.0)
THOUGHT = ExpectedCalls("thought", "ircot", 48, 0.48)


def test_nothing_expected_has_no_total() -> None:
    assert RunningEstimate().project({("extract", ""): (3, 0.1)}, {}) is None


def test_first_is_the_estimate() -> None:
    assert RunningEstimate([EXTRACT, THOUGHT]).project({}, {}) == pytest.approx(1.48)


@pytest.mark.parametrize("true", [0.3, 1.0, 3.0])
def test_lengths_of_answers_are_learnt(true: float) -> None:
    """Each of 100 calls costs `true` times what was estimated."""
    running = RunningEstimate([EXTRACT])
    errors = [
        abs((running.project({("extract", ""): (calls, calls * 0.01 * true)}, {}) or 0.0) / true - 1)
        for calls in (0, 10, 30, 60, 100)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == pytest.approx(0.0, abs=1e-9)
    assert errors[2] <= max(0.15, 0.5 * errors[0])


def test_rounds_of_agents_are_learnt_from_answered_questions() -> None:
    """Two rounds a question were estimated, and five are taken by each of 24 questions."""
    running = RunningEstimate([THOUGHT])
    paid = {("thought", "ircot"): (40, 0.40)}
    assert running.project(paid, {"ircot": (8, 24)}) == pytest.approx(1.2)
    assert running.project(paid, {"ircot": (1, 24)}) == pytest.approx(0.48)  # one question says little
    few = {("thought", "ircot"): (8, 0.08)}
    assert running.project(few, {"ircot": (8, 24)}) == pytest.approx(0.24)


def test_calls_that_nobody_expected_are_added() -> None:
    paid = {("rerank", "other"): (2, 0.5)}
    assert RunningEstimate([EXTRACT]).project(paid, {}) == pytest.approx(1.5)


def test_more_calls_than_expected_are_no_surprise_twice() -> None:
    assert RunningEstimate([EXTRACT]).project({("extract", ""): (150, 1.5)}, {}) == pytest.approx(1.5)


def test_texts_that_are_encoded_stand_as_estimated() -> None:
    running = RunningEstimate([ExpectedCalls("embedding", "", 0, 0.2)])
    assert running.project({("embedding", ""): (4, 0.05)}, {}) == pytest.approx(0.2)
    assert running.project({("embedding", ""): (4, 0.25)}, {}) == pytest.approx(0.25)


def test_progress_of_a_command_has_the_corrected_total() -> None:
    with ledger.record_calls() as tally:
        tally.expect([ExpectedCalls("extract", "", 100, 1.0), THOUGHT])
        with ledger.attribute_calls("index"):
            for _ in range(50):
                ledger.record_call(ledger.CallRecord("extract", "small", money=0.02), 0.0)
        assert ledger.format_running(tally) == f"$1.0000 of about ${1.0 + 50 * (1.0 + 0.1) / 60 + 0.48:.4f}"
        with ledger.attribute_calls("query", "ircot"):
            for _ in range(20):
                ledger.record_call(ledger.CallRecord("thought", "small", money=0.01), 0.0)
            ledger.record_call(ledger.CallRecord("thought", "small", money=0.5, replayed=True), 0.0)
            ledger.count_asked("ircot", 4, 24)
        assert tally.project() == pytest.approx(1.0 + 50 * 1.1 / 60 + 1.2)
