"""BM25 from memory: a sparse index over tokens, exact and deterministic.

Scores are those of Lucene's BM25 (Robertson et al. 1995; Kamphuis et al. 2020, "Which BM25 do you mean?"), without
the constant factor k1 + 1: idf = ln(1 + (N - df + 0.5) / (df + 0.5)), tf / (tf + k1 (1 - b + b length / mean length)).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_matrix

K1, B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class TextIndex:
    """Postings by term: rows `rows[starts[t]:starts[t + 1]]` hold term t with the saturated frequencies `weights`."""

    terms: Mapping[str, int]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    idf: npt.NDArray[np.float64]
    size: int

    def scores(self, tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """The BM25 score of every row, (size,); 0 where no token is shared. A repeated token counts each time."""
        scores = np.zeros(self.size, dtype=np.float64)
        for token, times in sorted(Counter(tokens).items()):  # one order of adding, whatever the question's
            term = self.terms.get(token)
            if term is not None:
                postings = slice(self.starts[term], self.starts[term + 1])
                scores[self.rows[postings]] += (times * self.idf[term]) * self.weights[postings]
        return scores


def build(tokens: pa.Array) -> TextIndex:
    """The index of a string column that holds each row's tokens, joined by single spaces."""
    split = pc.split_pattern(pc.fill_null(tokens, ""), " ")
    encoded = split.values.dictionary_encode()
    offsets = split.offsets.to_numpy()
    size = len(split)
    counts = csr_matrix(
        (np.ones(len(encoded), np.float32), encoded.indices.to_numpy(), offsets), (size, len(encoded.dictionary))
    )
    by_term = counts.tocsc()
    by_term.sum_duplicates()
    vocabulary = encoded.dictionary.to_pylist()
    terms = {term: number for number, term in enumerate(vocabulary) if term}  # a row without tokens splits into ""
    blank = pc.equal(pc.fill_null(tokens, ""), "").to_numpy(zero_copy_only=False)
    lengths = np.diff(offsets).astype(np.float64)
    lengths[blank] = 0
    filled = max(1, size - int(blank.sum()))  # as in Lucene, rows without a token count in no statistic
    mean = max(1.0, lengths.sum() / filled)
    saturation = (K1 * (1 - B + B * lengths / mean)).astype(np.float32)
    frequencies = np.diff(by_term.indptr).astype(np.float64)
    weights = by_term.data / (by_term.data + saturation[by_term.indices])
    idf = np.log1p(np.maximum(filled - frequencies + 0.5, 0) / (frequencies + 0.5))  # the blank term exceeds filled
    return TextIndex(terms, by_term.indptr.astype(np.int64), by_term.indices.astype(np.int32), weights, idf, size)
