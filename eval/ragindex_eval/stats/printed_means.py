"""What two printed means of the same questions allow: bounds of a paired test whose pairs nobody has published.

The test is that of `paired_tests` for one pair: Student's t of the differences and two more, 1 and -1. It depends on
two sums alone, of the differences (T) and of their squares (Q). Of n questions with values in [0, 1], whose sums A and
B the table prints,

    T = A - B
    |T| <= Q <= min(A + B, 2n - A - B)    for values of 0 and 1: the fewest and the most questions that only one answers
    T² / n <= Q <= the same               for other values: all differences equal, or all values 0 or 1

p falls with |T| and rises with Q. So the printed means, which are rounded, bound p from below and from above. For
values of 0 and 1 the ends are reached by some sample; for others they may be far from any.

Between the ends, it depends on how far the outcomes of two methods agree, which a table does not say. `Plausible` has
the correlations, and the shares of the largest variance, p (1 - p), that pairs of methods have had.
"""

import math
from dataclasses import dataclass

import numpy as np

from ragindex_eval.stats.intervals import LEVEL, log_odds_interval
from ragindex_eval.stats.paired_tests import count_questions, raise_spread, smallest_difference

_ROUNDING = 1e-9  # of a sum


@dataclass(frozen=True, slots=True)
class Plausible:
    """Plausible agreement of two methods: correlations, and shares of the largest variance, each low and high."""

    correlations: tuple[float, float]
    shares: tuple[float, float]


BINARY = Plausible((0.3, 0.8), (1.0, 1.0))
"""Of values 0 and 1, whose variance follows from the mean."""
GRADED = Plausible((0.3, 0.8), (0.25, 1.0))
"""Of values between: recall of several documents has 28 to 83 % of the largest variance, nDCG about a quarter."""


@dataclass(frozen=True, slots=True)
class PrintedMean:
    """A mean of `questions` values in [0, 1] as printed: it lies between `low` and `high`, and in [0, 1].

    `binary` says that every value is 0 or 1.
    """

    questions: int
    low: float
    high: float
    binary: bool

    @property
    def value(self) -> float:
        """The printed figure, the middle of what rounds to it."""
        return min(1.0, max(0.0, (self.low + self.high) / 2))

    @property
    def sums(self) -> tuple[float, float] | None:
        """The least and the greatest sum of the values; None if no sum of 0s and 1s rounds to the figure."""
        low, high = max(0.0, self.low) * self.questions, min(1.0, self.high) * self.questions
        if not self.binary:
            return low, high
        integers = math.ceil(low - _ROUNDING), math.floor(high + _ROUNDING)
        return None if integers[0] > integers[1] else (float(integers[0]), float(integers[1]))


@dataclass(frozen=True, slots=True)
class PairBounds:
    """Bounds of p of a pair of printed means.

    `least` and `most` bound p of the test of `paired_tests`; for values of 0 and 1, `exact` are the bounds of McNemar's
    exact test, else None.
    """

    least: float
    most: float
    exact: tuple[float, float] | None


def paired_p(questions: int, total: float, squares: float) -> float:
    """Return p of the test of `paired_tests`, by the sum of the differences and the sum of their squares."""
    from scipy import special  # takes a second to import

    if abs(total) < _ROUNDING:
        return 1.0
    count = questions + 2
    centred = squares + 2 - total**2 / count
    statistic = abs(total) / count / math.sqrt(centred / (count * (count - 1)))
    return float(2 * special.stdtr(count - 1, -statistic))


def mcnemar_p(wins: int, losses: int) -> float:
    """Return the two-sided p of McNemar's exact test: of so many questions that only one of two methods answers."""
    from scipy import special  # takes a second to import

    return min(1.0, 2 * float(special.bdtr(min(wins, losses), wins + losses, 0.5))) if wins + losses else 1.0


def bound_p(first: PrintedMean, second: PrintedMean) -> PairBounds:
    """Return the bounds of p of any sample whose means round to the printed ones.

    A figure that no sum of 0s and 1s rounds to is taken as one of other values.
    """
    questions = first.questions
    binary = first.binary and second.binary and None not in (first.sums, second.sums)
    (a_low, a_high), (b_low, b_high) = _sums(first, binary=binary), _sums(second, binary=binary)
    farthest = max(a_high - b_low, b_high - a_low)
    nearest = max(0.0, a_low - b_high, b_low - a_high)
    widest = _most_squares(questions, a_low + b_low, a_high + b_high)
    least = paired_p(questions, farthest, farthest if binary else farthest**2 / questions)
    most = paired_p(questions, nearest, max(widest, nearest))
    if not binary:
        return PairBounds(least, most, None)
    losses = math.ceil((widest - nearest) / 2)
    exact = mcnemar_p(int(farthest), 0), mcnemar_p(losses + int(nearest), losses)
    return PairBounds(least, most, exact)


