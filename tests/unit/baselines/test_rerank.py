"""Reranking: orders by hand, what a language model says, how rerankers are written, and pairs of methods."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.errors import UsageError
from ragindex.plugins import registry
from ragindex_baselines.rerank.method import merge_orders, order_candidates
from ragindex_baselines.rerank.rerankers import CrossEncoder, read_choice
from ragindex_eval.run.plan import add_reranked, choose_methods

NAN, INFINITY = math.nan, math.inf


@pytest.mark.parametrize(
    ("ranked", "places", "scores", "counts"),
    [
        ([(2, 0.5), (0, 0.9), (1, 0.7)], (0, 1, 2), (0.9, 0.7, 0.5), {}),
        ([(2, 0.5)], (2, 0, 1), (0.5, -0.5, -1.5), {"not returned": 2}),
        ([(1, 0.5), (2, 0.5), (0, 0.5)], (2, 1, 0), (0.5, 0.5, 0.5), {}),  # ids z, y, x
        ([(2, 0.5), (2, 0.9), (0, 0.4), (1, 0.1)], (2, 0, 1), (0.5, 0.4, 0.1), {"said twice": 1}),
        ([(3, 9.0), (-1, 8.0), (1, 0.5)], (1, 0, 2), (0.5, -0.5, -1.5), {"no such passage": 2, "not returned": 2}),
        ([(0, NAN), (1, INFINITY), (2, 0.5)], (2, 0, 1), (0.5, -0.5, -1.5), {"no score": 2, "not returned": 2}),
        (
            [(0, NAN), (0, 0.7), (1, 1e13), (2, -INFINITY)],
            (0, 1, 2),
            (0.7, -0.3, -1.3),
            {"no score": 3, "not returned": 2},
        ),
        ([], (0, 1, 2), (3.0, 2.0, 1.0), {"not returned": 3}),
    ],
)
def test_orders_by_hand(
    ranked: Any, places: tuple[int, ...], scores: tuple[float, ...], counts: dict[str, int]
) -> None:
    order = order_candidates(ranked, ["z", "y", "x"])
    assert (order.places, order.counts) == (places, counts)
    assert order.scores == pytest.approx(scores)
    assert order.note == ", ".join(f"{count} {what}" for what, count in counts.items())


def test_orders_beside_bridges_are_merged_by_their_largest_score() -> None:
    ids = ["z", "y", "x", "w"]
    beside_z = order_candidates([(1, 3.0), (0, 1.0), (0, 9.0)], ["y", "x", "w"])  # x 3, y 1; y twice, w left out
    beside_y = order_candidates([(0, 3.0), (1, 2.0)], ["z", "x", "w"])  # z 3, x 2
    order = merge_orders([((1, 2, 3), beside_z), ((0, 2, 3), beside_y)], ids, rest=1)
    assert order.places == (2, 0, 1, 3, 4)  # x before z: its sum is larger
    assert order.scores == pytest.approx((3.0, 3.0, 1.0, 0.0, -1.0))
    assert (order.returned, order.counts) == (3, {"said twice": 1, "not returned": 1})


def test_a_single_bridge_stays_first() -> None:
    order = merge_orders([((1, 2), order_candidates([(1, 0.5)], ["y", "x"]))], ["z", "y", "x"])
    assert (order.places, order.scores) == ((0, 2, 1), (1.5, 0.5, -0.5))
    alone = merge_orders([((), order_candidates([], []))], ["z"])
    assert (alone.places, alone.scores) == ((0,), (1.0,))


def test_those_that_nobody_was_asked_about_come_last_and_are_not_counted() -> None:
    order = order_candidates([(1, 3.0)], ["x", "y"], 2)
    assert (order.places, order.scores, order.counts) == ((1, 0, 2, 3), (3.0, 2.0, 1.0, 0.0), {"not returned": 1})


@given(
    st.lists(st.tuples(st.integers(-2, 6), st.floats() | st.integers(-3, 3).map(float)), max_size=12),
    st.lists(st.text(max_size=2), max_size=5, unique=True),
    st.integers(0, 3),
)
def test_nothing_gets_lost_whatever_is_said(scored: list[tuple[int, float]], candidates: list[str], rest: int) -> None:
    order = order_candidates(scored, candidates, rest)
    n = len(candidates)
    assert sorted(order.places) == list(range(n + rest))
    keys = [(-score, candidates[place]) for place, score in zip(order.places, order.scores, strict=True) if place < n]
    assert keys == sorted(keys)
    assert list(order.scores) == sorted(order.scores, reverse=True)
    unscored = [place for place in order.places if place >= n or not any(place == ranked for ranked, _ in scored)]
    assert unscored == sorted(unscored)
    usable = {place for place, score in scored if 0 <= place < n and abs(score) <= 1e12}
    assert order.counts.get("not returned", 0) == n - len(usable)
    wrong = sum(order.counts.get(what, 0) for what in ("said twice", "no such passage", "no score"))
    assert wrong == len(scored) - len(usable)


@pytest.mark.parametrize(
    ("text", "numbers"), [("[3] > [1] > [12]", [3, 1, 12]), ("None of them.", []), ("2, then 2", [2, 2])]
)
def test_plain_texts(text: str, numbers: list[int]) -> None:
    assert read_choice(text).passages == numbers


def test_a_plain_text_without_numbers() -> None:
    with pytest.raises(ValueError, match="names no passage"):
        read_choice("The first one.")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("nobody", "A reranker is one of cross-encoder, endpoint, language-model. Got 'nobody'"),
        ("language-model:x", "language-model takes no argument after a colon"),
        ("cross-encoder", "The 'model' parameter of cross-encoder: Field required"),
        ("language-model(words=3)", "The 'words' parameter of language-model: Extra inputs are not permitted"),
        (7, r"A reranker is written NAME, NAME:MODEL or \{name, params\}. Got 7"),
        ({"name": "endpoint", "model": "x"}, "A reranker is written"),
    ],
)
def test_rerankers_that_cannot_be(written: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        registry.scheme({"name": "rerank", "params": {"reranker": written}})


def test_twins_follow_their_methods() -> None:
    methods, _ = choose_methods(
        ["bm25", {"name": "hybrid", "label": "deep", "params": {"depth": 7}}, "rerank(base=dense)"]
    )
    labels = {method.label: registry.label(method.scheme) for method in add_reranked(methods, True)}
    assert labels == {
        "bm25": "bm25",
        "bm25 + rerank": "rerank(base=bm25)",
        "deep": "hybrid(depth=7)",
        "deep + rerank": "rerank(base=hybrid(depth=7))",
        "rerank(base=dense)": "rerank(base=dense)",
    }
    assert add_reranked(methods, False) == methods
    named = add_reranked(methods[:1], "language-model(characters=9)")
    assert registry.label(named[1].scheme) == "rerank(base=bm25, reranker=language-model(characters=9))"
    both, _ = choose_methods(["dense", "rerank(base=dense)"])
    assert [method.label for method in add_reranked(both, True)] == ["dense", "rerank(base=dense)"]


def test_a_cross_encoder_goes_by_its_files(tmp_path: Path) -> None:
    written = {"name": "rerank", "params": {"reranker": {"name": "cross-encoder", "params": {"model": str(tmp_path)}}}}
    (tmp_path / "config.json").write_text("{}")
    scheme = registry.scheme(written)
    assert registry.scheme(registry.label(scheme)) == scheme  # type: ignore[arg-type]
    (tmp_path / "config.json").write_text(json.dumps({"layer_norm_eps": 0.1}))
    other = registry.scheme(written)
    assert registry.plugin_fingerprint(other) != registry.plugin_fingerprint(scheme)  # type: ignore[arg-type]
    assert CrossEncoder(model="a-name/on-the-hub").revision == ""
