"""Near pairs of vectors, computed one after the other."""

import numpy as np


def plainly(vectors: np.ndarray, least: float, most: int) -> dict[tuple[int, int], float]:
    """All pairs, one after the other."""
    cosines_by_pair = {}
    for row, vector in enumerate(vectors):
        cosines = vectors @ vector
        cosines[row] = -1
        for other in np.argsort(-cosines, kind="stable")[:most].tolist():
            if cosines[other] >= least:
                cosines_by_pair[min(row, other), max(row, other)] = float(cosines[other])
    return cosines_by_pair
