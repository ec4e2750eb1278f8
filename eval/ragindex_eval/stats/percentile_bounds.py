"""Bounds of percentiles from order statistics, which assume nothing of the distribution (David and Nagaraja 2003, 7.1).

Of n values, the r-th smallest is at most the p-th percentile with the probability that a binomial count of n trials
with the share p / 100 is r or more. Resampling few values never draws what none of them shows: its intervals of the
95th percentile hold it in 69 % for 20 values (`benchmarks/error_rates.py`).
"""

from collections.abc import Sequence

import numpy as np

from ragindex_eval.results.model import Interval
from ragindex_eval.stats.resampling import LEVEL


def percentile_bounds(values: Sequence[float], percent: float, risk: float) -> tuple[float | None, float | None]:
    """Return a lower and an upper bound of a percentile, each wrong with a probability of `risk` at most.

    A bound is None if so many values have none: an upper bound of the 95th percentile takes 59 at a risk of 5 %.
    """
    from scipy.stats import binom  # takes a second to import

    ordered, ranks = sorted(values), np.arange(1, len(values) + 1)
    trials = (len(values), percent / 100)  # handed over each time: to freeze the distribution takes milliseconds
    below, above = ranks[binom.sf(ranks - 1, *trials) >= 1 - risk], ranks[binom.cdf(ranks - 1, *trials) >= 1 - risk]
    return ordered[below[-1] - 1] if len(below) else None, ordered[above[0] - 1] if len(above) else None


def percentile_interval(values: Sequence[float], percent: float) -> Interval | None:
    """Return the 95 % interval of a percentile; None if there are too few values: 6 for the median, 72 for the 95th."""
    low, high = percentile_bounds(values, percent, LEVEL / 2)
    return None if low is None or high is None else (low, high)
