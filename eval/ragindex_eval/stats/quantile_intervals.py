"""Exact confidence intervals of quantiles from order statistics.

See Conover 1999, Practical Nonparametric Statistics, section 3.2. The number of values at or below a quantile
is binomial, whatever the distribution.
"""

from collections.abc import Collection

from ragindex_eval.results.model import Interval
from ragindex_eval.stats.resampling import LEVEL


def quantile_interval(values: Collection[float], share: float, level: float = LEVEL) -> Interval | None:
    """Return the interval of the quantile below which a `share` of all values lies; None for too few values.

    Its ends are values. The quantile is below it, and above it, with a probability of `level` / 2 at most each.
    """
    from scipy import special  # takes a second to import

    ordered, count = sorted(values), len(values)
    # P(Bin(count, share) <= rank) is the probability that at most so many values are below the quantile.
    below = [special.bdtr(rank, count, share) for rank in range(count)]
    lower = [rank for rank in range(count) if below[rank] <= level / 2]
    upper = [rank for rank in range(count) if 1 - below[rank] <= level / 2]
    return (ordered[lower[-1]], ordered[upper[0]]) if lower and upper else None
