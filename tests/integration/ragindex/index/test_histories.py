"""The law, through any history of a workspace: `histories.played` says what a step is and what must hold after it.

A few are drawn here; tests/slow draws more, and `make histories` plays as many as there is time for.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import pytest
from histories import drawn, fixed
from histories.fresh import Fresh, make_folder
from histories.played import Step

from ragindex._util import workers
from ragindex._util.workers import use_executor


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    place = make_folder("ragindex-fresh-")
    yield Fresh(place)
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("methods", [("bm25", "dense"), ("bm25 words", "bm25")])
def test_drawn_history(methods: tuple[str, ...], fresh: Fresh) -> None:
    play_drawn(methods, fresh)


def play_drawn(methods: tuple[str, ...], fresh: Fresh) -> None:
    rng = random.Random(methods[0])
    chosen = replace(drawn.setting(rng, 1.0), methods=methods)
    outcome = drawn.play(chosen, drawn.steps(rng, chosen), fresh)
    assert not outcome.broken, outcome


@pytest.mark.parametrize("make", [ThreadPoolExecutor, partial(ProcessPoolExecutor, mp_context=get_context("spawn"))])
def test_drawn_history_with_an_executor(
    make: Callable[[int], Executor], fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "SERIAL_SECONDS", 0.0)
    with make(2) as pool, use_executor(pool, batches=3):
        play_drawn(("dense", "hybrid"), fresh)
        fixed.play(fresh, fixed.gone_after_a_death("dense", "changed"), "dense")


@pytest.mark.parametrize(
    ("method", "gone", "write", "how"),
    [
        ("bm25 words", "removed", "upsert words.records", "after"),
        ("bm25", "changed", "upsert passages.coverage", "before"),
        ("bm25", "replaced", "append journal passages", "half"),
    ],
)
def test_document_gone_after_dead_sync(method: str, gone: str, write: str, how: str, fresh: Fresh) -> None:
    fixed.play(fresh, fixed.gone_after_a_death(method, gone, write, how), method)


def test_text_back_after_dead_sync(fresh: Fresh) -> None:
    fixed.play(fresh, fixed.back_after_a_death("bm25"), "bm25")


def test_sync_of_nothing_clears_an_interrupted_first_build(fresh: Fresh) -> None:
    steps: list[Step] = [
        ("put", {"documents": fixed.TWO}),
        ("sync", {"methods": None}),
        ("sync", {"methods": ["bm25"], "death": ["upsert passages.records", "after"]}),
        ("sync", {"methods": None}),
    ]
    fixed.play(fresh, steps, "bm25")


def test_removed_document_back_after_dead_sync(fresh: Fresh) -> None:
    fixed.play(fresh, fixed.added_again_after_a_death("bm25 words", "delete words.records"), "bm25 words")


def test_shared_records_go_in_several_batches(fresh: Fresh) -> None:
    documents = {**fixed.TWO, "dot": [0, 2]}
    sync: Step = ("sync", {"methods": ["bm25 words"]})
    steps: list[Step] = [("put", {"documents": documents}), sync, ("remove", {"names": ["ann", "ben"]}), sync]
    fixed.play(fresh, steps, "bm25 words", batch=1, chunking="whole")


def test_part_that_stayed_behind_its_input(fresh: Fresh) -> None:
    """Passages are forgotten and made again before what is made from them is synced."""
    behind: Step = ("sync", {"methods": ["bm25 words"]})
    both: Step = ("sync", {"methods": ["bm25 words", "dense words"]})
    steps: list[Step] = [
        ("put", {"documents": {"ann": [0, 3], "ben": [1, 3], "cid": [2]}}),
        both,
        ("remove", {"names": ["ann"]}),
        behind,
        ("remove", {"names": ["ben"]}),
        behind,
        ("put", {"documents": {"ann": [0, 3]}}),
        behind,
        both,
    ]
    fixed.play(fresh, steps, "bm25 words", "dense words", chunking="whole")


def test_another_budget_after_dead_sync(fresh: Fresh) -> None:
    fixed.play(fresh, fixed.another_budget_after_a_death("bm25"), "bm25", batch=2)


def test_second_death_at_another_batch(fresh: Fresh) -> None:
    fixed.play(fresh, fixed.dead_twice("bm25"), "bm25", batch=1)


def test_equal_cosines_are_equal_beyond_memory(fresh: Fresh) -> None:
    fixed.play(fresh, fixed.equal_cosines("lsa", "composed"), "composed", memory_gib=0.0)
