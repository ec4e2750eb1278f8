"""Pairs of vectors with a high cosine, found by comparing within cells: never all with all.

Vectors fall into the cells of the pivots nearest to them, several each, and are compared with those of the same cell.
A cell is cut where it grows beyond a bound, so the work grows with n to the power of 1.5 at most, and linearly where
all vectors are alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ragindex.interfaces import Floats

_PIVOTS = 2.0
"""Pivots for each square root of n."""
_CELLS = 6
"""Cells that a vector belongs to."""
_LARGEST = 2048
"""Vectors compared at once; so many or fewer are compared with one another exactly."""
_BLOCK = 4096

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Unordered pairs of rows, `first` < `second`, sorted, each once, with their cosines."""

    first: Places
    second: Places
    cosines: Floats


def near_pairs(vectors: Floats, least: float, most: int, seed: int) -> Pairs:
    """Pairs of rows (of length one) with a cosine of at least `least`, one among the `most` nearest of the other.

    Zero rows are near nothing. Up to 2,048 rows the answer is exact; beyond, a pair is missed when its vectors share
    none of six cells. There are at most n * `most` pairs. The same vectors and seed give the same pairs.
    """
    rows = np.flatnonzero(vectors.any(axis=1))
    held = np.ascontiguousarray(vectors[rows])
    first, second, cosines = (np.concatenate(each) for each in zip(*_compared(held, least, most, seed), strict=True))
    return _paired(rows[first], rows[second], cosines, most)


def _compared(vectors: Floats, least: float, most: int, seed: int) -> Iterator[tuple[Places, Places, Floats]]:
    yield np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
    for cell in _cells(vectors, seed):
        held = vectors[cell]
        cosines = held @ held.T
        np.fill_diagonal(cosines, -1)
        kept = cosines >= least
        crowded = np.flatnonzero(kept.sum(axis=1) > most)
        if len(crowded):
            kept[crowded[:, None], np.argpartition(-cosines[crowded], most, axis=1)[:, most:]] = False
        first, second = np.nonzero(kept)
        yield cell[first], cell[second], cosines[first, second]


def _cells(vectors: Floats, seed: int) -> Iterator[Places]:
    """Rows that are compared with one another; of a cell that is too large, those as near to its pivot."""
    n = len(vectors)
    if n <= _LARGEST:
        yield np.arange(n)
        return
    pivots = vectors[np.sort(np.random.default_rng(seed).choice(n, int(_PIVOTS * n**0.5), replace=False))]
    cells = np.empty((n, _CELLS), np.int32)
    near = np.empty((n, _CELLS), np.float32)
    for start in range(0, n, _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ pivots.T
        cells[start : start + _BLOCK] = np.argpartition(-cosines, _CELLS, axis=1)[:, :_CELLS]
        near[start : start + _BLOCK] = np.take_along_axis(cosines, cells[start : start + _BLOCK], axis=1)
    order = np.lexsort((-near.ravel(), cells.ravel()))
    ends = np.cumsum(np.bincount(cells.ravel(), minlength=len(pivots)))
    for members in np.split(order // _CELLS, ends[:-1]):
        for start in range(0, len(members), _LARGEST):
            yield members[start : start + _LARGEST]


def _paired(first: Places, second: Places, cosines: Floats, most: int) -> Pairs:
    """Each found pair once, where it is among the `most` best of one of the two."""
    order = np.lexsort((second, -cosines, first))
    first, second, cosines = first[order], second[order], cosines[order]
    fresh = _distinct(first, second)
    first, second, cosines = first[fresh], second[fresh], cosines[fresh]
    starts = np.searchsorted(first, first)
    best = np.arange(len(first)) - starts < most
    low, high, cosines = np.minimum(first, second)[best], np.maximum(first, second)[best], cosines[best]
    order = np.lexsort((high, low))
    low, high, cosines = low[order], high[order], cosines[order]
    kept = np.ones(len(low), bool)
    kept[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    return Pairs(low[kept], high[kept], cosines[kept])


def _distinct(first: Places, second: Places) -> npt.NDArray[Any]:
    """One place of each pair that was found, in the order found first."""
    keys = first * (int(second.max(initial=0)) + 1) + second
    return np.sort(np.unique(keys, return_index=True)[1])
