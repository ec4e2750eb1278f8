"""The steps of a retrieval as they are kept."""

from dataclasses import replace

import pytest

from ragindex.accounting import ledger
from ragindex.retrieval.trace import IF_STOPPED, Trace
from ragindex.types import Step


def test_a_replayed_call_counts_with_what_it_first_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragindex.retrieval.trace.time.perf_counter", lambda: 7.0)
    trace = Trace()
    with trace.step(2, "read", "who?") as step:
        paid = ledger.CallRecord("read", "small", input_tokens=30, output_tokens=4, seconds=2.5)
        ledger.record_call(replace(paid, replayed=True), 0.0)
        ledger.record_call(paid, 2.5)
        step["ids"], step["note"] = ("a", "b"), "a thought"
    assert trace.steps == [
        Step(2, "read", "who?", ("a", "b"), ms=2500.0, note="a thought", input_tokens=60, output_tokens=8)
    ]


def test_the_steps_of_a_base_belong_to_the_iteration() -> None:
    trace = Trace()
    trace.of_base((Step(1, "text", "who?", ("a",)), Step(2, "vectors", "who?")), 3)
    assert [(step.iteration, step.index) for step in trace.steps] == [(3, "text"), (3, "vectors")]


def test_the_rankings_of_a_bases_own_iterations_are_not_those_of_the_method_over_it() -> None:
    trace = Trace()
    trace.of_base((Step(1, "text", "who?", ("a",)), Step(1, IF_STOPPED, "who?", ("a",))), 2)
    assert [(step.iteration, step.index) for step in trace.steps] == [(2, "text")]


def test_a_step_that_fails_is_none() -> None:
    trace = Trace()
    with pytest.raises(ValueError, match="no"), trace.step(1, "read", "who?"):
        raise ValueError("no")
    assert trace.steps == []
