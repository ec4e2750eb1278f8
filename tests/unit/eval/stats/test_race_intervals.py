"""Intervals and bounds that hold at any time: coverage by simulation, and the exact end of a finite population."""

import numpy as np
import pytest

from ragindex_eval.stats.race import betting_interval, is_below


def test_when_all_questions_were_asked_the_interval_is_their_mean() -> None:
    drawn = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], size=50)
    low, high = betting_interval(drawn, 0.05, population=50)
    assert low == pytest.approx(drawn.mean(), abs=0.0021)
    assert high == pytest.approx(drawn.mean(), abs=0.0021)
    assert low <= drawn.mean() <= high


def test_before_the_first_question_everything_is_possible() -> None:
    assert betting_interval(np.array([]), 0.05) == (-1.0, 1.0)


def test_both_directions_are_alike() -> None:
    drawn = np.random.default_rng(2).choice([-0.5, 0.0, 1.0], size=40)
    low, high = betting_interval(drawn, 0.05)
    mirrored = betting_interval(-drawn, 0.05)
    assert mirrored == (pytest.approx(-high), pytest.approx(-low))


def test_more_questions_narrow_it() -> None:
    drawn = np.tile([0.5, 0.0, 0.0, -0.25], 60)
    ends = [betting_interval(drawn[:count], 0.05) for count in (20, 80, 82, 240)]
    assert [low for low, _ in ends] == sorted(low for low, _ in ends)
    assert [high for _, high in ends] == sorted((high for _, high in ends), reverse=True)
    low, high = ends[-1]
    assert high - low == pytest.approx(0.1, abs=0.03)
    worse = betting_interval(np.concatenate([drawn, [-1.0] * 5]), 0.05)  # what was excluded stays so
    assert worse[0] >= low


def test_values_outside_the_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"differences must lie in \[-1, 1\]; got 0.5 to 1.5"):
        betting_interval(np.array([0.5, 1.5]), 0.05)


@pytest.mark.parametrize("population", [None, 200])
def test_mean_is_below_a_bound_when_its_interval_is(population: int | None) -> None:
    drawn = np.random.default_rng(3).choice([0.0, 0.5, 1.0], size=120, p=[0.5, 0.2, 0.3])
    _, high = betting_interval(drawn, 0.1, population)
    assert is_below(drawn, high + 0.0015, 0.05, population)
    assert not is_below(drawn, high - 0.0025, 0.05, population)


def test_all_questions_settle_it_without_a_doubt() -> None:
    drawn = np.array([1.0, 0.0, 0.5, 0.5])
    assert is_below(drawn, 0.51, 1e-9, population=4)
    assert not is_below(drawn, 0.5, 1e-9, population=4)
