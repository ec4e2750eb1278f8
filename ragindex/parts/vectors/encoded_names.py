"""Distinct names and their vectors: one record per name, for parts that are rebuilt as a whole."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragindex._util.progress import progress_bar
from ragindex.interfaces import BuildContext, Floats, Schema
from ragindex.parts.records import large_text

_BLOCK = 8192
Codes: TypeAlias = npt.NDArray[np.int32]


@dataclass(slots=True)
class Coder:
    """Dictionary encoding of text columns: the distinct texts, and an integer code per row.

    A distinct text is held about twice at most. The columns themselves are not held, because a column keeps
    all others of its batch in memory.
    """

    _texts: pa.Array = field(default_factory=lambda: pa.array([], pa.large_string()))
    _codes: list[Codes] = field(default_factory=list)
    _waiting: list[Any] = field(default_factory=list)

    def add(self, column: pa.Array) -> None:
        """Add a column."""
        self._waiting.append(column.cast(pa.large_string()).dictionary_encode())
        if sum(len(waiting.dictionary) for waiting in self._waiting) >= max(_BLOCK, len(self._texts)):
            self._join()

    def coded(self) -> tuple[pa.Array, list[Codes]]:
        """Return the distinct texts in order of first occurrence, and each column as positions among them."""
        self._join()
        return self._texts, self._codes

    def among(self, known: pa.Array) -> Codes:
        """Return the position in `known` of the text of every row, -1 if it is missing."""
        texts, codes = self.coded()
        return translate_codes(among(texts, known), codes)

    def _join(self) -> None:
        """Merge the waiting columns. Texts that are already held come first, so they keep their codes."""
        joined = large_text([self._texts, *(array.dictionary for array in self._waiting)]).dictionary_encode()
        places, at = joined.indices.to_numpy(), len(self._texts)
        for array in self._waiting:
            self._codes.append(places[at + array.indices.to_numpy()])
            at += len(array.dictionary)
        self._texts, self._waiting = joined.dictionary, []


def among(texts: pa.Array, known: pa.Array) -> Codes:
    """Return the position of each text in `known`, -1 if it is missing."""
    places: Codes = pc.index_in(texts, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
    return places


def translate_codes(places: Codes, codes: Sequence[Codes]) -> Codes:
    """Return `places[code]` for the codes of several columns, concatenated."""
    return np.concatenate([places[:0], *(places[some] for some in codes)])


def find_distinct(columns: Iterable[pa.Array]) -> pa.Array:
    """Return the distinct texts of columns, sorted by their UTF-8 bytes, which is also the order of Python's str."""
    coder = Coder()
    for column in columns:
        coder.add(column.unique())
    distinct, _ = coder.coded()
    return distinct.take(pc.sort_indices(distinct))


def store_name_vectors(
    names: pa.Array, context: BuildContext, collection: str, part: str, into: Floats | None = None
) -> None:
    """Update a collection to hold exactly the distinct `names`, each as an id with its document vector.

    All names are sent to the encoder, so that the recorded cost of the part includes each name once; most
    vectors come from the encoder's cache. Only new names are written. A name without a vector is reported as failed
    and has no record; its row in `into` is zero. `into` (names, dimensions), if given,
    receives the vectors too. `part` labels the progress bar.
    """
    vectors = context.collection(collection, Schema(dimensions=context.encoder.dimensions))
    stored = large_text(batch.column("id") for batch in vectors.scan(()))
    fresh = pc.invert(pc.is_in(names, value_set=stored))
    with progress_bar(f"{part}: encoding {collection}", len(names)) as advance:
        for start in range(0, len(names), _BLOCK):
            block = names.slice(start, _BLOCK)
            rows, failures = context.encoder.encode_each(block.to_pylist())
            if into is not None:
                into[start : start + len(rows)] = rows
            new = fresh.slice(start, _BLOCK).to_numpy(zero_copy_only=False)
            for row, failure in failures.items():
                context.failed(block[row].as_py(), failure.reason)
                new[row] = False
            if new.any():
                vectors.upsert(_build_records(block.filter(pa.array(new)), rows[new]))
            advance(len(rows))
    vectors.delete(sorted(stored.filter(pc.invert(pc.is_in(stored, value_set=names))).to_pylist()))


def _build_records(names: pa.Array, rows: Floats) -> pa.RecordBatch:
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    return pa.RecordBatch.from_arrays([names.cast(pa.string()), column], names=["id", "vector"])
