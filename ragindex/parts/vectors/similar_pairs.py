"""Search for pairs of vectors with a high cosine, by comparing within cells instead of all with all.

Some vectors, chosen at random, are pivots. Each vector belongs to the cells of its nearest pivots and is
compared with the other vectors of these cells. A cell above a size limit is cut into pieces, so the work
grows with n^1.5 at most, and linearly if all vectors are alike. The vectors may lie in a file: memory holds
the pivots, one cell, and integers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ragindex.interfaces import Floats
from ragindex.parts.records import Integers

_PIVOTS = 2.0
"""Number of pivots divided by the square root of n."""
_CELLS = 6
"""Number of cells that a vector belongs to."""
_LARGEST = 2048
"""Vectors compared at once; up to this many vectors are compared exactly, all with all."""
_BLOCK = 4096
"""Vectors compared with the pivots at once."""
_SORTED = 256
"""Vectors of a block whose nearest pivots are selected at once: this takes more memory than the cosines."""
_WAITING = 1 << 20
"""Pairs collected before they are deduplicated; half the number of kept pairs, if that is more."""
_SIFTED = 1 << 14
"""Rows whose pairs are sorted at once."""

_Numbers: TypeAlias = npt.NDArray[np.int32]
_DirectedPairs: TypeAlias = tuple[_Numbers, _Numbers, Floats]


@dataclass(frozen=True, slots=True)
class SimilarPairs:
    """Unordered pairs of rows with their cosines: `first` < `second`, sorted, without duplicates."""

    first: Integers
    second: Integers
    cosines: Floats


def near_pairs(vectors: Floats, least: float, most: int, seed: int) -> SimilarPairs:
    """Find pairs of rows with a cosine of at least `least`, one of them among the `most` nearest of the other.

    `vectors` (n, dimensions) have length one; zero rows are in no pair. The result is exact up to 2,048 rows;
    beyond, a pair is missed if its vectors share no piece of their six cells. There are at most n * `most`
    pairs. The same vectors and seed give the same pairs, whether the vectors are in memory or mapped from a
    file. A file is read in blocks, and once row by row for each cell.
    """
    vectors = np.asarray(vectors)
    rows = np.flatnonzero(vectors.any(axis=1))
    nearest, waiting, count = _make_empty_pairs(), list[_DirectedPairs](), 0
    for cell in _compare_cells(vectors, rows, least, most, seed):
        waiting.append(cell)
        count += len(cell[0])
        if 2 * count >= max(2 * _WAITING, len(nearest[0])):
            nearest, waiting, count = _keep_nearest([nearest, *waiting], len(rows), most), [], 0
    nearest, waiting = _keep_nearest([nearest, *waiting], len(rows), most), []  # release the waiting pairs
    return _merge_directions(rows, nearest)


def _compare_cells(vectors: Floats, rows: Integers, least: float, most: int, seed: int) -> Iterator[_DirectedPairs]:
    """Yield the pairs of each cell as places in `rows`, in both directions; pairs of several cells come repeatedly."""
    for cell in _iterate_cells(vectors, rows, seed):
        members = vectors[rows[cell]]
        cosines = members @ members.T
        np.fill_diagonal(cosines, -1)
        close = cosines >= least
        crowded = np.flatnonzero(close.sum(axis=1) > most)
        if len(crowded):
            close[crowded[:, None], np.argpartition(-cosines[crowded], most, axis=1)[:, most:]] = False
        first, second = np.nonzero(close)
        yield cell[first], cell[second], cosines[first, second]


def _iterate_cells(vectors: Floats, rows: Integers, seed: int) -> Iterator[_Numbers]:
    """Yield the places in `rows` that are compared with one another.

    A cell above the limit is cut into pieces of similar distance to its pivot.
    """
    n = len(rows)
    if n <= _LARGEST:
        yield np.arange(n, dtype=np.int32)
        return
    chosen = np.sort(np.random.default_rng(seed).choice(n, int(_PIVOTS * n**0.5), replace=False))
    members, ends = _assign_cells(vectors, rows, vectors[rows[chosen]])
    for start, end in pairwise([0, *ends.tolist()]):
        for first in range(start, end, _LARGEST):
            yield members[first : min(end, first + _LARGEST)]


def _assign_cells(vectors: Floats, rows: Integers, pivots: Floats) -> tuple[_Numbers, Integers]:
    """Return the members of all cells, concatenated and sorted by distance to the pivot, and the end of each cell."""
    cells = np.empty((len(rows), _CELLS), np.int32)
    far = np.empty((len(rows), _CELLS), np.float32)
    for start in range(0, len(rows), _BLOCK):
        cosines = vectors[rows[start : start + _BLOCK]] @ pivots.T
        for first in range(0, len(cosines), _SORTED):
            some = -cosines[first : first + _SORTED]
            place = slice(start + first, start + first + len(some))
            cells[place] = np.argpartition(some, _CELLS, axis=1)[:, :_CELLS]
            far[place] = np.take_along_axis(some, cells[place], axis=1)
    ends = np.cumsum(np.bincount(cells.ravel(), minlength=len(pivots)))
    order = np.lexsort((far.ravel(), cells.ravel()))
    order //= _CELLS
    return order.astype(np.int32), ends


# ---------------------------------------------------------------- deduplication


def _make_empty_pairs() -> _DirectedPairs:
    return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32)


def _keep_nearest(pairs: Sequence[_DirectedPairs], n: int, most: int) -> _DirectedPairs:
    """Keep the `most` nearest seconds of each first, without duplicates, with their highest cosine.

    The result is sorted by first, then by nearness. A pair that is dropped here could not be kept later
    either, however many pairs follow.
    """
    sifted = [_make_empty_pairs()]
    for start in range(0, n, _SIFTED):
        chosen = [(pair, (pair[0] >= start) & (pair[0] < start + _SIFTED)) for pair in pairs]
        first, second, cosines = (
            np.concatenate([block[each][inside] for block, inside in chosen]) for each in range(3)
        )
        sifted.append(_sift_pairs(first.astype(np.int64) * n + second, cosines, n, most))
    first, second, cosines = (np.concatenate([block[each] for block in sifted]) for each in range(3))
    return first, second, cosines


def _sift_pairs(pairs: Integers, cosines: Floats, n: int, most: int) -> _DirectedPairs:
    order = np.argsort(pairs)
    pairs, cosines = pairs[order], cosines[order]
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    first, second = (each.astype(np.int32) for each in divmod(pairs[starts], n))
    cosines = np.maximum.reduceat(cosines, starts) if len(starts) else cosines
    order = np.lexsort((-cosines, first))  # stable: ties stay in ascending order
    first, second, cosines = first[order], second[order], cosines[order]
    nearest = np.arange(len(first)) - np.searchsorted(first, first) < most
    return first[nearest], second[nearest], cosines[nearest]


def _merge_directions(rows: Integers, nearest: _DirectedPairs) -> SimilarPairs:
    """Merge both directions of each pair, keeping the cosine that the lesser row has."""
    first, second, cosines = nearest
    low, high = np.minimum(first, second), np.maximum(first, second)
    order = np.lexsort((high, low))
    low, high = low[order], high[order]
    fresh = np.ones(len(low), bool)
    fresh[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    return SimilarPairs(rows[low[fresh]], rows[high[fresh]], cosines[order[fresh]])
