import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.retrieval.fusion import convex_combination, normalize_scores, reciprocal_rank_fusion, scores_differ

rankings = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4)


def test_by_hand() -> None:
    fused = reciprocal_rank_fusion([["a", "b", "c"], ["c", "a"]], constant=60)
    assert fused == [("a", 1 / 61 + 1 / 62), ("c", 1 / 61 + 1 / 63), ("b", 1 / 62)]


def test_equal_sums_go_to_the_better_single_rank_then_the_id() -> None:
    assert [id for id, _ in reciprocal_rank_fusion([["b", "a"], ["a", "b"]])] == ["a", "b"]
    first, two = (
        [["x", "p", "y"], ["y", "p", "x"]],
        reciprocal_rank_fusion([["x", "p", "y"], ["y", "p", "x"]], constant=0),
    )
    assert first  # x and y: 1 + 1/3; p: 1/2 + 1/2
    assert two == [("x", 1 + 1 / 3), ("y", 1 + 1 / 3), ("p", 1.0)]


def test_a_repeated_id_counts_at_its_first_place() -> None:
    assert reciprocal_rank_fusion([["a", "a", "b"]]) == [("a", 1 / 61), ("b", 1 / 62)]


@given(rankings, st.permutations(range(4)))
def test_the_order_of_the_lists_does_not_matter(lists: list[list[str]], order: list[int]) -> None:
    shuffled = [lists[n] for n in order if n < len(lists)]
    assert reciprocal_rank_fusion(shuffled) == reciprocal_rank_fusion(lists)


def test_weighted_means_by_hand() -> None:
    """The first ranking has 1, 0.5 and 0 after normalization, the second 1 and 0: its two scores are unlike."""
    fused = convex_combination([[("a", 9.0), ("b", 7.0), ("c", 5.0)], [("c", 0.4), ("d", 0.2)]], [1, 3])
    assert fused == [("c", 0.75), ("a", 0.25), ("b", 0.125), ("d", 0.0)]
    assert convex_combination([[("b", 2.0), ("a", 2.0)], []], [0.5, 0.5]) == [("a", 0.5), ("b", 0.5)]


def test_each_ranking_has_a_weight() -> None:
    with pytest.raises(ValueError, match="zip"):
        convex_combination([[("a", 1.0)], [("b", 1.0)]], [1.0])


@pytest.mark.parametrize(
    ("least", "greatest", "differ"),
    [
        (0.0, 1e-6, False),  # exactly the rounding error
        (0.0, 1.5e-6, True),
        (8.0, 8.0 + 7e-6, False),  # relative to the scores
        (8.0, 8.0 + 9e-6, True),
        (-8.0, -8.0 + 7e-6, False),
        (-8.0, -8.0 + 9e-6, True),
    ],
)
def test_scores_differ_by_more_than_the_rounding_of_float32(least: float, greatest: float, differ: bool) -> None:
    assert scores_differ(least, greatest) is differ


def test_normalised() -> None:
    assert normalize_scores(np.array([2.0, 4.0, 3.0])).tolist() == [0, 1, 0.5]
    assert normalize_scores(np.array([7.0, 7.0])).tolist() == [1, 1]
    assert normalize_scores(np.array([])).tolist() == []


@given(score=st.floats(-50, 50), count=st.integers(1, 5), noise=st.floats(0, 1e-7))
def test_what_float32_loses_of_equal_scores_is_no_range(score: float, count: int, noise: float) -> None:
    """One engine gives equal cosines back as they are, another in float32: neither may make first and last of them."""
    scores = np.linspace(score, score + noise, count)
    assert (
        normalize_scores(scores).tolist()
        == normalize_scores(scores.astype(np.float32).astype(np.float64)).tolist()
        == [1] * count
    )
