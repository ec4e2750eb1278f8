"""Prediction-powered means: against ppi-python, by hand, at the edges, and their errors over many samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ragindex_eval.stats.prediction_powered import estimate_mean, tune_weight

HUMAN = np.array([1, 0.5, 0.75, 1, 0.25, 1, 0.5, 0, 1, 0.75])
MODEL = np.array([1, 0.25, 1, 1, 0.25, 0.75, 0.75, 0.25, 1, 0.5])
OTHERS = np.array([0.5, 1, 0.75, 0.25, 1, 1, 0.5, 0.75, 0.25, 1, 0, 0.75, 1, 1, 0.5])
NONE = np.array([])


def test_the_weight_is_that_of_ppi_python() -> None:
    # ppi_mean_pointestimate(HUMAN, MODEL, OTHERS) of ppi-python 0.2.3, which divides the covariance by n, not n - 1
    weight = tune_weight(HUMAN, MODEL, OTHERS, 10) * 9 / 10
    assert HUMAN.mean() - weight * (MODEL.mean() - OTHERS.mean()) == pytest.approx(0.67912281, abs=1e-8)


def test_a_mean_by_hand() -> None:
    weights = np.empty(10)
    for fold in range(5):
        training = np.arange(10) % 5 != fold
        human, model = HUMAN[training], MODEL[training]
        covariance = ((human - human.mean()) * (model - model.mean())).sum() / 7
        weights[~training] = covariance / ((1 + 10 / 15) * np.concatenate([model, OTHERS]).var(ddof=1))
    mean = (HUMAN - weights * MODEL).mean() + weights.mean() * OTHERS.mean()
    residuals = HUMAN - weights * (MODEL - MODEL.mean())
    variance = residuals.var(ddof=1) / 10 + weights.mean() ** 2 * OTHERS.var(ddof=1) / 15
    half = stats.t.ppf(0.975, 9) * variance**0.5 / (mean * (1 - mean))
    odds = np.log(mean / (1 - mean))
    estimate = estimate_mean(HUMAN, MODEL, OTHERS)
    assert estimate.estimate == pytest.approx(mean)
    assert estimate.interval == pytest.approx((1 / (1 + np.exp(half - odds)), 1 / (1 + np.exp(-half - odds))))
    assert estimate.weight == pytest.approx(weights.mean())
    assert estimate.effective_questions == pytest.approx(HUMAN.var(ddof=1) / variance)


def test_without_a_model_it_is_the_mean_of_the_person() -> None:
    mean = estimate_mean(HUMAN, NONE, NONE)
    assert (mean.estimate, mean.weight, mean.effective_questions) == (HUMAN.mean(), 0.0, 10.0)


def test_a_constant_model_changes_nothing() -> None:
    assert estimate_mean(HUMAN, np.ones(10), np.ones(15)) == estimate_mean(HUMAN, NONE, NONE)


def test_a_model_that_is_the_person_is_worth_all_its_questions() -> None:
    random = np.random.default_rng(0)
    every = random.integers(0, 5, 4_000) / 4
    mean = estimate_mean(every[:1_000], every[:1_000], every[1_000:])
    assert mean.weight == pytest.approx(0.75, abs=0.01)  # 1 / (1 + n/N)
    assert mean.effective_questions == pytest.approx(4_000, rel=0.02)


def test_equal_values_have_the_interval_of_a_proportion() -> None:
    mean = estimate_mean(np.ones(20), NONE, NONE)
    low = stats.binomtest(20, 20).proportion_ci(0.95, "exact").low
    assert mean.interval == (pytest.approx(low), 1.0)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="an interval needs 5 questions that a person judged; got 4"):
        estimate_mean(HUMAN[:4], MODEL[:4], OTHERS)
    with pytest.raises(ValueError, match=r"a metric must lie in \[0, 1\]"):
        estimate_mean(HUMAN * 2, MODEL, OTHERS)
    with pytest.raises(ValueError, match="a model must have judged the questions of the person; got 9 for 10"):
        estimate_mean(HUMAN, MODEL[:9], OTHERS)


@given(
    st.lists(st.tuples(st.sampled_from((0.0, 0.25, 0.5, 1.0)), st.sampled_from((0.0, 0.5, 1.0))), min_size=5),
    st.lists(st.sampled_from((0.0, 0.5, 1.0))),
)
def test_the_interval_is_within_the_metric(pairs: list[tuple[float, float]], others: list[float]) -> None:
    human, model = np.array(pairs).T
    mean = estimate_mean(human, model, np.array(others))
    assert 0 <= mean.interval[0] <= mean.interval[1] <= 1
    assert 0 <= mean.weight <= 1
    assert 0 <= mean.estimate <= 1
    assert np.isfinite([mean.estimate, mean.effective_questions]).all()
