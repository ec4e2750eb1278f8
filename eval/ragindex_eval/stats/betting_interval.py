"""Confidence intervals of mean differences that hold at any time, by betting (Waudby-Smith and Ramdas 2024).

The interval contains every mean against which neither of two bettors, one on greater and one on smaller differences,
has ever made 2 / alpha of a capital of 1. It contains the true mean with probability 1 - alpha after every question at
once, so one may look after each, and stop for any reason.
"""

import numpy as np

from ragindex_eval.results.records import Interval
from ragindex_eval.stats.intervals import SampleArray
from ragindex_eval.stats.race import DecisionArray, capital_growth

_STEPS = 2_001  # candidates for the mean, from -1 to 1


def betting_interval(differences: SampleArray, alpha: float, population: int | None = None) -> Interval:
    """Return the interval of the mean of differences in [-1, 1], given in the order in which they were seen.

    `population` is the number of questions that the mean is over, of which these were drawn without replacement; None
    if they are a sample of all questions like them. The ends are rounded outwards to multiples of 0.001. Raises
    ValueError for values outside [-1, 1].
    """
    if differences.size and np.abs(differences).max() > 1:
        raise ValueError(f"differences must lie in [-1, 1]; got {differences.min()} to {differences.max()}")
    means = np.linspace(-1, 1, _STEPS)
    possible = _not_beaten(differences, means, alpha, population)
    possible &= _not_beaten(-differences, -means, alpha, population)
    accepted = means[possible]
    if accepted.size == 0:  # the true mean lies between two candidates
        middle = float(differences.mean())
        return middle - 0.001, middle + 0.001
    step = 2 / (_STEPS - 1)
    return max(-1.0, float(accepted[0]) - step), min(1.0, float(accepted[-1]) + step)


def is_below(values: SampleArray, bound: float, alpha: float, population: int | None = None) -> bool:
    """Return whether a bet on values in [0, 1] has ever shown that their mean is below `bound`, with a risk of `alpha`.

    It holds at any time, as the interval does. `population` is as in `betting_interval`.
    """
    capital, total, squares = 0.0, 0.0, 0.0
    for seen, value in enumerate((-values).tolist()):
        now, earlier, squared = (np.array([number]) for number in (value, total, squares))
        capital += float(capital_growth(now, earlier, squared, seen, -bound, population)[0])
        total, squares = total + value, squares + value**2
        certain = population is not None and (population - seen - 1) - total < bound * population - 1e-9 * population
        if certain or capital >= np.log(1 / alpha):
            return True
    return False


def _not_beaten(differences: SampleArray, means: SampleArray, alpha: float, population: int | None) -> DecisionArray:
    """Return for each mean whether no bet on greater differences has ever made 2 / alpha."""
    capital = np.zeros_like(means)
    beaten = np.zeros(means.shape, bool)
    total = squares = 0.0
    for seen, difference in enumerate(differences.tolist()):
        now, earlier, squared = (np.full_like(means, value) for value in (difference, total, squares))
        capital += capital_growth(now, earlier, squared, seen, means, population)
        total, squares = total + difference, squares + difference**2
        beaten |= capital >= np.log(2 / alpha)
        if population is not None:
            beaten |= total - (population - seen - 1) > population * means + 1e-9 * population
    array: DecisionArray = ~beaten
    return array
