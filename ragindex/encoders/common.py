"""What encoders do alike to texts and vectors."""

from typing import Any

import numpy as np

from ragindex.interfaces import Floats


def normalize_rows(vectors: Any, shortest: float = 0.0) -> Floats:
    """The rows of (n, dimensions) scaled to length one, as float32; zero where they are no longer than `shortest`."""
    rows = np.asarray(vectors)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    scaled: Floats = np.zeros(rows.shape, dtype=np.float32)
    np.divide(rows, lengths, out=scaled, where=lengths > shortest, casting="same_kind")
    return scaled