def most_disagreements(first: PrintedMean, second: PrintedMean, level: float) -> float:
    """Return the largest sum of squared differences with which the printed means differ significantly.

    For values of 0 and 1, it is how many questions may be answered by only one of the two. Negative if there is none.
    """
    from scipy import special  # takes a second to import

    count, total = first.questions + 2, (first.value - second.value) * first.questions
    quantile = -float(special.stdtrit(count - 1, level / 2))
    return (total**2 * (count - 1) / quantile**2 + total**2) / count - 2


def needed_correlation(first: PrintedMean, second: PrintedMean, level: float) -> float | None:
    """Return from which correlation of the outcomes on the printed means differ significantly.

    The variances are the largest that the means allow; smaller ones need less. None if no correlation is enough, and if
    a mean is 0 or 1, whose values do not vary.
    """
    questions, difference = first.questions, first.value - second.value
    variances = _variance(first.value), _variance(second.value)
    squares = most_disagreements(first, second, level)
    spread = squares / questions - difference**2
    if spread < 0 or not all(variances):
        return None
    needed = (sum(variances) - spread) / (2 * math.sqrt(math.prod(variances)))
    return None if needed > 1 else max(-1.0, needed)


def spread_of(first: float, second: float, correlation: float, share: float = 1.0) -> float:
    """Return the standard deviation of the differences of two outcomes with these means and this correlation.

    `share` is their variances' share of the largest that the means allow. It is at least that of differences of 0 and
    ±1 with the same mean, if the variances are the largest.
    """
    variances = share * _variance(first), share * _variance(second)
    squared = sum(variances) - 2 * correlation * math.sqrt(math.prod(variances))
    spread = math.sqrt(max(0.0, squared))
    return raise_spread(spread, abs(first - second)) if share == 1.0 else spread


def plausible_spreads(first: float, second: float, plausible: Plausible) -> tuple[float, float]:
    """Return the least and the greatest plausible standard deviation of the differences of two methods."""
    (low, high), (least, most) = plausible.correlations, plausible.shares
    return spread_of(first, second, high, least), spread_of(first, second, low, most)


def plausible_p(first: PrintedMean, second: PrintedMean, plausible: Plausible) -> tuple[float, float]:
    """Return p of the printed means, were the differences as narrow and as wide as is plausible."""
    questions, difference = first.questions, first.value - second.value
    total = difference * questions
    widest = _most_squares(questions, *[(first.value + second.value) * questions] * 2)
    narrow, wide = (
        paired_p(questions, total, min(widest, questions * spread**2 + total**2 / questions))
        for spread in plausible_spreads(first.value, second.value, plausible)
    )
    return narrow, wide


def smallest_differences(
    mean: float, questions: int, plausible: Plausible, comparisons: int = 1
) -> tuple[float | None, float | None]:
    """Return the smallest differences from `mean` that so many questions show with the probability of `power.POWER`.

    The first is for differences as narrow as is plausible, the second for the widest; None if no difference is shown.
    """
    narrow, wide = plausible_spreads(mean, mean, plausible)
    size = 1.0 if plausible.shares[0] == 1.0 else 0.0
    return (
        smallest_difference(narrow, questions, comparisons, size),
        smallest_difference(wide, questions, comparisons),
    )


def needed_questions(first: float, second: float, plausible: Plausible, comparisons: int = 1) -> tuple[float, float]:
    """Return how many questions show the difference of two means: for the narrowest and the widest differences.

    Infinity if the means are equal.
    """
    narrow, wide = plausible_spreads(first, second, plausible)
    difference = abs(first - second)
    return count_questions(difference, narrow, comparisons), count_questions(difference, wide, comparisons)


def printed_interval(mean: PrintedMean) -> tuple[float, float]:
    """Return the 95 % interval of a printed mean, with the largest variance that it allows: that of 0s and 1s.

    For values of 0 and 1 that is their variance; for others the interval is at most as wide.
    """
    value, questions = mean.value, mean.questions
    varied = 0 < value < 1
    if varied and questions == 1:
        return 0.0, 1.0
    residuals = np.zeros(questions)
    residuals[0] = float(varied)  # whether the values vary is all that is read of them
    return log_odds_interval(value, _variance(value) / max(1, questions - 1), residuals, LEVEL)


def fitting_counts(low: float, high: float, least: int, most: int) -> int | None:
    """Return the smallest number of questions in a range of which a whole number has a share from `low` to `high`."""
    for questions in range(least, most + 1):
        if PrintedMean(questions, low, high, binary=True).sums is not None:
            return questions
    return None


def _variance(mean: float) -> float:
    return mean * (1 - mean)


def _sums(mean: PrintedMean, *, binary: bool) -> tuple[float, float]:
    sums = mean.sums if binary else PrintedMean(mean.questions, mean.low, mean.high, binary=False).sums
    if sums is None:
        raise ValueError("a figure that no sum of 0s and 1s rounds to has no counts")
    return sums


def _most_squares(questions: int, low: float, high: float) -> float:
    """Return the largest sum of squared differences of two sums that together are from `low` to `high`."""
    middle = float(questions)
    nearest = min(max(middle, low), high)
    return min(nearest, 2 * questions - nearest)
