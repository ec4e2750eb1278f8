"""Functions that several encoders use."""

from typing import Any

import numpy as np

from ragindex.interfaces import Floats


def normalize_rows(vectors: Any, shortest: float = 0.0) -> Floats:
    """Scale rows, shape (n, dimensions), to length one, as float32; rows no longer than `shortest` become zero."""
    rows = np.asarray(vectors)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    scaled: Floats = np.zeros(rows.shape, dtype=np.float32)
    np.divide(rows, lengths, out=scaled, where=lengths > shortest, casting="same_kind")
    return scaled
