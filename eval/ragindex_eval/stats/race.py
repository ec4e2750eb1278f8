"""Races between methods: which can be dropped, and which is good enough, decided after any number of questions.

Every decision comes from a bet against a hypothesis (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random
variables by betting"). A capital of 1 is bet, question by question, on the difference of two methods, with stakes that
depend on earlier questions only. While the hypothesis is true, the expected capital never exceeds 1, so it reaches
1 / alpha with probability alpha at most, however often one looks (Ville's inequality).

For a method j there are two hypotheses, of which exactly one is true:

- *near(j)*: no method is more than `delta` better than j. One capital bets against it, on the difference between the
  leader of the moment and j.
- *far(j)*: some method is more than `delta` better than j. The smallest of the capitals that bet against each of the
  remaining methods being that much better bets against it.

Take for each method the hypothesis that is true. The mean of their M capitals has expectation 1 at most, so it reaches
1 / alpha with probability alpha at most. Therefore a hypothesis about j is rejected once its capital, plus for every
other method the smaller one of its two capitals, reaches M / alpha: then the mean is at least 1 / alpha whatever is
true of the others. So *all* rejections of a race together are right with probability 1 - alpha. A false rejection of
near(j) drops a method that is within `delta` of the best, and a false rejection of far(j) accepts one that is not. A
far(j) that leaves out dropped methods stays valid, because the best method is among the remaining ones until the first
false rejection. The correction is for M hypotheses, not for the M (M - 1) pairs.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragindex_eval.stats.intervals import Interval, SampleArray

DecisionArray: TypeAlias = NDArray[np.bool_]

_LARGEST_STAKE = 0.9  # share of the stake at which one question could lose everything
_LOWEST = -1 + 1e-9  # mean of differences that are -1 at least; a smaller one is impossible, and then no bet can lose
_PRIOR_VARIANCE, _PRIOR_QUESTIONS = 0.25, 1.0  # of differences, before any is known; only power depends on it


@dataclass(frozen=True, slots=True)
class RaceRules:
    """Rules of a race, fixed before it begins.

    `delta` is the difference in means that does not matter, `alpha` the probability that any statement of the race is
    wrong. `population` is the number of questions that the statements are about, which are asked in random order
    without replacement; None if they are a sample and the statements are about all questions like them. Decisions are
    made after every `block` questions.
    """

    delta: float
    alpha: float
    population: int | None
    block: int = 5


@dataclass(frozen=True, slots=True)
class Decisions:
    """State of races after their questions; R races of M methods.

    `dropped` and `accepted`, of shape (R, M), are the numbers of questions after which a method was dropped, or found
    to be within delta of the best; 0 if it was not. `answered`, of shape (R, M), are the questions that each method
    answered, and `ended`, of shape (R,), says whether the race is over.
    """

    dropped: NDArray[np.int64]
    accepted: NDArray[np.int64]
    answered: NDArray[np.int64]
    ended: DecisionArray


def run_races(
    values: SampleArray, order: NDArray[np.int64], rules: RaceRules, left: NDArray[np.int64] | None = None
) -> Decisions:
    """Run R races side by side on `values` in [0, 1] of shape (R, questions, M), asked in the given order of questions.

    `order`, of shape (M,), lists the methods from the most to the least preferred among those within delta of the best.
    A race ends when its most preferred remaining method is accepted. Values of a method after it was dropped, or after
    the race has ended, are not looked at.

    `left`, of shape (M,), is the number of questions after which a method has left for another reason, 0 if it has not.
    Its bets stand still from there on. A statement about another method stays one about all that had not left.
    """
    races, questions, methods = values.shape
    left = np.zeros(methods, np.int64) if left is None else left
    capitals = _Capitals.start(races, methods)
    dropped = np.zeros((races, methods), np.int64)
    accepted, asked_counts, ended = dropped.copy(), dropped.copy(), np.zeros(races, bool)
    for number in range(1, questions + 1):
        active = (dropped == 0) & ~ended[:, None] & ((left == 0) | (number <= left))
        if not active.any():
            break
        capitals.bet(np.where(active, values[:, number - 1], 0.0), active, number - 1, rules)
        asked_counts += active
        if number % rules.block == 0 or number == questions:
            near, far = capitals.rejected(active, rules.alpha)
            dropped[near & active] = number
            accepted[far & active & (accepted == 0)] = number
            ended |= _is_decided((dropped == 0) & ((left == 0) | (number < left)), accepted, order)
    return Decisions(dropped, accepted, asked_counts, ended)


def _is_decided(remaining: DecisionArray, accepted: NDArray[np.int64], order: NDArray[np.int64]) -> DecisionArray:
    """Return whether the most preferred remaining method of each race is accepted, or only one method remains."""
    first = order[np.argmax(remaining[:, order], axis=1)]
    known = np.take_along_axis(accepted, first[:, None], axis=1)[:, 0] > 0
    over: DecisionArray = known | (remaining.sum(axis=1) == 1)
    return over


@dataclass(slots=True)
class _Capitals:
    """Capitals of R races, as logarithms, and the sums that the stakes are computed from.

    `near`, of shape (R, M), bets against near(j); `pairs`, of shape (R, M, M), bets against the column's method being
    more than delta better than the row's.
    """

    near: SampleArray
    pairs: SampleArray
    sums: SampleArray
    products: SampleArray

    @staticmethod
    def start(races: int, methods: int) -> "_Capitals":
        square = (races, methods, methods)
        return _Capitals(np.zeros((races, methods)), np.zeros(square), np.zeros((races, methods)), np.zeros(square))

    def bet(self, values: SampleArray, active: DecisionArray, seen: int, rules: RaceRules) -> None:
        """Bet on one more question, after `seen` ones. `values` and `active` have shape (R, M)."""
        both = active[:, :, None] & active[:, None, :]
        earlier = self.sums[:, :, None] - self.sums[:, None, :]
        now = values[:, :, None] - values[:, None, :]
        diagonal = np.diagonal(self.products, axis1=1, axis2=2)
        squares: SampleArray = diagonal[:, :, None] + diagonal[:, None, :] - 2 * self.products
        leads = capital_growth(now, earlier, squares, seen, -rules.delta, rules.population)
        self.pairs += np.where(both, leads, 0.0)
        rival = self._rivals(active)
        against = (np.arange(len(values))[:, None], rival, np.arange(values.shape[1])[None, :])
        sums = now[against], earlier[against], squares[against]
        gains = capital_growth(*sums, seen, rules.delta, rules.population)
        self.near += np.where(active & (active.sum(axis=1) > 1)[:, None], gains, 0.0)
        self.sums += np.where(active, values, 0.0)
        self.products += np.where(both, values[:, :, None] * values[:, None, :], 0.0)
        self._add_certain(both, seen + 1, rules)

    def rejected(self, active: DecisionArray, alpha: float) -> tuple[DecisionArray, DecisionArray]:
        """Return for which methods near(j), and for which far(j), is rejected; each of shape (R, M)."""
        far = np.where(active[:, None, :] & ~np.eye(active.shape[1], dtype=bool), self.pairs, np.inf).min(axis=2)
        with np.errstate(over="ignore"):
            near_capital, far_capital = np.exp(np.minimum(self.near, 700)), np.exp(np.minimum(far, 700))
        smaller = np.minimum(near_capital, far_capital)
        others = smaller.sum(axis=1, keepdims=True) - smaller
        needed = active.shape[1] / alpha
        return near_capital + others >= needed, far_capital + others >= needed

    def _rivals(self, active: DecisionArray) -> NDArray[np.int64]:
        """Return for each method the remaining method, other than itself, with the highest sum so far; (R, M)."""
        sums = np.where(active, self.sums, -np.inf)
        leader = np.argmax(sums, axis=1)
        rest = sums.copy()
        rest[np.arange(len(sums)), leader] = -np.inf
        second = np.argmax(rest, axis=1)
        everyone = np.arange(sums.shape[1])[None, :]
        rivals: NDArray[np.int64] = np.where(everyone == leader[:, None], second[:, None], leader[:, None])
        return rivals

    def _add_certain(self, both: DecisionArray, seen: int, rules: RaceRules) -> None:
        """Give unlimited capital to bets that the remaining questions cannot lose any more."""
        if rules.population is None:
            return
        left = rules.population - seen
        differences = self.sums[:, :, None] - self.sums[:, None, :]
        lowest = differences - left
        tolerance = 1e-9 * rules.population
        self.pairs[both & (lowest > -rules.delta * rules.population - tolerance)] = np.inf
        better = both & (lowest > rules.delta * rules.population + tolerance)
        self.near[better.any(axis=1)] = np.inf


def capital_growth(
    now: SampleArray,
    earlier: SampleArray,
    squares: SampleArray,
    seen: NDArray[np.int_] | int,
    bound: SampleArray | float,
    population: int | None,
) -> SampleArray:
    """Return the growth of the logarithm of a capital that bets against a mean difference of `bound` or less.

    `now` are differences in [-1, 1]; `earlier` and `squares` are sums of the `seen` differences before, and of their
    squares; all have one shape. The stake is an estimate of the one with the largest expected growth (Waudby-Smith and
    Ramdas 2024, §B.3). Without replacement, the hypothesis bounds the mean of the questions that are left (their §4).
    """
    expected = np.broadcast_to(bound, now.shape) if population is None else _mean_left(bound, earlier, seen, population)
    expected = np.clip(expected, _LOWEST, 1.0)
    mean = earlier / (seen + _PRIOR_QUESTIONS)
    spread = squares - 2 * mean * earlier + seen * mean**2
    variance = (_PRIOR_VARIANCE * _PRIOR_QUESTIONS + spread) / (seen + _PRIOR_QUESTIONS)
    edge = mean - expected
    stake = np.clip(edge / (variance + edge**2), 0.0, _LARGEST_STAKE / (1 + expected))
    growth: SampleArray = np.log1p(stake * (now - expected))
    return growth


def count_level_questions(delta: float, alpha: float) -> int:
    """Return after how many questions that are all level a bet shows a mean difference above -delta.

    With fewer, no race over all questions like those asked accepts a method beside an equal one.
    """
    nothing, capital, questions = np.zeros(1), 0.0, 0
    while capital < np.log(1 / alpha):
        capital += float(capital_growth(nothing, nothing, nothing, questions, -delta, None)[0])
        questions += 1
    return questions


def _mean_left(
    bound: SampleArray | float, earlier: SampleArray, seen: NDArray[np.int_] | int, population: int
) -> SampleArray:
    """Return the mean that the questions not seen yet have if the mean of all is `bound`."""
    mean: SampleArray = (population * np.asarray(bound) - earlier) / (population - seen)
    return mean


# ---------------------------------------------------------------- intervals that hold at any time
#
# Confidence intervals of mean differences, by betting (Waudby-Smith and Ramdas 2024). The interval contains every mean
# against which neither of two bettors, one on greater and one on smaller differences, has ever made 2 / alpha of a
# capital of 1. It contains the true mean with probability 1 - alpha after every question at once, so one may look after
# each, and stop for any reason.


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
