"""Token vectors on disk, quantized to 8 bits with one scale per vector, and MaxSim over them.

A row of a file is one vector: `dimensions` int8 codes, and a little-endian float32 scale that multiplies
them. A file holds the averages of its records, then the vectors of each record. Files are never changed
after they are written. Both sides of a dot product are integers so small that float32 adds their products
without rounding. A score therefore depends only on its question and its record: not on the position of the
record, nor on other questions or records of the same search.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ragindex.errors import UsageError
from ragindex.index import versioned_files
from ragindex.interfaces import Floats
from ragindex.parts.records import Doubles, Integers

QuantizedRows: TypeAlias = npt.NDArray[np.uint8]
SCALE_BYTES = 4
_LARGEST_CODE = 127
_EXACT_LIMIT = 1 << 24
"""Integers up to this limit, and all sums below it, are exact in float32."""
_BLOCK = 1024
"""Vectors converted to float32 at once: as many as fit into the processor's caches."""
_FILE = "rows.npy"
_DATA_NAME = "token vectors"


# ---------------------------------------------------------------- compression


def compress(vectors: Floats) -> QuantizedRows:
    """Quantize vectors (n, dimensions) to rows of bytes (n, dimensions + 4).

    The error of each number is at most the largest absolute value in its vector / 254. Raises UsageError for
    NaN and infinity.
    """
    if not np.isfinite(vectors).all():
        raise UsageError("A token vector must be finite; got NaN or infinity. Look at the encoder that made it.")
    scales = (np.abs(vectors).max(axis=1, initial=0.0) / _LARGEST_CODE).astype("<f4")
    codes = np.rint(np.divide(vectors, scales[:, None], where=scales[:, None] > 0, out=np.zeros_like(vectors)))
    small = codes.clip(-_LARGEST_CODE, _LARGEST_CODE).astype(np.int8)
    return np.concatenate([small.view(np.uint8), scales.reshape(-1, 1).view(np.uint8)], axis=1)


def restore(rows: QuantizedRows) -> Floats:
    """Return the vectors (n, dimensions) that the rows encode, up to the quantization error."""
    codes, scales = _split_rows(rows)
    return codes * scales[:, None]


def average(rows: QuantizedRows) -> QuantizedRows:
    """Return the average of the vectors as one row, (1, dimensions + 4), scaled to length one."""
    mean = restore(rows).mean(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(mean))
    return compress((mean / length if length else mean).astype(np.float32)[None])


def _split_rows(rows: QuantizedRows) -> tuple[Floats, Floats]:
    """Split rows into codes as float32 (n, dimensions) and scales (n,)."""
    codes = rows[:, :-SCALE_BYTES].view(np.int8).astype(np.float32)
    scales: Floats = np.ascontiguousarray(rows[:, -SCALE_BYTES:]).view("<f4")[:, 0].astype(np.float32)
    return codes, scales


@dataclass(frozen=True, slots=True)
class QuestionTokens:
    """Token vectors of a question: integer `codes` as float32 (n, dimensions), and `scales` (n,) that multiply them."""

    codes: Floats
    scales: Doubles


def quantize_question(vectors: Floats) -> QuestionTokens:
    """Quantize the token vectors (n, dimensions) of a question, as finely as exact float32 sums allow.

    Raises UsageError for NaN and infinity.
    """
    if not np.isfinite(vectors).all():
        raise UsageError("A token vector must be finite; got NaN or infinity. Look at the encoder that made it.")
    root = math.sqrt(max(1, vectors.shape[1]))
    # the product with the longest possible record vector stays below _EXACT_LIMIT
    finest = math.floor(_EXACT_LIMIT / (_LARGEST_CODE * root) - root / 2)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    scales = lengths / finest
    codes = np.rint(np.divide(vectors, scales[:, None], where=scales[:, None] > 0, out=np.zeros(vectors.shape)))
    return QuestionTokens(codes.astype(np.float32), scales)


# ---------------------------------------------------------------- MaxSim


@dataclass(frozen=True, slots=True)
class RecordRows:
    """Location of the vectors of records: record i has `counts[i]` rows from `starts[i]` of file number `files[i]`."""

    files: Integers
    starts: Integers
    counts: Integers

    def take(self, rows: Integers) -> "RecordRows":
        """Return the locations of the records at the positions `rows`."""
        return RecordRows(self.files[rows], self.starts[rows], self.counts[rows])

    def __len__(self) -> int:
        return len(self.files)


