"""Confidence intervals of what questions cost, by resampling: pure functions of arrays with one row per question.

Intervals are 95 % percentile bootstrap intervals (Efron and Tibshirani 1993, §13.3) over questions drawn with
replacement. Those of quality, which is bounded, are in `mean_intervals`, those of differences in `paired_tests`.
"""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragindex_eval.results.model import Interval

SampleArray: TypeAlias = NDArray[np.float64]

RESAMPLES = 10_000
LEVEL = 0.05
_CHUNK = 1_000  # resamples at a time, which bounds memory to _CHUNK x questions


def resampled_means(values: SampleArray, seed: int, resamples: int = RESAMPLES) -> SampleArray:
    """Return means over questions drawn with replacement: (resamples, columns) for `values` of (questions, columns)."""
    questions = len(values)
    generator = np.random.default_rng(seed)
    drawn = (
        generator.multinomial(questions, np.full(questions, 1 / questions), size) for size in _chunk_sizes(resamples)
    )
    return np.concatenate([counts @ values / questions for counts in drawn])


def cost_interval(costs: SampleArray, seed: int) -> Interval:
    """Return the interval of the mean of what questions cost, an array of shape (questions,)."""
    return interval(resampled_means(costs[:, None], seed)[:, 0])


def interval(resampled: SampleArray) -> Interval:
    """Return the bounds of the middle 95 % of resampled statistics."""
    low, high = np.quantile(resampled, (LEVEL / 2, 1 - LEVEL / 2))
    return float(low), float(high)


def _chunk_sizes(resamples: int) -> Iterator[int]:
    for start in range(0, resamples, _CHUNK):
        yield min(_CHUNK, resamples - start)
