"""Histories that once failed, kept for good: what a sync left that died, and what came after it."""

from collections.abc import Sequence
from typing import Any

from histories import drawn, materials
from histories.fresh import Fresh
from histories.played import Setting, Step
from ragindex.index.parts import topological_order
from ragindex.plugins import registry

_DATA = ("words", "vectors", "triples", "propositions", "passages")
TWO = {"ann": [0, 3], "ben": [2, 4]}
THREE = {**TWO, "cid": [7, 9, 11, 5]}
GONE: dict[str, Step] = {
    "removed": ("remove", {"names": ["cid"]}),
    "changed": ("put", {"documents": {"cid": [1, 8]}}),
    "shortened": ("put", {"documents": {"cid": [7]}}),
    "replaced": ("replace", {"documents": TWO}),
}


def play(fresh: Fresh, steps: Sequence[Step], *methods: str, **chosen: Any) -> None:
    """Raises what is broken; every death that is asked for must happen."""
    outcome = drawn.play(Setting(methods, **chosen), steps, fresh)
    assert not outcome.broken, outcome.broken
    assert len(outcome.met) == len({tuple(given["death"]) for _, given in steps if "death" in given})


def own_records(method: str) -> str:
    """The part of a method that has records of a document's passages alone."""
    part_names = {registry.name_of(part) for part in topological_order(materials.METHODS[method].parts())}
    return next(name for name in _DATA if name in part_names)


def write_of(method: str) -> str:
    return f"upsert {own_records(method)}.records"


def gone_after_a_death(method: str, gone: str, write: str = "", how: str = "after") -> list[Step]:
    """In the data and not covered: it must go with its document all the same."""
    return [
        ("put", {"documents": TWO}),
        ("sync", {"methods": [method]}),
        ("put", {"documents": {"cid": THREE["cid"]}}),
        ("sync", {"methods": [method], "death": [write or write_of(method), how]}),
        GONE[gone],
        ("sync", {"methods": [method]}),
    ]


def back_after_a_death(method: str) -> list[Step]:
    """The text that is covered, while the data hold another."""
    return [
        ("put", {"documents": TWO}),
        ("sync", {"methods": [method]}),
        ("put", {"documents": {"ann": [7, 9]}}),
        ("sync", {"methods": [method], "death": [write_of(method), "after"]}),
        ("put", {"documents": TWO}),
        ("sync", {"methods": [method]}),
    ]


def added_again_after_a_death(method: str, write: str) -> list[Step]:
    """A document whose removal died, and which is back."""
    return [
        ("put", {"documents": THREE}),
        ("sync", {"methods": [method]}),
        ("remove", {"names": ["cid"]}),
        ("sync", {"methods": [method], "death": [write, "after"]}),
        ("put", {"documents": {"cid": THREE["cid"]}}),
        ("sync", {"methods": [method]}),
    ]


def dead_twice(method: str) -> list[Step]:
    """What the first death left in doubt outlives a second one at another batch."""
    return [
        ("put", {"documents": TWO}),
        ("sync", {"methods": [method]}),
        ("put", {"documents": {"cid": THREE["cid"]}}),
        ("sync", {"methods": [method], "death": [write_of(method), "after"]}),
        ("remove", {"names": ["cid"]}),
        ("put", {"documents": {"ben": [6]}}),
        ("sync", {"methods": [method], "death": [f"append journal {own_records(method)}", "after"]}),
        ("sync", {"methods": [method]}),
    ]


def another_budget_after_a_death(method: str) -> list[Step]:
    """Readers stay at the last finished state, though every part that is whole is finished again."""
    return [
        ("put", {"documents": TWO}),
        ("sync", {"methods": [method]}),
        ("put", {"documents": {"cid": THREE["cid"], "dot": [0, 1, 2, 3]}}),
        ("sync", {"methods": [method], "death": [write_of(method), "after"]}),
        ("budget", {"memory_gib": 0.0}),
        ("sync", {"methods": [method], "death": [write_of(method), "before"]}),
        ("sync", {"methods": [method]}),
    ]


def equal_cosines(encoder: str, method: str) -> list[Step]:
    """Brought to the range from the least to the greatest they were whatever rounding made of them."""
    documents = {"ann": [0], "ben": [8], "cid": [4], "dot": [4]} if encoder == "lsa" else {"eve": [8, 1]}
    return [("encode", {"encoder": encoder}), ("put", {"documents": documents}), ("sync", {"methods": [method]})]


def near_equal_cosines(method: str) -> list[Step]:
    """Cosines that float32 cannot tell apart: ranks, and with them fused scores, were the store's own."""
    text = [8, 1, 6, 11]
    return [
        ("put", {"documents": {"ben": text[:2], "ann": text, "eve": text}}),
        ("encode", {"encoder": "lsa"}),
        ("sync", {"methods": [method]}),
    ]
