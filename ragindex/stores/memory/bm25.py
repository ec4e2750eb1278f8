"""BM25 in memory: a sparse index over tokens, exact and deterministic.

Scores are those of Lucene's BM25 (Robertson et al. 1995; Kamphuis et al. 2020, "Which BM25 do you mean?"), without
the constant factor k1 + 1: idf = ln(1 + (N - df + 0.5) / (df + 0.5)), tf / (tf + k1 (1 - b + b length / mean length)).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

K1, B = 1.2, 0.75
_ROUNDED = 1 + 1e-6
"""More than the relative error of a score: what tokens add to it is rounded to float32."""
_LOOKUP = 16
"""The postings that are read in the time of looking one row up."""
_NO_ROWS = np.zeros(0, np.int64)

Counts: TypeAlias = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True)
class Statistics:
    """The BM25 statistics of a collection: number of rows with tokens, total tokens, and document frequencies."""

    filled: int
    tokens: int
    frequency: Callable[[str], int]

    @property
    def mean(self) -> float:
        """The mean length of the rows that have tokens."""
        return max(1.0, self.tokens / max(1, self.filled))

    def idf(self, token: str) -> float:
        """Return the inverse document frequency of a token."""
        frequency = self.frequency(token)
        return float(np.log1p(max(max(1, self.filled) - frequency + 0.5, 0) / (frequency + 0.5)))

    def saturation(self, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the term that is added to tf in the denominator, for rows of the given lengths, of shape (rows,)."""
        return (K1 * (1 - B + B * lengths / self.mean)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class TextCounts:
    """The token counts of some rows: number of rows with tokens, total tokens, and document frequency by token."""

    filled: int
    tokens: int
    frequencies: Mapping[str, int]


class TermNumbers(Protocol):
    """Finds the number of a term."""

    def get(self, term: str, /) -> int | None:
        """Return the number of a term, or None if no row has it."""
        ...


@dataclass(frozen=True, slots=True)
class TextIndex:
    """An inverted index: rows `rows[starts[t]:starts[t + 1]]` contain term t, so many times as `counts` says.

    `saturation` is that of each row, and `peaks` an upper bound of each term's saturated frequencies.
    """

    terms: TermNumbers
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    counts: Counts
    saturation: npt.NDArray[np.float32]
    peaks: npt.NDArray[np.float32]
    statistics: Statistics

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.saturation)

    def scores(self, tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the BM25 scores of all rows, of shape (size,). Repeated query tokens count each time.

        Rows that share no token with the query have score 0.
        """
        scores = np.zeros(self.size, dtype=np.float64)
        for weight, term in self._find_terms(tokens):
            self._add(scores, weight, term)
        return scores

    def scores_of(self, tokens: Sequence[str], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the BM25 scores of `rows`, of shape (rows,): `scores(tokens)[rows]`, in time of the rows given."""
        scores, some = np.zeros(len(rows), dtype=np.float64), rows.astype(np.int32)
        for weight, term in self._find_terms(tokens):
            scores += self._weigh(weight, term, some)
        return scores

    def select_best(
        self, tokens: Sequence[str], k: int, without: npt.NDArray[np.int64] = _NO_ROWS
    ) -> npt.NDArray[np.int64]:
        """Return rows that contain the k best with a score above 0 and all that tie with these, except `without`.

        MaxScore (Turtle and Flood 1995): the postings of frequent tokens are read for a few rows only, once rows that
        have no other token cannot be among the best.
        """
        if k <= 0:
            return _NO_ROWS
        terms = sorted(self._find_terms(tokens), key=lambda term: self.starts[term[1] + 1] - self.starts[term[1]])
        bounds = [weight * float(self.peaks[term]) * _ROUNDED for weight, term in terms]
        scores = np.zeros(self.size, dtype=np.float64)
        scores[without] = -np.inf
        least, read, left = 0.0, 0, sum(bounds)  # at most the k-th best score; terms read; what others can add
        while read < len(terms) and least <= left:
            self._add(scores, *terms[read])
            left = sum(bounds[read + 1 :])
            if left < sum(bounds[: read + 1]):  # else the k-th best cannot be above it
                least = max(least, _find_kth(scores[self._slice(terms[read][1])[0]], k))
            read += 1
        rows = np.flatnonzero(scores > max(0.0, (least - left) / _ROUNDED))
        for number in range(read, len(terms)):
            weight, term = terms[number]
            if len(rows) * _LOOKUP > self.starts[term + 1] - self.starts[term]:
                self._add(scores, weight, term)
            else:
                scores[rows] += self._weigh(weight, term, rows.astype(np.int32))
            least = max(least, _find_kth(scores[rows], k))
            rows = rows[scores[rows] > (least - sum(bounds[number + 1 :])) / _ROUNDED]
        return rows

    def _find_terms(self, tokens: Sequence[str]) -> Iterator[tuple[float, int]]:
        """Yield the weight of each token of a query, and the number of its term."""
        for token, times in sorted(Counter(tokens).items()):  # sums must not depend on the order of the query's tokens
            term = self.terms.get(token)
            if term is not None:
                yield times * self.statistics.idf(token), term

    def _slice(self, term: int) -> tuple[npt.NDArray[np.int32], Counts]:
        postings = slice(self.starts[term], self.starts[term + 1])
        return self.rows[postings], self.counts[postings]

    def _add(self, scores: npt.NDArray[np.float64], weight: float, term: int) -> None:
        rows, counts = self._slice(term)
        rows = rows.astype(np.intp)  # else it is converted three times
        scores[rows] += weight * _saturate(counts, self.saturation[rows])

    def _weigh(self, weight: float, term: int, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        """Return what a term adds to the scores of `rows`."""
        holding, counts = self._slice(term)
        if not len(holding):
            return np.zeros(len(rows))
        places = np.minimum(np.searchsorted(holding, rows), len(holding) - 1)
        weights = _saturate(counts[places], self.saturation[rows])
        return weight * np.where(holding[places] == rows, weights, np.float32(0))


def _find_kth(scores: npt.NDArray[np.float64], k: int) -> float:
    """Return the k-th greatest score, or 0 if there are fewer."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) if len(scores) >= k else 0.0


def _saturate(counts: Counts, saturation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    frequencies = counts.astype(np.float32)
    weights: npt.NDArray[np.float32] = frequencies / (frequencies + saturation)
    return weights


def build_text_index(tokens: pa.Array, statistics: Statistics | None = None) -> TextIndex:
    """Build the index of a string column that contains each row's tokens, joined by single spaces.

    `statistics` are those of the larger collection that the rows belong to. Default: those of the rows.
    """
    postings = count_postings(tokens)
    terms = {term: number for number, term in enumerate(postings.terms)}
    frequencies = np.diff(postings.starts)
    own = Statistics(
        postings.filled,
        postings.tokens,
        lambda token: int(frequencies[terms[token]]) if token in terms else 0,
    )
    return postings.weigh(terms, statistics or own)


def count_tokens(columns: Iterable[pa.Array]) -> TextCounts:
    """Count the tokens of rows given as several columns, each in the format of `build_text_index`."""
    frequencies, filled, total = Counter[str](), 0, 0
    for tokens in columns:
        postings = count_postings(tokens)
        frequencies.update(dict(zip(postings.terms, np.diff(postings.starts).tolist(), strict=True)))
        filled, total = filled + postings.filled, total + postings.tokens
    return TextCounts(filled, total, frequencies)


class Postings(NamedTuple):
    """Row `rows[i]` contains term t `counts[i]` times, for i in `starts[t]:starts[t + 1]`, in order of the rows."""

    terms: list[str]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    counts: Counts
    lengths: npt.NDArray[np.int64]
    """The number of tokens of each row."""

    @property
    def filled(self) -> int:
        """The number of rows with tokens: as in Lucene, rows without a token count in no statistic."""
        return int((self.lengths > 0).sum())

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return int(self.lengths.sum())

    def weigh(self, terms: TermNumbers, statistics: Statistics) -> TextIndex:
        """Return the index of these postings. `terms` finds the place of a term in theirs."""
        saturation = statistics.saturation(self.lengths)
        weights = _saturate(self.counts, saturation[self.rows])
        peaks = np.maximum.reduceat(weights, self.starts[:-1]) if len(weights) else weights
        return TextIndex(terms, self.starts, self.rows, self.counts, saturation, peaks, statistics)


def count_postings(tokens: pa.Array) -> Postings:
    """Count the tokens of each row of a column in the format of `build_text_index`."""
    # Without SciPy, and without values that pyarrow converts from Python, for which it imports pandas: both imports
    # take longer than a search of a small index.
    split = pc.split_pattern(tokens.cast(pa.large_string()), " ")
    encoded = split.values.dictionary_encode()
    lengths = np.diff(np.from_dlpack(split.offsets))
    row_of = np.repeat(np.arange(len(split)), lengths)
    places = np.from_dlpack(encoded.indices).astype(np.int64) * len(split) + row_of
    places.sort()
    first = np.flatnonzero(np.diff(places, prepend=-1))
    counts = np.diff(first, append=len(places))
    term_of, rows = np.divmod(places[first], max(1, len(split)))
    terms = encoded.dictionary.to_pylist()
    starts = np.searchsorted(term_of, np.arange(len(terms) + 1))
    if "" in terms:  # a row without tokens splits into ""
        empty = terms.index("")
        start, stop = starts[empty : empty + 2]
        lengths[rows[start:stop]] = 0
        rows, counts = (np.delete(values, slice(start, stop)) for values in (rows, counts))
        starts = np.delete(starts, empty + 1)
        starts[empty + 1 :] -= stop - start
        del terms[empty]
    smallest = np.min_scalar_type(int(counts.max(initial=0)))
    return Postings(terms, starts, rows.astype(np.int32), counts.astype(smallest), lengths)


def merge_postings(blocks: Iterable[Postings]) -> Postings:
    """Return the postings of several blocks of rows, one after the other. The terms are sorted."""
    blocks = list(blocks)
    terms = sorted({term for block in blocks for term in block.terms})
    numbers = {term: number for number, term in enumerate(terms)}
    own = [np.array([numbers[term] for term in block.terms], np.int64) for block in blocks]
    frequencies = np.zeros(len(terms), np.int64)
    for block, term_of in zip(blocks, own, strict=True):
        frequencies[term_of] += np.diff(block.starts)
    starts = np.concatenate([[0], np.cumsum(frequencies)])
    rows = np.empty(starts[-1], np.int32)
    counts = np.empty(starts[-1], np.result_type(np.uint8, *(block.counts for block in blocks)))
    filled, first_row = starts[:-1].copy(), 0
    for block, term_of in zip(blocks, own, strict=True):
        sizes = np.diff(block.starts)
        places = np.repeat(filled[term_of] - block.starts[:-1], sizes) + np.arange(len(block.rows))
        rows[places], counts[places] = block.rows + np.int32(first_row), block.counts
        filled[term_of] += sizes
        first_row += len(block.lengths)
    lengths = np.concatenate([np.zeros(0, np.int64), *(block.lengths for block in blocks)])
    return Postings(terms, starts, rows, counts, lengths)
