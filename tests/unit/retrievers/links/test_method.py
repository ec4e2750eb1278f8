"""Scores of the passages of one question, and where the first hits depend on k."""

from collections.abc import Sequence

import numpy as np
import pytest

from ragindex_retrievers.links.method import CandidateScores, Links


@pytest.mark.parametrize(("k", "depends"), [(9, False), (10, False), (11, True)])
def test_first_hits_depend_on_k_above_depth(k: int, depends: bool) -> None:
    assert Links(depth=10).depends_on_k(k) is depends


@pytest.mark.parametrize(
    ("gains", "taken", "raised"),
    [
        ([0.25, 0.5, 0.125], [1, 2], [0.5, 0.125]),
        ([0.5, 0.5, 0.75], [2, 0], [0.5, 0.75]),  # of equal gains the first is taken
        ([0.25, 0.0, 0.0], [0], [0.25, 0.0]),  # a gain of 0 raises nothing
    ],
)
def test_each_passage_has_its_largest_gain(
    gains: Sequence[float], taken: Sequence[int], raised: Sequence[float]
) -> None:
    scores = CandidateScores(0.5)
    scores.add(["a", "b"], np.array([0.0, 1.0]), np.ones((2, 1)))
    assert scores.raise_gains(np.array([0, 0, 1]), np.array(gains)).tolist() == taken
    assert scores.gain.tolist() == raised