def maxsim(files: Sequence[QuantizedRows], places: RecordRows, questions: Sequence[QuestionTokens]) -> Doubles:
    """Return the MaxSim scores, (records, questions).

    A score is the sum, over the tokens of the question, of the best dot product with a token of the record;
    it is minus infinity if the record or the question has no vectors. Source: Khattab and Zaharia, SIGIR
    2020.
    """
    scores = np.full((len(places), len(questions)), -np.inf)
    some = [number for number, question in enumerate(questions) if len(question.scales)]
    if not some:
        return scores
    codes = np.concatenate([questions[number].codes for number in some])
    scales = np.concatenate([questions[number].scales for number in some])
    ends = np.cumsum([len(questions[number].scales) for number in some])
    for block in _iterate_blocks(places):
        best = _find_best_products(_gather_rows(files, places.take(block)), places.counts[block], codes)
        sums = np.add.reduceat(best * scales[:, None], np.concatenate([[0], ends[:-1]]), axis=0)
        scores[np.ix_(block, np.array(some))] = sums.T
    return scores


def gather_averages(files: Sequence[QuantizedRows], places: RecordRows, averages: Integers) -> QuantizedRows:
    """Return the average of each record as rows (records, dimensions + 4); zeros for a record without vectors."""
    stored = np.flatnonzero(places.counts)
    stored = stored[np.argsort(places.files[stored], kind="stable")]
    width = max((file.shape[1] for file in files), default=SCALE_BYTES)
    rows = np.zeros((len(places), width), np.uint8)
    if len(stored):
        ones = np.ones(len(stored), np.int64)
        rows[stored] = _gather_rows(files, RecordRows(places.files[stored], averages[stored], ones))
    return rows


def _find_best_products(rows: QuantizedRows, counts: Integers, codes: Floats) -> Doubles:
    """Return the best product of each question token with a row of each record, (question tokens, records)."""
    quantized, scales = _split_rows(rows)
    products = codes @ quantized.T
    products *= scales
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.maximum.reduceat(products, starts, axis=1).astype(np.float64)


def _iterate_blocks(places: RecordRows) -> Iterator[Integers]:
    """Yield the records that have vectors, in file order, in blocks of about _BLOCK vectors."""
    order = np.lexsort((places.starts, places.files))
    order = order[places.counts[order] > 0]
    which = np.cumsum(places.counts[order]) // _BLOCK
    for block in np.split(order, np.flatnonzero(np.diff(which)) + 1):
        if len(block):
            yield block


def _gather_rows(files: Sequence[QuantizedRows], places: RecordRows) -> QuantizedRows:
    ends = np.cumsum(places.counts)
    rows = np.repeat(places.starts - ends + places.counts, places.counts) + np.arange(ends[-1])
    runs = np.flatnonzero(np.diff(places.files)) + 1  # blocks are in file order
    pieces = zip(places.files[[0, *runs]].tolist(), np.split(rows, ends[runs - 1]), strict=True)
    return np.concatenate([files[file][chosen] for file, chosen in pieces])


# ---------------------------------------------------------------- files


def save_rows(folder: Path, pieces: Iterable[QuantizedRows], counts: Integers, dimensions: int) -> str:
    """Write the rows of records to a folder named by a hash of its content; return that name.

    Each piece holds the rows of one record, as many as `counts` says. Row i of the file is the average of
    piece i; the pieces follow, one after the other. Raises StoreError.
    """

    def write(partial: Path) -> None:
        shape = (len(counts) + int(counts.sum()), dimensions + SCALE_BYTES)
        mapped: Any = np.lib.format.open_memmap(partial / _FILE, mode="w+", dtype=np.uint8, shape=shape)
        at = len(counts)
        for number, piece in enumerate(pieces):
            mapped[number] = average(piece)
            mapped[at : at + len(piece)] = piece
            at += len(piece)
        mapped.flush()

    return versioned_files.save_version(_DATA_NAME, folder, write)


def load_rows(folder: Path) -> QuantizedRows:
    """Open the rows in a folder, memory-mapped. Raises StoreError."""
    with versioned_files.open_files(_DATA_NAME, folder):
        rows = versioned_files.read_numbers(folder / _FILE)
        if rows.ndim != 2 or rows.dtype != np.uint8:
            raise ValueError(f"rows of bytes expected, {rows.dtype} of {rows.ndim} dimensions found")
    return rows
