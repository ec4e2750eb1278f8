"""Paired tests of several methods by random sign flips: one p for each pair, corrected for all pairs, and for the best.

Under the null hypothesis, the differences of methods on a question are equally likely with the opposite sign. One sign
is drawn for each question and shared by all pairs, so that the correlation of the pairs is that of the data. The
statistic of a pair is the sum of its differences divided by the root of the sum of their squares, which does not
depend on the signs. For equal numbers of questions it grows with Student's t.

- p of a pair: two-sided permutation test (Smucker, Allan and Carterette 2007).
- corrected p of a pair: step-down max-T (Westfall and Young 1993, algorithm 4.1; Romano and Wolf 2005).
- p of a method as the best: multiple comparisons with the best (Hsu 1981; Edwards and Hsu 1983). A method is tested
  against all others at once, and excluded if one of them is better.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragindex.progress import progress_bar
from ragindex_eval.stats.resampling import RESAMPLES, SampleArray

_CHUNK = 1_000  # sign patterns at a time at most
_CELLS = 250_000  # numbers in one array: memory is bounded, and an array of 2 MB stays in the cache
_ROUNDING = 1e-9  # sums of the same differences in different order count as equal


@dataclass(frozen=True, slots=True)
class SignFlipTests:
    """p-values of several metrics: `p` and `adjusted` of shape (pairs, metrics), `best` of shape (methods, metrics).

    A method with `best` under 0.05 is excluded as the best, the one with the highest mean. `best` is two-sided, twice
    the one-sided p, so that with two methods it is the p of their pair for the one that is behind.
    """

    p: SampleArray
    adjusted: SampleArray
    best: SampleArray


def run_sign_flips(
    values: SampleArray, pairs: Sequence[tuple[int, int]], seed: int, resamples: int = RESAMPLES
) -> SignFlipTests:
    """Test `pairs` of method numbers by `values` of shape (questions, methods, metrics).

    NaN is a question on which a method was not measured; a pair is tested over the questions that both have. Methods
    that are equal on all of these have p = 1. The test is exact if there are at most `resamples` sign patterns.
    Otherwise it draws `resamples` patterns and counts the observed one as well, so that no p-value is 0.
    """
    questions, methods, metrics = values.shape
    tested = [_PairColumns.of(values[:, :, metric], pairs) for metric in range(metrics)]
    counts = [_Counts.of(columns) for columns in tested]
    exact = questions < 64 and 2**questions <= resamples
    size = max(1, min(_CHUNK, _CELLS // max(1, questions, 2 * len(pairs))))
    total = 2**questions if exact else resamples
    with progress_bar("testing pairs of methods", total) as advance:
        for signs in _all_signs(questions, size) if exact else _draw_signs(questions, seed, resamples, size):
            for columns, count in zip(tested, counts, strict=True):
                count.add(columns.statistics(signs))
            advance(len(signs))
    observed, tried = (0, total) if exact else (1, total + 1)
    p, adjusted = np.ones((len(pairs), metrics)), np.ones((len(pairs), metrics))
    best = np.ones((methods, metrics))
    for metric, count in enumerate(counts):
        p[:, metric] = (count.p + observed) / tried
        adjusted[count.order, metric] = np.maximum.accumulate((count.step_down[::-1] + observed) / tried)[::-1]
        best[count.behind, metric] = np.minimum(1.0, 2 * (count.best + observed) / tried)
    return SignFlipTests(p, adjusted, best)


@dataclass(frozen=True, slots=True)
class _PairColumns:
    """Values of one metric, arranged so that the sums of a pair are the difference of two columns.

    `values` has a column for each method and each set of questions that pairs share; other questions are 0 there.
    `first` and `second` are the columns of the pairs, `losers` and `winners` their methods, `scale` the roots of the
    sums of squared differences, infinite for pairs without differences.
    """

    values: SampleArray
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    methods: NDArray[np.intp]
    scale: SampleArray

    @classmethod
    def of(cls, values: SampleArray, pairs: Sequence[tuple[int, int]]) -> "_PairColumns":
        numbers = np.array(pairs, dtype=np.intp).reshape(-1, 2)
        known = ~np.isnan(values)
        columns: dict[tuple[int, bytes], int] = {}
        blocks, at = list[SampleArray](), np.empty_like(numbers)
        scale = np.empty(len(numbers))
        for pair, methods in enumerate(numbers):
            shared = known[:, methods].all(axis=1)
            for side, method in enumerate(methods):
                key = (int(method), shared.tobytes())
                if key not in columns:
                    columns[key] = len(blocks)
                    blocks.append(np.where(shared, values[:, method], 0.0))
                at[pair, side] = columns[key]
            scale[pair] = _root_of_squares(blocks[at[pair, 0]], blocks[at[pair, 1]])
        stacked = np.stack(blocks, axis=1) if blocks else np.zeros((len(values), 0))
        return cls(stacked, at[:, 0], at[:, 1], numbers, scale)

    def statistics(self, signs: SampleArray) -> SampleArray:
        """Return the statistics under sign patterns of shape (patterns, questions), of shape (pairs, patterns)."""
        sums = self.values.T @ signs.T
        return (sums[self.first] - sums[self.second]) / self.scale[:, None]


def _root_of_squares(first: SampleArray, second: SampleArray) -> float:
    """Return the root of the sum of squared differences; infinity if there are none beyond rounding."""
    root = float(np.sqrt(((first - second) ** 2).sum()))
    largest = max(float(np.abs(first).max(initial=0.0)), float(np.abs(second).max(initial=0.0)))
    return root if root > _ROUNDING * largest else float("inf")


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many sign patterns reached the observed statistics of one metric.

    `order` sorts the pairs by the size of the statistic; `step_down` has this order. `by_loser` sorts the statistics
    and their opposites by the method that is behind, `behind` are the numbers of these methods, which `best` counts,
    and `starts` is where each of them begins.
    """

    order: NDArray[np.intp]
    by_loser: NDArray[np.intp]
    starts: NDArray[np.intp]
    behind: NDArray[np.intp]
    least: SampleArray
    least_best: SampleArray
    p: NDArray[np.int64]
    step_down: NDArray[np.int64]
    best: NDArray[np.int64]

    @classmethod
    def of(cls, columns: _PairColumns) -> "_Counts":
        """Prepare the counts from the observed statistics, those of the pattern without a flip."""
        observed = columns.statistics(np.ones((1, len(columns.values))))[:, 0]
        losers = np.concatenate([columns.methods[:, 1], columns.methods[:, 0]])
        by_loser = np.argsort(losers, kind="stable")
        behind, starts = np.unique(losers[by_loser], return_index=True)
        lead = np.concatenate([observed, -observed])[by_loser]
        largest = np.maximum.reduceat(lead, starts) if len(lead) else lead
        sizes = np.abs(observed)
        counts = (np.zeros(count, dtype=np.int64) for count in (len(sizes), len(sizes), len(behind)))
        return cls(np.argsort(sizes), by_loser, starts, behind, _lowered(sizes), _lowered(largest), *counts)

    def add(self, statistics: SampleArray) -> None:
        """Count the patterns whose statistics, of shape (pairs, patterns), reach the observed ones."""
        if not len(self.order):
            return
        sizes = np.abs(statistics)
        self.p[:] += _count_reached(sizes, self.least)
        highest = np.maximum.accumulate(sizes[self.order], axis=0)
        self.step_down[:] += _count_reached(highest, self.least[self.order])
        leads = np.concatenate([statistics, -statistics])[self.by_loser]
        self.best[:] += _count_reached(np.maximum.reduceat(leads, self.starts, axis=0), self.least_best)


def _count_reached(statistics: SampleArray, least: SampleArray) -> NDArray[np.int64]:
    reached: NDArray[np.int64] = np.count_nonzero(statistics >= least[:, None], axis=1)
    return reached


def _lowered(statistics: SampleArray) -> SampleArray:
    """Return the bounds that count as reaching the statistics, lower by what rounding may take."""
    return statistics - _ROUNDING * (1 + np.abs(statistics))


def _all_signs(questions: int, size: int) -> Iterator[SampleArray]:
    numbers = np.arange(2**questions)
    for start in range(0, len(numbers), size):
        bits = numbers[start : start + size, None] >> np.arange(questions)
        yield np.where(bits & 1, -1.0, 1.0)


def _draw_signs(questions: int, seed: int, resamples: int, size: int) -> Iterator[SampleArray]:
    generator = np.random.default_rng(seed)
    for start in range(0, resamples, size):
        bits = generator.integers(2, size=(min(size, resamples - start), questions), dtype=np.int8)
        yield np.where(bits, -1.0, 1.0)
