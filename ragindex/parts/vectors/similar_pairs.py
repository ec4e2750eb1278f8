"""Pairs of vectors with a high cosine, found by comparing within cells: never all with all.

Vectors fall into the cells of the pivots nearest to them, several each, and are compared with those of the same cell.
A cell is cut where it grows beyond a bound, so the work grows with n to the power of 1.5 at most, and linearly where
all vectors are alike. The vectors may lie in a file: held in memory are the pivots, one cell, and integers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ragindex.interfaces import Floats
from ragindex.parts.support.arrays import Integers

_PIVOTS = 2.0
"""Pivots for each square root of n."""
_CELLS = 6
"""Cells that a vector belongs to."""
_LARGEST = 2048
"""Vectors compared at once; so many or fewer are compared with one another exactly."""
_BLOCK = 4096
"""Vectors compared with the pivots at once."""
_SORTED = 256
"""Of these, vectors whose nearest pivots are looked for at once: that takes more room than the cosines."""
_WAITING = 1 << 20
"""Pairs found that wait until each is kept once; half as many as are kept, where that is more."""
_SIFTED = 1 << 14
"""Rows whose pairs are brought into order at once."""

_Numbers: TypeAlias = npt.NDArray[np.int32]
_Found: TypeAlias = tuple[_Numbers, _Numbers, Floats]


@dataclass(frozen=True, slots=True)
class SimilarPairs:
    """Unordered pairs of rows, `first` < `second`, sorted, each once, with their cosines."""

    first: Integers
    second: Integers
    cosines: Floats


def near_pairs(vectors: Floats, least: float, most: int, seed: int) -> SimilarPairs:
    """Pairs of rows (of length one) with a cosine of at least `least`, one among the `most` nearest of the other.

    Zero rows are near nothing. Up to 2,048 rows the answer is exact; beyond, a pair is missed when its vectors share
    none of six cells. There are at most n * `most` pairs. The same vectors and seed give the same pairs, whether they
    are held in memory or mapped from a file, which is then read in blocks and, once a cell, row by row.
    """
    vectors = np.asarray(vectors)
    rows = np.flatnonzero(vectors.any(axis=1))
    nearest, waiting, count = _none(), list[_Found](), 0
    for found in _compared(vectors, rows, least, most, seed):
        waiting.append(found)
        count += len(found[0])
        if 2 * count >= max(2 * _WAITING, len(nearest[0])):
            nearest, waiting, count = _nearest([nearest, *waiting], len(rows), most), [], 0
    nearest, waiting = _nearest([nearest, *waiting], len(rows), most), []  # what waited is held no longer
    return _unordered(rows, nearest)


def _compared(vectors: Floats, rows: Integers, least: float, most: int, seed: int) -> Iterator[_Found]:
    """Pairs of places among `rows`, in both directions, those of several cells several times."""
    for cell in _cells(vectors, rows, seed):
        held = vectors[rows[cell]]
        cosines = held @ held.T
        np.fill_diagonal(cosines, -1)
        kept = cosines >= least
        crowded = np.flatnonzero(kept.sum(axis=1) > most)
        if len(crowded):
            kept[crowded[:, None], np.argpartition(-cosines[crowded], most, axis=1)[:, most:]] = False
        first, second = np.nonzero(kept)
        yield cell[first], cell[second], cosines[first, second]


def _cells(vectors: Floats, rows: Integers, seed: int) -> Iterator[_Numbers]:
    """Places among `rows` that are compared with one another; of too large a cell, those as near to its pivot."""
    n = len(rows)
    if n <= _LARGEST:
        yield np.arange(n, dtype=np.int32)
        return
    chosen = np.sort(np.random.default_rng(seed).choice(n, int(_PIVOTS * n**0.5), replace=False))
    members, ends = _members(vectors, rows, vectors[rows[chosen]])
    for start, end in pairwise([0, *ends.tolist()]):
        for first in range(start, end, _LARGEST):
            yield members[first : min(end, first + _LARGEST)]


def _members(vectors: Floats, rows: Integers, pivots: Floats) -> tuple[_Numbers, Integers]:
    """The places of all cells one after the other, the nearest to a cell's pivot first, and where each cell ends."""
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


# ---------------------------------------------------------------- each pair once


def _none() -> _Found:
    return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32)


def _nearest(found: Sequence[_Found], n: int, most: int) -> _Found:
    """Of each first the `most` nearest seconds, each once with its highest cosine; by first, the nearest first.

    Of what is left out nothing would be kept however many more pairs came.
    """
    sifted = [_none()]
    for start in range(0, n, _SIFTED):
        chosen = [(one, (one[0] >= start) & (one[0] < start + _SIFTED)) for one in found]
        first, second, cosines = (np.concatenate([one[each][kept] for one, kept in chosen]) for each in range(3))
        sifted.append(_sifted(first.astype(np.int64) * n + second, cosines, n, most))
    first, second, cosines = (np.concatenate([one[each] for one in sifted]) for each in range(3))
    return first, second, cosines


def _sifted(pairs: Integers, cosines: Floats, n: int, most: int) -> _Found:
    order = np.argsort(pairs)
    pairs, cosines = pairs[order], cosines[order]
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    first, second = (each.astype(np.int32) for each in divmod(pairs[starts], n))
    cosines = np.maximum.reduceat(cosines, starts) if len(starts) else cosines
    order = np.lexsort((-cosines, first))  # of equally near ones the least comes first, as it does before
    first, second, cosines = first[order], second[order], cosines[order]
    kept = np.arange(len(first)) - np.searchsorted(first, first) < most
    return first[kept], second[kept], cosines[kept]


def _unordered(rows: Integers, nearest: _Found) -> SimilarPairs:
    """Each pair once, of both directions that of the lesser row."""
    first, second, cosines = nearest
    low, high = np.minimum(first, second), np.maximum(first, second)
    order = np.lexsort((high, low))
    low, high = low[order], high[order]
    fresh = np.ones(len(low), bool)
    fresh[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    return SimilarPairs(rows[low[fresh]], rows[high[fresh]], cosines[order[fresh]])
