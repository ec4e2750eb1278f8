"""The law, through any history of a workspace: `histories.played` says what a step is and what must hold after it.

Histories are drawn here by hypothesis, a bounded number; `make histories` plays as many as there is time for.
"""

import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from elasticsearch_node.node import store as elasticsearch_store
from histories import drawn, made
from histories.faults import HOWS
from histories.fresh import Fresh, room
from histories.killed import Killed
from histories.paid import CALLS_DRAWN
from histories.planted import PLANTED
from histories.played import History, Setting, Step
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from ragindex.plugins import registry
from ragindex.workspace.part_keys import topological_order

EXAMPLES = 12
"""Histories in memory and beyond it, each, in `make test`."""


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    place = room("ragindex-fresh-")
    yield Fresh(place)
    shutil.rmtree(place, ignore_errors=True)


# ---------------------------------------------------------------- drawn by hypothesis

_TEXT = st.lists(st.integers(0, 11), min_size=1, max_size=4, unique=True)
_CORPORA = st.dictionaries(st.sampled_from(made.NAMES), _TEXT, max_size=4)
_SOME = st.dictionaries(st.sampled_from(made.NAMES), _TEXT, min_size=1, max_size=3)
_DEATH = st.tuples(st.integers(1, 120), st.sampled_from(HOWS)).map(list) | st.just([])
_SOON = st.tuples(st.integers(1, 4), st.sampled_from(HOWS)).map(list) | st.just([])
_METHODS = st.lists(st.sampled_from(sorted(made.METHODS)), min_size=1, max_size=2, unique=True)


class Histories(RuleBasedStateMachine):
    """One history: each rule is a step."""

    fresh: Fresh
    memory_gib: float = 1.0
    store: str = ""

    @initialize(methods=_METHODS, chunking=st.sampled_from(sorted(made.CUTTINGS)), batch=st.integers(1, 6), first=_SOME)
    def begin(self, methods: list[str], chunking: str, batch: int, first: dict[str, list[int]]) -> None:
        self.place = room("ragindex-history-")
        chosen = Setting(tuple(methods), chunking, batch, memory_gib=self.memory_gib, store=self.store)
        self.history = History(self.place / "space", chosen, self.fresh)
        self.history.play("put", {"documents": first})
        self.history.play("sync", {"methods": methods})

    @rule(documents=_SOME, death=_SOON)
    def put(self, documents: dict[str, list[int]], death: list[Any]) -> None:
        self.history.play("put", {"documents": documents, "death": death})

    @rule(names=st.sets(st.sampled_from(made.NAMES), min_size=1, max_size=3), death=_SOON)
    def remove(self, names: set[str], death: list[Any]) -> None:
        self.history.play("remove", {"names": sorted(names), "death": death})

    @rule(documents=_CORPORA, death=_SOON)
    def replace(self, documents: dict[str, list[int]], death: list[Any]) -> None:
        self.history.play("replace", {"documents": documents, "death": death})

    @rule(chunking=st.sampled_from(("passages", "overlapping")), death=_SOON)
    def rechunk(self, chunking: str, death: list[Any]) -> None:
        self.history.play("rechunk", {"chunking": chunking, "death": death})

    @rule(death=_DEATH, every=st.booleans())
    def sync(self, death: list[Any], every: bool) -> None:
        methods = None if every else list(self.history.setting.methods)
        self.history.play("sync", {"methods": methods, "death": death})

    @rule(death=_DEATH)
    def sync_one(self, death: list[Any]) -> None:
        self.history.play("sync", {"methods": [self.history.setting.methods[0]], "death": death})

    @rule(encoder=st.sampled_from(sorted(made.ENCODERS)))
    def encode(self, encoder: str) -> None:
        self.history.play("encode", {"encoder": encoder})

    @precondition(lambda self: not self.store)
    @rule(memory_gib=st.sampled_from((0.0, 1.0)))
    def budget(self, memory_gib: float) -> None:
        self.history.play("budget", {"memory_gib": memory_gib})

    @rule(late=st.booleans())
    def read(self, late: bool) -> None:
        self.history.play("read", {"method": self.history.setting.methods[-1], "late": late})

    @rule(word=st.sampled_from(("", "Emma", "Tom")))
    def fail(self, word: str) -> None:
        self.history.play("fail", {"word": word})

    @rule(name=st.sampled_from(("reopen", "later", "take")))
    def other(self, name: str) -> None:
        self.history.play(name, {})

    @rule(call=st.sampled_from(CALLS_DRAWN), death=_SOON)
    def pay(self, call: int, death: list[Any]) -> None:
        self.history.play("pay", {"call": call, "death": death})

    @rule(name=st.sampled_from(("hand_on", "hand_on", "lose")), death=_SOON)
    def answers(self, name: str, death: list[Any]) -> None:
        self.history.play(name, {"death": death})

    def teardown(self) -> None:
        if hasattr(self, "history"):
            self.history.close()
            shutil.rmtree(self.place, ignore_errors=True)


