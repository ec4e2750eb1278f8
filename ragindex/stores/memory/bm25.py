"""BM25 in memory: a sparse index over tokens, exact and deterministic.

Scores are those of Lucene's BM25 (Robertson et al. 1995; Kamphuis et al. 2020, "Which BM25 do you mean?"), without
the constant factor k1 + 1: idf = ln(1 + (N - df + 0.5) / (df + 0.5)), tf / (tf + k1 (1 - b + b length / mean length)).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

K1, B = 1.2, 0.75


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

    def saturation(self, lengths: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        """Return the term that is added to tf in the denominator, for rows of the given lengths, of shape (rows,)."""
        return (K1 * (1 - B + B * lengths / self.mean)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class TextCounts:
    """The token counts of some rows: number of rows with tokens, total tokens, and document frequency by token."""

    filled: int
    tokens: int
    frequencies: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TextIndex:
    """An inverted index: rows `rows[starts[t]:starts[t + 1]]` contain term t, with saturated frequencies `weights`."""

    terms: Mapping[str, int]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    statistics: Statistics
    size: int

    def scores(self, tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the BM25 scores of all rows, of shape (size,). Repeated query tokens count each time.

        Rows that share no token with the query have score 0.
        """
        scores = np.zeros(self.size, dtype=np.float64)
        for weight, postings in self._find_postings(tokens):
            scores[self.rows[postings]] += weight * self.weights[postings]
        return scores

    def scores_of(self, tokens: Sequence[str], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the BM25 scores of `rows`, of shape (rows,): `scores(tokens)[rows]`, in time of the rows given."""
        scores = np.zeros(len(rows), dtype=np.float64)
        for weight, postings in self._find_postings(tokens):
            holding = self.rows[postings]
            places = np.minimum(np.searchsorted(holding, rows), len(holding) - 1)
            scores += weight * np.where(holding[places] == rows, self.weights[postings][places], np.float32(0))
        return scores

    def _find_postings(self, tokens: Sequence[str]) -> Iterator[tuple[float, slice]]:
        """Yield the weight of each token of a query, and where its postings are."""
        for token, times in sorted(Counter(tokens).items()):  # sums must not depend on the order of the query's tokens
            term = self.terms.get(token)
            if term is not None:
                yield times * self.statistics.idf(token), slice(self.starts[term], self.starts[term + 1])


def build_text_index(tokens: pa.Array, statistics: Statistics | None = None) -> TextIndex:
    """Build the index of a string column that contains each row's tokens, joined by single spaces.

    `statistics` are those of the larger collection that the rows belong to. Default: those of the rows.
    """
    postings = _build_postings(tokens)
    lengths = postings.lengths
    terms = {term: number for number, term in enumerate(postings.terms) if term}
    if statistics is None:
        frequencies = np.diff(postings.starts)
        statistics = Statistics(
            _count_filled(lengths),
            int(lengths.sum()),
            lambda token: int(frequencies[terms[token]]) if token in terms else 0,
        )
    weights = postings.counts / (postings.counts + statistics.saturation(lengths)[postings.rows])
    return TextIndex(terms, postings.starts, postings.rows, weights, statistics, len(lengths))


def count_tokens(columns: Iterable[pa.Array]) -> TextCounts:
    """Count the tokens of rows given as several columns, each in the format of `build_text_index`."""
    frequencies, filled, total = Counter[str](), 0, 0
    for tokens in columns:
        postings = _build_postings(tokens)
        numbers = zip(postings.terms, np.diff(postings.starts).tolist(), strict=True)
        frequencies.update({term: number for term, number in numbers if term})
        filled, total = filled + _count_filled(postings.lengths), total + int(postings.lengths.sum())
    return TextCounts(filled, total, frequencies)


def _count_filled(lengths: npt.NDArray[np.float64]) -> int:
    return int((lengths > 0).sum())  # as in Lucene, rows without a token count in no statistic


class _Postings(NamedTuple):
    """Row `rows[i]` contains term t `counts[i]` times, for i in `starts[t]:starts[t + 1]`, in order of the rows."""

    terms: list[str]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]
    lengths: npt.NDArray[np.float64]
    """The number of tokens of each row."""


def _build_postings(tokens: pa.Array) -> _Postings:
    # Without SciPy, and without values that pyarrow converts from Python, for which it imports pandas: both imports
    # take longer than a search of a small index.
    split = pc.split_pattern(tokens.cast(pa.large_string()), " ")
    encoded = split.values.dictionary_encode()
    lengths = np.diff(np.from_dlpack(split.offsets))
    row_of = np.repeat(np.arange(len(split)), lengths)
    places = np.from_dlpack(encoded.indices).astype(np.int64) * len(split) + row_of
    places.sort()
    first = np.flatnonzero(np.diff(places, prepend=-1))
    counts = np.diff(first, append=len(places)).astype(np.float32)
    term_of, rows = np.divmod(places[first], max(1, len(split)))
    starts = np.searchsorted(term_of, np.arange(len(encoded.dictionary) + 1))
    terms = encoded.dictionary.to_pylist()
    if "" in terms:  # a row without tokens splits into ""
        empty = terms.index("")
        lengths[rows[starts[empty] : starts[empty + 1]]] = 0
    return _Postings(terms, starts, rows.astype(np.int32), counts, lengths.astype(np.float64))
