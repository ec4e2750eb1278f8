"""Token vectors on disk: whole numbers of 8 bits with a scale each, in files that are never changed; MaxSim over them.

A row of a file is one vector: `dimensions` int8 and one little-endian float32, by which they are multiplied. Both
sides of a dot product are whole numbers so small that float32 adds them without rounding. So a score depends on nothing
but its question and its record: not on where the record stands, nor on what is asked or searched beside it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ragindex.errors import UsageError
from ragindex.interfaces import Floats
from ragindex.parts.support.arrays import Doubles, Integers
from ragindex.workspace import versioned_files

QuantizedRows: TypeAlias = npt.NDArray[np.uint8]
SCALE_BYTES = 4
_LARGEST = 127
_EXACT = 1 << 24
"""Whole numbers up to here, and so all sums that stay below, are exact in float32."""
_BLOCK = 8192
"""Vectors that are widened to float32 at once: what the processor's caches hold."""
_FILE = "rows.npy"
_WHAT = "token vectors"


# ---------------------------------------------------------------- compression


def compress(vectors: Floats) -> QuantizedRows:
    """(n, dimensions) as (n, dimensions + 4) bytes. Each number is off by at most its vector's largest / 254.

    Raises UsageError for NaN and infinity.
    """
    if not np.isfinite(vectors).all():
        raise UsageError("A token vector must be finite; got NaN or infinity. Look at the encoder that made it.")
    scales = (np.abs(vectors).max(axis=1, initial=0.0) / _LARGEST).astype("<f4")
    codes = np.rint(np.divide(vectors, scales[:, None], where=scales[:, None] > 0, out=np.zeros_like(vectors)))
    small = codes.clip(-_LARGEST, _LARGEST).astype(np.int8)
    return np.concatenate([small.view(np.uint8), scales.reshape(-1, 1).view(np.uint8)], axis=1)


def restore(rows: QuantizedRows) -> Floats:
    """The vectors again, (n, dimensions), as near as the compression keeps them."""
    codes, scales = _parts(rows)
    return codes * scales[:, None]


def _parts(rows: QuantizedRows) -> tuple[Floats, Floats]:
    """Whole numbers as float32 (n, dimensions), and scales (n,)."""
    codes = rows[:, :-SCALE_BYTES].view(np.int8).astype(np.float32)
    scales: Floats = np.ascontiguousarray(rows[:, -SCALE_BYTES:]).view("<f4")[:, 0].astype(np.float32)
    return codes, scales


@dataclass(frozen=True, slots=True)
class QuestionTokens:
    """A question's token vectors: `codes` (n, dimensions), whole numbers as float32; `scales` (n,) multiply them."""

    codes: Floats
    scales: Doubles


def quantize_question(vectors: Floats) -> QuestionTokens:
    """A question's token vectors, (n, dimensions), as fine as exact sums allow. Raises UsageError unless finite."""
    if not np.isfinite(vectors).all():
        raise UsageError("A token vector must be finite; got NaN or infinity. Look at the encoder that made it.")
    root = math.sqrt(max(1, vectors.shape[1]))
    finest = math.floor(_EXACT / (_LARGEST * root) - root / 2)  # times the longest record's vector, below _EXACT
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    scales = lengths / finest
    codes = np.rint(np.divide(vectors, scales[:, None], where=scales[:, None] > 0, out=np.zeros(vectors.shape)))
    return QuestionTokens(codes.astype(np.float32), scales)


# ---------------------------------------------------------------- MaxSim


@dataclass(frozen=True, slots=True)
class RecordRows:
    """Where the vectors of records lie: `counts[i]` rows from `starts[i]` of the file number `files[i]`."""

    files: Integers
    starts: Integers
    counts: Integers

    def take(self, rows: Integers) -> "RecordRows":
        """Those of some records."""
        return RecordRows(self.files[rows], self.starts[rows], self.counts[rows])

    def __len__(self) -> int:
        return len(self.files)


def maxsim(files: Sequence[QuantizedRows], places: RecordRows, questions: Sequence[QuestionTokens]) -> Doubles:
    """(records, questions): the sum over a question's tokens of the best dot product with a token of the record.

    Minus infinity for records and questions without vectors. Source: Khattab and Zaharia, SIGIR 2020.
    """
    scores = np.full((len(places), len(questions)), -np.inf)
    some = [number for number, question in enumerate(questions) if len(question.scales)]
    if not some:
        return scores
    codes = np.concatenate([questions[number].codes for number in some])
    scales = np.concatenate([questions[number].scales for number in some])
    ends = np.cumsum([len(questions[number].scales) for number in some])
    for block in _blocks(places):
        best = _best(_gathered(files, places.take(block)), places.counts[block], codes)
        sums = np.add.reduceat(best * scales[:, None], np.concatenate([[0], ends[:-1]]), axis=0)
        scores[np.ix_(block, np.array(some))] = sums.T
    return scores


def _best(rows: QuantizedRows, counts: Integers, codes: Floats) -> Doubles:
    """(question tokens, records): of each record's rows the greatest product."""
    held, scales = _parts(rows)
    products = codes @ held.T
    products *= scales
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.maximum.reduceat(products, starts, axis=1).astype(np.float64)


def _blocks(places: RecordRows) -> Iterator[Integers]:
    """The records with vectors, in the order of the files, so many at once that their vectors are about a block."""
    order = np.lexsort((places.starts, places.files))
    order = order[places.counts[order] > 0]
    which = np.cumsum(places.counts[order]) // _BLOCK
    for block in np.split(order, np.flatnonzero(np.diff(which)) + 1):
        if len(block):
            yield block


def _gathered(files: Sequence[QuantizedRows], places: RecordRows) -> QuantizedRows:
    pieces = zip(places.files.tolist(), places.starts.tolist(), places.counts.tolist(), strict=True)
    return np.concatenate([files[file][start : start + count] for file, start, count in pieces])


# ---------------------------------------------------------------- files


def save_rows(folder: Path, pieces: Iterable[QuantizedRows], rows: int, dimensions: int) -> str:
    """Write `pieces`, of `rows` rows in all, to a folder named by what it holds; that name. Raises StoreError."""

    def write(partial: Path) -> None:
        shape = (rows, dimensions + SCALE_BYTES)
        mapped: Any = np.lib.format.open_memmap(partial / _FILE, mode="w+", dtype=np.uint8, shape=shape)
        at = 0
        for piece in pieces:
            mapped[at : at + len(piece)] = piece
            at += len(piece)
        mapped.flush()

    return versioned_files.save_version(_WHAT, folder, write)


def load_rows(folder: Path) -> QuantizedRows:
    """What is in a folder, memory-mapped. Raises StoreError."""
    with versioned_files.open_files(_WHAT, folder):
        return versioned_files.read_numbers(folder / _FILE)
