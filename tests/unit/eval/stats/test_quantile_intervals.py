"""Intervals of quantiles, held against scipy's binomial test of quantiles, and by simulation."""

import numpy as np
import pytest
from scipy import stats

from ragindex_eval.stats.quantile_intervals import quantile_interval


@pytest.mark.parametrize(("questions", "share"), [(6, 0.5), (25, 0.5), (72, 0.95), (400, 0.95), (90, 0.1)])
def test_interval_of_a_quantile_is_scipys(questions: int, share: float) -> None:
    values = np.random.default_rng(1).lognormal(1.0, 0.5, questions)
    expected = stats.quantile_test(values, p=share).confidence_interval(0.95)
    assert quantile_interval(values.tolist(), share) == (expected.low, expected.high)


@pytest.mark.parametrize(("questions", "share"), [(0, 0.5), (1, 0.5), (5, 0.5), (20, 0.95), (71, 0.95)])
def test_too_few_values_have_no_interval(questions: int, share: float) -> None:
    """Of 71, all are below the 95th percentile with a probability of 2.6 %."""
    assert quantile_interval(range(questions), share) is None


@pytest.mark.parametrize(("questions", "share"), [(20, 0.5), (100, 0.95)])
def test_interval_holds_the_quantile_in_95_of_100_samples(questions: int, share: float) -> None:
    generator = np.random.default_rng(0)
    quantile = stats.norm.ppf(share)
    samples = generator.standard_normal((1_000, questions)).tolist()
    intervals = filter(None, (quantile_interval(sample, share) for sample in samples))
    assert sum(low <= quantile <= high for low, high in intervals) >= 945