def run(machine: type[Histories], examples: int) -> None:
    """The same histories every time: what is drawn anew is drawn by `make histories`."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    chosen = settings(
        max_examples=examples,
        stateful_step_count=10,
        derandomize=True,
        database=None,
        print_blob=False,
        suppress_health_check=checks,
    )
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.parametrize(
    "memory_gib",
    [pytest.param(1.0, id="within memory"), pytest.param(0.0, id="beyond memory", marks=pytest.mark.slow)],
)
def test_any_history(memory_gib: float, fresh: Fresh) -> None:
    run(type("Drawn", (Histories,), {"fresh": fresh, "memory_gib": memory_gib}), EXAMPLES)


# ---------------------------------------------------------------- what was found, for good


def play(fresh: Fresh, steps: Sequence[Step], *methods: str, **chosen: Any) -> None:
    """Raises what is broken."""
    outcome = drawn.play(Setting(methods, **chosen), steps, fresh)
    assert not outcome.broken, outcome.broken


_DATA = ("words", "vectors", "triples", "propositions", "passages")


def _written(method: str) -> str:
    held = {registry.name_of(part) for part in topological_order(made.METHODS[method].parts())}
    return f"upsert {next(name for name in _DATA if name in held)}.records"


WRITTEN = {method: _written(method) for method in made.METHODS}
"""Of each method a write of records that a document's passages have of their own."""
TWO = {"ann": [0, 3], "ben": [2, 4]}
GONE: dict[str, Step] = {
    "removed": ("remove", {"names": ["cid"]}),
    "changed": ("put", {"documents": {"cid": [1, 8]}}),
    "shortened": ("put", {"documents": {"cid": [7]}}),
    "replaced": ("replace", {"documents": TWO}),
}
EVERY = [(method, list(GONE)[number % len(GONE)]) for number, method in enumerate(made.METHODS)]
"""Each method with one of the ways to go."""


def gone_after_a_death(method: str, gone: str) -> list[Step]:
    """In the data and not covered: it must go with its document all the same."""
    return [
        ("put", {"documents": TWO}),
        ("sync", {"methods": [method]}),
        ("put", {"documents": {"cid": [7, 9, 11, 5]}}),
        ("sync", {"methods": [method], "death": [WRITTEN[method], "after"]}),
        GONE[gone],
        ("sync", {"methods": [method]}),
    ]


def back_after_a_death(method: str) -> list[Step]:
    """The text that is covered, while the data hold another."""
    return [
        ("put", {"documents": TWO}),
        ("sync", {"methods": [method]}),
        ("put", {"documents": {"ann": [7, 9]}}),
        ("sync", {"methods": [method], "death": [WRITTEN[method], "after"]}),
        ("put", {"documents": TWO}),
        ("sync", {"methods": [method]}),
    ]


def another_budget_after_a_death(method: str) -> list[Step]:
    """Readers stay at the last finished state, though every part that is whole is finished again."""
    return [
        ("put", {"documents": TWO}),
        ("sync", {"methods": [method]}),
        ("put", {"documents": {"cid": [7, 9, 11, 5], "dot": [0, 1, 2, 3]}}),
        ("sync", {"methods": [method], "death": [WRITTEN[method], "after"]}),
        ("budget", {"memory_gib": 0.0}),
        ("sync", {"methods": [method], "death": [WRITTEN[method], "before"]}),
        ("sync", {"methods": [method]}),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "gone"), EVERY)
