"""Paired comparisons of several methods over the same questions: one statistic for interval, p-value and verdict.

To the differences of each pair two more are added, the largest that there can be in either direction ("plus two",
after Agresti and Caffo 2000, The American Statistician 54, who add two to each sample of a difference of shares). The
statistic is Student's t of all of these. Few questions may all be equal by chance, or miss the few on which a method
loses much; their own variance does not show that, and the two added ones do. Nothing is assumed about symmetry.

- p of a pair: two-sided, by Student's t distribution.
- corrected p of a pair: the probability that the largest |t| of all pairs is as large (single-step max-T, Westfall and
  Young 1993, section 2.3; Romano and Wolf 2005). The pairs are jointly t distributed with the correlations of the data
  (Hothorn, Bretz and Westfall 2008, section 3).
- interval of a pair: all differences against which the corrected test has no objection at 5 %. So all intervals hold
  together with 95 %, and one excludes 0 exactly if the corrected p is below 0.05.

`benchmarks/error_rates.py` measures the errors of each for symmetric and skewed differences.

The power of the test says how many questions it needs, for a mean and a spread of the differences of a pair. Of n
questions with mean d and standard deviation s, the mean of all is n d / (n + 2) and its standard error

    e = sqrt(((n - 1) s² + 2 + 2 n d² / (n + 2)) / ((n + 1) (n + 2)))

The difference is shown with the probability POWER if the mean is above c e by t s √n / (n + 2), where c is the quantile
of the test, corrected for the number of pairs (Bonferroni), and t that of POWER, both of Student's distribution.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from ragindex_eval.stats.intervals import LEVEL, RESAMPLES, Interval, SampleArray

_EQUAL = 1e-9  # differences smaller than this share of the values are rounding


@dataclass(frozen=True, slots=True)
class PairedTests:
    """Results for several metrics: arrays of shape (pairs, metrics).

    `low` and `high` are the ends of the simultaneous intervals of the mean differences.
    """

    p: SampleArray
    adjusted: SampleArray
    low: SampleArray
    high: SampleArray


@dataclass(frozen=True, slots=True)
class _Augmented:
    """The differences of pairs by one metric with the two added ones, as columns of mean 0 and length 1.

    `columns` has the shape (questions + 2, pairs); it is 0 for questions that a pair does not share. `means`, `errors`
    (the standard errors of the means) and `degrees` (of freedom) have one value per pair.
    """

    columns: SampleArray
    means: SampleArray
    errors: SampleArray
    degrees: SampleArray

    @property
    def t(self) -> SampleArray:
        """Student's t of each pair; 0 where nothing differs and no bound is known."""
        return np.divide(self.means, self.errors, out=np.zeros_like(self.means), where=self.errors > 0)


def run_paired_tests(
    values: SampleArray,
    pairs: Sequence[tuple[int, int]],
    seed: int,
    largest: float | None = 1.0,
    resamples: int = RESAMPLES,
) -> PairedTests:
    """Test `pairs` of method numbers by `values` of shape (questions, methods, metrics).

    `largest` is the largest difference that there can be on a question, 1 for shares; None if there is no such bound:
    then it is the largest difference of the pair. NaN is a question on which a method was not measured; a pair is
    tested over the questions that both have. Methods that are equal on all of these have p = 1.

    Example:
        tests = run_paired_tests(np.stack([old, new], axis=1)[:, :, None], [(1, 0)], seed=0)
        print(tests.p[0, 0], tests.low[0, 0], tests.high[0, 0])
    """
    from scipy import special  # takes a second to import

    metrics = values.shape[2]
    numbers = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    shape = (len(numbers), metrics)
    p, adjusted, low, high = np.ones(shape), np.ones(shape), np.zeros(shape), np.zeros(shape)
    if not len(numbers):
        return PairedTests(p, adjusted, low, high)
    for metric in range(metrics):
        augmented = _augment(values[:, :, metric], numbers, largest)
        t = augmented.t
        p[:, metric] = 2 * special.stdtr(augmented.degrees, -np.abs(t))
        drawn = _draw_joint_t(augmented, seed, resamples)
        highest = np.sort(np.abs(drawn).max(axis=1))
        reached = resamples - np.searchsorted(highest, np.abs(t), side="left")
        adjusted[:, metric] = np.maximum(p[:, metric], (1 + reached) / (1 + resamples))
        # The corrected p is below LEVEL exactly for t above this quantile.
        quantile = highest[resamples - math.ceil(LEVEL * (1 + resamples)) + 1]
        reach = np.maximum(quantile, -special.stdtrit(augmented.degrees, LEVEL / 2)) * augmented.errors
        low[:, metric], high[:, metric] = augmented.means - reach, augmented.means + reach
    if largest is not None:
        low, high = np.maximum(low, -largest), np.minimum(high, largest)
    return PairedTests(p, adjusted, low, high)


def paired_interval(differences: SampleArray, largest: float | None = 1.0, level: float = LEVEL) -> Interval:
    """Return the interval of the mean of the differences of one pair, an array of shape (questions,).

    It excludes 0 exactly if the p of `run_paired_tests` for this pair alone is below `level`. `largest` is as there.

    Example:
        low, high = paired_interval(new - old)
    """
    from scipy import special  # takes a second to import

    augmented = _augment(np.stack([differences, np.zeros_like(differences)], axis=1), np.array([[0, 1]]), largest)
    mean, error = float(augmented.means[0]), float(augmented.errors[0])
    reach = -float(special.stdtrit(augmented.degrees[0], level / 2)) * error
    bound = math.inf if largest is None else largest
    return max(-bound, mean - reach), min(bound, mean + reach)


