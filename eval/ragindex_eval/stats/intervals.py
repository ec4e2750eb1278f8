"""Confidence intervals of costs, metrics and percentiles: pure functions of arrays with one value per question.

*Costs*: 95 % percentile bootstrap intervals (Efron and Tibshirani 1993, §13.3) over questions drawn with replacement.

*Metrics in [0, 1]*: on the scale of the log odds. A mean near 1 is further from the truth below than above, which no
interval of equal arms shows and no resampling of few questions.

*Percentiles*: from order statistics, which assume nothing of the distribution (David and Nagaraja 2003, 7.1). Of n
values, the r-th smallest is at most the p-th percentile with the probability that a binomial count of n trials with
the share p / 100 is r or more. Resampling few values never draws what none of them shows: its intervals of the 95th
percentile hold it in 69 % for 20 values.

`benchmarks/error_rates.py` measures the coverage. Intervals of differences are in `paired_tests`.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

SampleArray: TypeAlias = NDArray[np.float64]
"""One value per question."""
Interval: TypeAlias = tuple[float, float]
"""The low and the high end of a 95 % interval."""

RESAMPLES = 10_000
LEVEL = 0.05
_CHUNK = 1_000  # resamples at a time, which bounds memory to _CHUNK x questions


def cost_interval(costs: SampleArray, seed: int) -> Interval:
    """Return the interval of the mean of what questions cost, an array of shape (questions,)."""
    questions, generator = len(costs), np.random.default_rng(seed)
    equal = np.full(questions, 1 / questions)
    counts = (generator.multinomial(questions, equal, _CHUNK) for _ in range(RESAMPLES // _CHUNK))
    means = np.concatenate([drawn @ costs / questions for drawn in counts])
    low, high = np.quantile(means, (LEVEL / 2, 1 - LEVEL / 2))
    return float(low), float(high)


# ---------------------------------------------------------------- means of metrics


_EQUAL = 1e-12  # values that differ less are equal


def mean_interval(values: SampleArray) -> Interval:
    """Return the 95 % interval of the mean of a metric over questions, values in [0, 1] of shape (questions,)."""
    count = len(values)
    variance = float(values.var(ddof=1)) / count if count > 1 else 0.0
    return log_odds_interval(float(values.mean()), variance, values)


def log_odds_interval(estimate: float, variance: float, residuals: SampleArray, level: float = LEVEL) -> Interval:
    """Return the interval of an estimated mean with this variance, by the delta method.

    Near 0 and 1 it can be very long. `residuals` are the values of the questions, or what is left of them after a
    correction. If all are equal, they have no variance to tell. Then the interval reaches as far on either side as the
    share of other questions that may differ (Clopper and Pearson 1934).
    """
    from scipy import special  # takes a second to import

    half = float(special.stdtrit(len(residuals) - 1, 1 - level / 2)) * math.sqrt(variance) if variance > 0 else 0.0
    if np.ptp(residuals) < _EQUAL:
        half += 1 - (level / 2) ** (1 / len(residuals))
    elif 0 < estimate < 1:
        middle, half = math.log(estimate / (1 - estimate)), half / (estimate * (1 - estimate))
        return float(special.expit(middle - half)), float(special.expit(middle + half))
    return max(0.0, min(1.0, estimate - half)), max(0.0, min(1.0, estimate + half))


# ---------------------------------------------------------------- percentiles


def percentile_bounds(values: Sequence[float], percent: float, risk: float) -> tuple[float | None, float | None]:
    """Return a lower and an upper bound of a percentile, each wrong with a probability of `risk` at most.

    A bound is None if so many values have none: an upper bound of the 95th percentile takes 59 at a risk of 5 %.
    """
    from scipy import special  # takes a second to import

    ordered, ranks, share = sorted(values), np.arange(1, len(values) + 1), percent / 100
    below = ranks[special.bdtrc(ranks - 1.0, len(values), share) >= 1 - risk]
    above = ranks[special.bdtr(ranks - 1.0, len(values), share) >= 1 - risk]
    return ordered[below[-1] - 1] if len(below) else None, ordered[above[0] - 1] if len(above) else None


def percentile_interval(values: Sequence[float], percent: float) -> Interval | None:
    """Return the 95 % interval of a percentile; None if there are too few values: 6 for the median, 72 for the 95th."""
    low, high = percentile_bounds(values, percent, LEVEL / 2)
    return None if low is None or high is None else (low, high)
