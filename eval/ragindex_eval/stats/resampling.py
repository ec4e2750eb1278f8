"""Confidence intervals of what questions cost, by resampling: pure functions of arrays with one row per question.

Intervals are 95 % percentile bootstrap intervals (Efron and Tibshirani 1993, §13.3) over questions drawn with
replacement. Those of quality, which is bounded, are in `mean_intervals`, those of differences in `paired_tests`.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragindex_eval.results.model import Interval

SampleArray: TypeAlias = NDArray[np.float64]

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
