"""Confidence intervals and significance tests over questions: pure functions of arrays with one row per question.

Intervals are 95 % percentile bootstrap intervals (Efron and Tibshirani 1993, §13.3) over questions drawn with
replacement. Tests are paired, two-sided permutation tests of a mean difference (Smucker, Allan and Carterette 2007):
under the null hypothesis, each question's difference is equally likely with the opposite sign. p-values are corrected
for the number of tests (Holm 1979). All methods are resampled with the same draws, so differences are paired too.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragindex_eval.results.model import Interval

SampleArray: TypeAlias = NDArray[np.float64]

RESAMPLES = 10_000
LEVEL = 0.05
_CHUNK = 1_000  # resamples at a time, which bounds memory to _CHUNK x questions
_ROUNDING = 1e-9  # sums of the same differences in different order count as equal


def resampled_means(values: SampleArray, seed: int, resamples: int = RESAMPLES) -> SampleArray:
    """Return means over questions drawn with replacement: (resamples, columns) for `values` of (questions, columns)."""
    questions = len(values)
    generator = np.random.default_rng(seed)
    drawn = (
        generator.multinomial(questions, np.full(questions, 1 / questions), size) for size in _chunk_sizes(resamples)
    )
    return np.concatenate([counts @ values / questions for counts in drawn])


def interval(resampled: SampleArray) -> Interval:
    """Return the bounds of the middle 95 % of resampled statistics."""
    low, high = np.quantile(resampled, (LEVEL / 2, 1 - LEVEL / 2))
    return float(low), float(high)


def percentile_intervals(values: SampleArray, percents: Sequence[float], seed: int) -> list[Interval]:
    """Return the interval of each percentile of `values`, an array of shape (questions,)."""
    generator = np.random.default_rng(seed)
    drawn = [values[generator.integers(len(values), size=(size, len(values)))] for size in _chunk_sizes(RESAMPLES)]
    resampled = np.concatenate([np.percentile(sample, percents, axis=1).T for sample in drawn])
    return [interval(column) for column in resampled.T]


def permutation_tests(
    values: SampleArray, pairs: Sequence[tuple[int, int]], seed: int, resamples: int = RESAMPLES
) -> SampleArray:
    """Return p-values of shape (pairs, metrics) for `values` of shape (questions, methods, metrics).

    `pairs` are pairs of method numbers. The test is exact if there are at most `resamples` sign patterns. Otherwise it
    draws `resamples` patterns and counts the observed one as well, so that no p-value is 0.
    """
    questions, methods, metrics = values.shape
    first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    observed = np.abs(values.sum(axis=0)[first] - values.sum(axis=0)[second])
    least = observed * (1 - _ROUNDING) - _ROUNDING
    exact = 2**questions <= resamples if questions < 64 else False
    signs = _all_signs(questions) if exact else _draw_signs(questions, seed, resamples)
    flat, reached, tried = values.reshape(questions, -1), np.zeros(observed.shape), 0
    for chunk in signs:
        sums = (chunk @ flat).reshape(len(chunk), methods, metrics)
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            reached[number] += (np.abs(sums[:, one] - sums[:, other]) >= least[number]).sum(axis=0)
        tried += len(chunk)
    return reached / tried if exact else (reached + 1) / (tried + 1)


def holm(values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for multiple testing (Holm 1979), in the given order."""
    corrected, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=lambda at: values[at])):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = highest
    return corrected


def _chunk_sizes(resamples: int) -> Iterator[int]:
    for start in range(0, resamples, _CHUNK):
        yield min(_CHUNK, resamples - start)


def _all_signs(questions: int) -> Iterator[SampleArray]:
    numbers = np.arange(2**questions)
    for start in range(0, len(numbers), _CHUNK):
        bits = numbers[start : start + _CHUNK, None] >> np.arange(questions)
        yield np.where(bits & 1, -1.0, 1.0)


def _draw_signs(questions: int, seed: int, resamples: int) -> Iterator[SampleArray]:
    generator = np.random.default_rng(seed)
    for size in _chunk_sizes(resamples):
        yield np.where(generator.integers(2, size=(size, questions)), -1.0, 1.0)
