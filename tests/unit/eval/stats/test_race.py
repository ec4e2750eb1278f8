"""Races against a plain implementation, and intervals that hold whenever one stops."""

import numpy as np
import pytest
from naive_race import naive_race

from ragindex_eval.stats.intervals import SampleArray
from ragindex_eval.stats.race import RaceRules, betting_interval, is_below, run_races

RACES = 400


def correlated_scores(means: tuple[float, ...], questions: int, seed: int) -> SampleArray:
    """Shares of two gold passages that each method finds; a question that is hard for one is hard for all."""
    generator = np.random.default_rng(seed)
    shape = (RACES, questions, len(means))
    scores = np.zeros(shape)
    for _ in range(2):
        hard = generator.random((RACES, questions, 1))
        own = generator.random(shape)
        scores += np.where(generator.random((RACES, questions, 1)) < 0.5, hard, own) < np.array(means)
    return scores / 2


@pytest.mark.parametrize("population", [None, 40, 90])
@pytest.mark.parametrize("seed", range(6))
def test_a_race_equals_a_plain_implementation(population: int | None, seed: int) -> None:
    generator = np.random.default_rng(seed)
    means = generator.uniform(0.2, 0.9, 4)
    values = (generator.random((3, 40, 4)) < means).astype(float)
    order = generator.permutation(4)
    races = run_races(values, order, RaceRules(0.05, 0.2, population, block=7))
    for race in range(3):
        plain = naive_race(values[race].tolist(), order.tolist(), 0.05, 0.2, population, 7)
        assert (races.dropped[race].tolist(), races.accepted[race].tolist(), races.answered[race].tolist()) == plain


def test_what_comes_after_a_drop_is_not_looked_at() -> None:
    """A method that is always wrong is dropped after 20 questions, and its later scores may be anything."""
    values = np.zeros((1, 60, 3))
    values[:, :, 0], values[:, :, 1] = 1.0, np.tile([1.0, 0.0], 30)
    rules = RaceRules(0.02, 0.05, None, block=10)
    races = run_races(values, np.array([2, 1, 0]), rules)
    assert races.dropped.tolist() == [[0, 20, 10]]
    assert races.answered.tolist() == [[20, 20, 10]]
    values[0, 10:, 2] = 1.0
    assert run_races(values, np.array([2, 1, 0]), rules).dropped.tolist() == [[0, 20, 10]]


def test_methods_that_answer_alike_are_accepted_and_never_dropped() -> None:
    values = np.tile(np.random.default_rng(0).random((1, 400, 1)), (1, 1, 5))
    races = run_races(values, np.arange(5), RaceRules(0.05, 0.05, None))
    assert not races.dropped.any()
    assert races.accepted.tolist() == [[races.accepted[0, 0]] * 5]
    assert 0 < races.accepted[0, 0] < 200


def test_a_race_of_one_question_is_decided_by_it() -> None:
    """It is all there is: equal methods are accepted and a worse one is dropped. Numbers of questions are whole."""
    races = run_races(np.array([[[1.0, 1.0]], [[1.0, 0.0]]]), np.arange(2), RaceRules(0.05, 0.05, 1))
    assert races.accepted.tolist() == [[1, 1], [1, 0]]
    assert races.dropped.tolist() == [[0, 0], [0, 1]]
    assert races.answered.tolist() == [[1, 1], [1, 1]]
    assert races.ended.tolist() == [True, True]
    assert {numbers.dtype for numbers in (races.accepted, races.dropped, races.answered)} == {np.dtype(np.int64)}


def test_of_these_questions_all_are_decided_when_all_are_asked() -> None:
    """The last questions leave nothing open, so every method is dropped or accepted, and rightly so."""
    generator = np.random.default_rng(3)
    values = (generator.random((50, 30, 4)) < generator.uniform(0.2, 0.9, (50, 1, 4))).astype(float)
    races = run_races(values, np.arange(4), RaceRules(0.1, 1e-9, 30, block=30))
    truth = values.mean(axis=1)
    near = truth >= truth.max(axis=1, keepdims=True) - 0.1 - 1e-12
    edge = np.isclose(truth, truth.max(axis=1, keepdims=True) - 0.1)
    assert ((races.dropped > 0) == ~near)[~edge].all()
    assert ((races.accepted > 0) == near)[~edge].all()
    assert races.ended.all()


def test_one_that_left_is_asked_no_more_and_changes_nothing_that_was_said_before() -> None:
    values = correlated_scores((0.85, 0.8, 0.5, 0.5), 300, seed=7)
    rules = RaceRules(0.02, 0.05, None)
    races, without = (run_races(values, np.arange(4), rules, np.array(left)) for left in ((0, 0, 0, 0), (0, 50, 0, 0)))
    assert (without.answered[:, 1] <= 50).all()
    assert (without.dropped[:, 1] <= 50).all()
    early = (races.dropped > 0) & (races.dropped <= 50)
    assert early.any()
    assert (without.dropped[early] == races.dropped[early]).all()
    assert without.ended.mean() > races.ended.mean()  # the closest rival is gone
    only = run_races(values, np.arange(4), rules, np.array([0, 50, 50, 50]))
    assert (only.answered[:, 0] <= 50).all()
    assert only.ended.all()


@pytest.mark.parametrize(("shared", "dropped"), [(6, 0), (10, 20)])
def test_bets_stand_still_where_the_only_rival_has_left(shared: int, dropped: int) -> None:
    """What they won on the questions of both counts when the block ends."""
    values = np.zeros((1, 20, 2))
    values[0, :shared, 0] = values[0, shared:, 1] = 1.0
    races = run_races(values, np.arange(2), RaceRules(0.05, 0.05, None, block=20), np.array([shared, 0]))
    assert races.dropped.tolist() == [[0, dropped]]


# ---------------------------------------------------------------- intervals and bounds that hold at any time


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
