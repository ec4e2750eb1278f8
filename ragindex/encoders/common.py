"""Functions that several encoders use."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ragindex.interfaces import EncodingFailure, Floats

PROBE = "dimensions"
"""A text that any encoder has a vector for: if it has one, and a text has none, the text is at fault."""


def separate_failures(vectors: Floats, reasons: Mapping[int, str]) -> Iterator[Floats | EncodingFailure]:
    """Yield the rows of `vectors` in order, with an EncodingFailure in the place of each row in `reasons`."""
    start = 0
    for row in sorted(reasons):
        if row > start:
            yield vectors[start:row]
        yield EncodingFailure(reasons[row])
        start = row + 1
    if start < len(vectors):
        yield vectors[start:]


def normalize_rows(vectors: Any, shortest: float = 0.0) -> Floats:
    """Scale rows, shape (n, dimensions), to length one, as float32; rows no longer than `shortest` become zero."""
    rows = np.asarray(vectors)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    scaled: Floats = np.zeros(rows.shape, dtype=np.float32)
    np.divide(rows, lengths, out=scaled, where=lengths > shortest, casting="same_kind")
    return scaled