def test_a_document_that_goes_after_a_sync_that_died(method: str, gone: str, fresh: Fresh) -> None:
    play(fresh, gone_after_a_death(method, gone), method)


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("method", ["bm25", "composed words"])
def test_every_way_to_go_after_a_sync_that_died(method: str, gone: str, fresh: Fresh) -> None:
    play(fresh, gone_after_a_death(method, gone), method)


@pytest.mark.parametrize("method", ["bm25", "dense", "composed words"])
def test_a_text_that_comes_back_after_a_sync_that_died(method: str, fresh: Fresh) -> None:
    play(fresh, back_after_a_death(method), method)


@pytest.mark.parametrize("method", ["bm25", "composed triples"])
def test_another_budget_after_a_sync_that_died(method: str, fresh: Fresh) -> None:
    play(fresh, another_budget_after_a_death(method), method, batch=2)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("write", ["replace in answers.jsonl", "put calls", "add calls"])
def test_paid_answers_that_are_handed_on_by_a_process_that_dies(write: str, how: str, fresh: Fresh) -> None:
    """An export is as it was or as it shall be; what was imported is whole after the second time."""
    death = [write, how]
    steps: list[Step] = [
        *(("pay", {"call": call}) for call in (1, 3, 4)),
        ("hand_on", {}),
        ("pay", {"call": 5, "death": death}),
        ("hand_on", {"death": death}),
        ("lose", {"death": death}),
    ]
    outcome = drawn.play(Setting(("bm25",)), steps, fresh)
    assert (outcome.broken, outcome.met) == ("", {f"{how}: {write}"})


@pytest.mark.parametrize("encoder", ["hashed", "lsa"])
def test_equal_cosines_are_equal_beyond_memory(encoder: str, fresh: Fresh) -> None:
    """Brought to the range from the least to the greatest they were whatever rounding made of them."""
    documents = {"ann": [0], "ben": [8], "cid": [4], "dot": [4]} if encoder == "lsa" else {"eve": [8, 1]}
    steps: list[Step] = [("encode", {"encoder": encoder}), ("put", {"documents": documents})]
    for method in ("hipporag push", "composed"):
        play(fresh, [*steps, ("sync", {"methods": [method]})], method, memory_gib=0.0)


FOUND: dict[str, tuple[list[Step], str]] = {
    "coverage alone": (gone_after_a_death("bm25", "removed"), "the law"),
    "all finished again": (another_budget_after_a_death("bm25"), "finished"),
}


@pytest.mark.slow
@pytest.mark.parametrize("defect", sorted(PLANTED))
def test_a_defect_that_is_put_back_is_found(defect: str, fresh: Fresh) -> None:
    steps, kind = FOUND[defect]
    with PLANTED[defect]():
        assert drawn.play(Setting(("bm25",), batch=2), steps, fresh).kind == kind


@pytest.mark.slow
def test_a_history_that_fails_is_cut_down_to_what_is_needed(fresh: Fresh) -> None:
    steps = gone_after_a_death("bm25", "removed")
    more: list[Step] = [*steps[:4], ("reopen", {}), *steps[4:], ("reopen", {})]
    chosen = Setting(("bm25", "dense"), batch=2)
    with PLANTED["coverage alone"]():
        failed = drawn.play(chosen, more, fresh)
        chosen, shortest = drawn.shrunk(chosen, failed, fresh, tries=30)
    assert chosen.methods == ("bm25",)
    assert "reopen" not in [name for name, _ in shortest.steps]


# ---------------------------------------------------------------- real processes


@pytest.mark.slow
def test_histories_of_processes_that_are_killed(fresh: Fresh) -> None:
    rng = random.Random(1)
    met = set[str]()
    for _ in range(2):
        chosen = replace(drawn.setting(rng, 1.0), methods=("composed words", "hybrid"))
        outcome = drawn.play(chosen, drawn.steps(rng, chosen), fresh, kind=Killed)
        assert not outcome.broken, outcome
        met |= outcome.met
    assert met, "none was killed"


# ---------------------------------------------------------------- on Elasticsearch


@pytest.mark.slow
def test_any_history_on_elasticsearch(fresh: Fresh) -> None:
    with elasticsearch_store(writers=1) as store:
        run(type("Drawn", (Histories,), {"fresh": fresh, "store": store}), 2)