def _augment(values: SampleArray, pairs: NDArray[np.intp], largest: float | None) -> _Augmented:
    """Return the differences of pairs of columns of `values`, of shape (questions, methods), with the added ones."""
    first, second = values[:, pairs[:, 0]], values[:, pairs[:, 1]]
    shared = ~(np.isnan(first) | np.isnan(second))
    differences = np.where(shared, first - second, 0.0)
    rounding = _EQUAL * np.maximum(np.abs(np.where(shared, first, 0.0)), np.abs(np.where(shared, second, 0.0)))
    differences[np.abs(differences) <= rounding] = 0.0
    bounds = np.abs(differences).max(axis=0, initial=0.0)
    added = bounds if largest is None else np.full(len(pairs), largest)
    rows = np.concatenate([differences, [added, -added]])
    counted = np.concatenate([shared, np.ones((2, len(pairs)), bool)])
    counts = counted.sum(axis=0)
    means = rows.sum(axis=0) / counts
    centred = np.where(counted, rows - means, 0.0)
    lengths = np.sqrt((centred**2).sum(axis=0))
    columns = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > 0)
    return _Augmented(columns, means, lengths / np.sqrt(counts * (counts - 1.0)), counts - 1.0)


def _draw_joint_t(augmented: _Augmented, seed: int, resamples: int) -> SampleArray:
    """Return draws of the t values of all pairs were there no difference, of shape (resamples, pairs)."""
    factor = _factorise(augmented.columns.T @ augmented.columns)
    rank = factor.shape[1]
    normal, _ = _draw_once(seed, resamples, rank)
    scales = [_scale_draws(seed, resamples, rank, float(degrees)) for degrees in augmented.degrees]
    return np.asarray(normal @ factor.T / np.stack(scales, axis=1))


@lru_cache(maxsize=4)
def _draw_once(seed: int, resamples: int, rank: int) -> tuple[SampleArray, SampleArray]:
    """Return normal draws of shape (resamples, rank) and uniform ones: they are the same for each metric."""
    generator = np.random.default_rng(seed)
    return generator.standard_normal((resamples, rank)), generator.random(resamples)


@lru_cache(maxsize=16)
def _scale_draws(seed: int, resamples: int, rank: int, degrees: float) -> SampleArray:
    """Return by what the draws are divided so that they are t distributed with these degrees of freedom."""
    from scipy import special  # takes a second to import

    _, uniform = _draw_once(seed, resamples, rank)
    return np.asarray(np.sqrt(special.chdtri(degrees, uniform) / degrees))


def _factorise(correlations: SampleArray) -> SampleArray:
    """Return L of shape (pairs, rank) with L L' = `correlations`, by Cholesky's method without the empty columns.

    Unlike a factor from eigenvectors it is continuous in the data, so that rounding does not change the draws.
    """
    rest, columns = correlations.copy(), list[SampleArray]()
    for at in range(len(rest)):
        pivot = float(rest[at, at])
        if pivot > _EQUAL:
            column = rest[:, at] / math.sqrt(pivot)
            rest -= np.outer(column, column)
            columns.append(column)
    return np.stack(columns, axis=1) if columns else np.zeros((len(rest), 0))


# ---------------------------------------------------------------- power

POWER = 0.8
_MOST = 2**40  # questions; more are called infinitely many


def count_questions(mean: float, spread: float, pairs: int = 1, margin: float = 0.0) -> float:
    """Return how many questions show with the probability POWER that a difference is above -`margin`.

    `mean` and `spread` are the mean and the standard deviation of the differences, which one of `pairs` pairs has.
    Returns infinity if no number does.

    Example:
        count_questions(0.02, float(differences.std(ddof=1)))
    """
    if mean + margin < 1e-12:
        return math.inf
    most = 2
    while not _is_shown(mean, spread, pairs, margin, most):
        most *= 2
        if most > _MOST:
            return math.inf
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if _is_shown(mean, spread, pairs, margin, middle) else (middle, most)
    return most


def smallest_difference(spread: float, questions: int, pairs: int = 1, size: float = 1.0) -> float | None:
    """Return the smallest difference of means that the questions show with the probability POWER; None if none is.

    It is a multiple of a thousandth. `spread` and `size` are as in `raise_spread`.

    Example:
        smallest_difference(float(differences.std(ddof=1)), questions=200)
    """
    means = (thousandths / 1000 for thousandths in range(1, 1001))
    return next(
        (mean for mean in means if _is_shown(mean, raise_spread(spread, mean, size), pairs, 0.0, questions)), None
    )


def raise_spread(spread: float, mean: float, size: float = 1.0) -> float:
    """Return the standard deviation of the differences of questions, were their mean `mean`.

    It is `spread`, but at least that of differences of 0 and `size`: few of them have a small spread, and a small mean.
    """
    return max(spread, math.sqrt(max(0.0, mean * (size - mean))))


def _is_shown(mean: float, spread: float, pairs: int, margin: float, questions: int) -> bool:
    quantile, reach = _quantiles(questions, pairs)
    squares = (questions - 1) * spread**2 + 2 + 2 * questions * mean**2 / (questions + 2)
    lead = questions * mean + (questions + 2) * margin - reach * spread * math.sqrt(questions)
    return lead > quantile * math.sqrt((questions + 2) / (questions + 1) * squares)


@cache
def _quantiles(questions: int, pairs: int) -> tuple[float, float]:
    """Return the quantiles of the corrected test and of POWER."""
    from scipy import special  # takes a second to import

    test = -float(special.stdtrit(questions + 1, LEVEL / 2 / pairs))
    return test, float(special.stdtrit(max(1, questions - 1), POWER))
