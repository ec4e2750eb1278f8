"""Confidence intervals of means of metrics in [0, 1], on the scale of the log odds.

A mean near 1 is further from the truth below than above, which no interval of equal arms shows and no resampling of few
questions. `benchmarks/error_rates.py` measures the coverage.
"""

import math

import numpy as np

from ragindex_eval.results.model import Interval
from ragindex_eval.stats.resampling import LEVEL, SampleArray

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
    from scipy import special, stats  # takes a second to import

    half = float(stats.t.ppf(1 - level / 2, len(residuals) - 1)) * math.sqrt(variance) if variance > 0 else 0.0
    if np.ptp(residuals) < _EQUAL:
        half += 1 - (level / 2) ** (1 / len(residuals))
    elif 0 < estimate < 1:
        middle, half = math.log(estimate / (1 - estimate)), half / (estimate * (1 - estimate))
        return float(special.expit(middle - half)), float(special.expit(middle + half))
    return max(0.0, min(1.0, estimate - half)), max(0.0, min(1.0, estimate + half))
