"""Many histories of a workspace: beyond memory, on Elasticsearch, of killed processes, and with planted defects."""

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest
from elasticsearch_node.node import store as elasticsearch_store
from histories import drawn, fixed, materials
from histories.faults import HOWS
from histories.fresh import Fresh, make_folder
from histories.killed import Killed
from histories.planted import PLANTED
from histories.played import Setting, Step

EVERY = [(method, list(fixed.GONE)[number % len(fixed.GONE)]) for number, method in enumerate(materials.METHODS)]
"""Each method with one of the ways to go."""


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    place = make_folder("ragindex-fresh-")
    yield Fresh(place)
    shutil.rmtree(place, ignore_errors=True)


def play_drawn(seed: int, fresh: Fresh, memory_gib: float = 1.0, store: str = "") -> None:
    rng = random.Random(seed)
    chosen = drawn.setting(rng, memory_gib, store)
    outcome = drawn.play(chosen, drawn.steps(rng, chosen), fresh)
    assert not outcome.broken, outcome


@pytest.mark.parametrize("memory_gib", [1.0, 0.0])
@pytest.mark.parametrize("seed", range(12))
def test_drawn_history(seed: int, memory_gib: float, fresh: Fresh) -> None:
    play_drawn(seed, fresh, memory_gib)


def test_drawn_history_on_elasticsearch(fresh: Fresh) -> None:
    with elasticsearch_store(writers=1) as store:
        for seed in range(2):
            play_drawn(seed, fresh, store=store)


def test_histories_of_killed_processes(fresh: Fresh) -> None:
    rng = random.Random(1)
    met = set[str]()
    for _ in range(2):
        chosen = replace(drawn.setting(rng, 1.0), methods=("composed words", "hybrid"))
        outcome = drawn.play(chosen, drawn.steps(rng, chosen), fresh, kind=Killed)
        assert not outcome.broken, outcome
        met |= outcome.met
    assert met, "none was killed"


@pytest.mark.parametrize(("method", "gone"), EVERY)
def test_document_gone_after_dead_sync(method: str, gone: str, fresh: Fresh) -> None:
    fixed.play(fresh, fixed.gone_after_a_death(method, gone), method)


@pytest.mark.parametrize(
    ("gone", "write", "how"),
    [
        ("removed", "upsert passages.records", "after"),
        ("changed", "append journal passages", "after"),
        ("shortened", "upsert passages.coverage", "before"),
    ],
)
def test_document_gone_after_each_write(gone: str, write: str, how: str, fresh: Fresh) -> None:
    fixed.play(fresh, fixed.gone_after_a_death("bm25", gone, write, how), "bm25")


@pytest.mark.parametrize("gone", fixed.GONE)
def test_every_way_to_go_after_dead_sync(gone: str, fresh: Fresh) -> None:
    fixed.play(fresh, fixed.gone_after_a_death("composed words", gone), "composed words")


@pytest.mark.parametrize("method", ["bm25 words", "dense", "composed triples"])
def test_other_methods_after_dead_sync(method: str, fresh: Fresh) -> None:
    fixed.play(fresh, fixed.back_after_a_death(method), method)
    fixed.play(fresh, fixed.another_budget_after_a_death(method), method, batch=2)


@pytest.mark.parametrize("encoder", ["hashed", "lsa"])
def test_equal_cosines_are_equal_beyond_memory(encoder: str, fresh: Fresh) -> None:
    for method in ("composed", "hipporag push"):
        fixed.play(fresh, fixed.equal_cosines(encoder, method), method, memory_gib=0.0)


@pytest.mark.parametrize("method", ["dense", "hybrid", "gear.naive"])
def test_near_equal_cosines_keep_their_order_beyond_memory(method: str, fresh: Fresh) -> None:
    fixed.play(fresh, fixed.near_equal_cosines(method), method, memory_gib=0.0)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("write", ["replace in answers.jsonl", "put calls", "add calls"])
def test_paid_answers_after_death(write: str, how: str, fresh: Fresh) -> None:
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


FOUND: dict[str, tuple[list[Step], str]] = {
    "coverage alone": (fixed.gone_after_a_death("bm25", "removed"), "the law"),
    "all finished again": (fixed.another_budget_after_a_death("bm25"), "finished"),
}


@pytest.mark.parametrize("defect", sorted(PLANTED))
def test_planted_defect_is_found(defect: str, fresh: Fresh) -> None:
    steps, kind = FOUND[defect]
    with PLANTED[defect]():
        assert drawn.play(Setting(("bm25",), batch=2), steps, fresh).kind == kind


def test_failed_history_is_cut_down(fresh: Fresh) -> None:
    steps = fixed.gone_after_a_death("bm25", "removed")
    more: list[Step] = [*steps[:4], ("reopen", {}), *steps[4:], ("reopen", {})]
    chosen = Setting(("bm25", "dense"), batch=2)
    with PLANTED["coverage alone"]():
        failed = drawn.play(chosen, more, fresh)
        chosen, shortest = drawn.shrunk(chosen, failed, fresh, tries=30)
    assert chosen.methods == ("bm25",)
    assert "reopen" not in [name for name, _ in shortest.steps]
