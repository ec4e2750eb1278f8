"""Distinct names and their vectors: one record a name, kept up to date by a part that is made whole."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.interfaces import BuildContext, Floats, Schema
from ragindex.parts.support.columns import large_text
from ragindex.progress import progress_bar

_BLOCK = 8192
Codes: TypeAlias = npt.NDArray[np.int32]


@dataclass(slots=True)
class Coder:
    """Columns of texts as integers: held are the distinct texts, each about twice at most, and an integer a row.

    Nothing of a column is held itself: with it, all others of its batch would be.
    """

    _texts: pa.Array = field(default_factory=lambda: pa.array([], pa.large_string()))
    _codes: list[Codes] = field(default_factory=list)
    _waiting: list[Any] = field(default_factory=list)

    def add(self, column: pa.Array) -> None:
        """One more column."""
        self._waiting.append(column.cast(pa.large_string()).dictionary_encode())
        if sum(len(one.dictionary) for one in self._waiting) >= max(_BLOCK, len(self._texts)):
            self._join()

    def coded(self) -> tuple[pa.Array, list[Codes]]:
        """The distinct texts in the order they came, and for each column the places of its texts among them."""
        self._join()
        return self._texts, self._codes

    def among(self, known: pa.Array) -> Codes:
        """The place of every row's text among those known, -1 for none."""
        texts, codes = self.coded()
        return translate_codes(among(texts, known), codes)

    def _join(self) -> None:
        """Texts that are held keep their places, for they come first."""
        joined = large_text([self._texts, *(one.dictionary for one in self._waiting)]).dictionary_encode()
        places, at = joined.indices.to_numpy(), len(self._texts)
        for one in self._waiting:
            self._codes.append(places[at + one.indices.to_numpy()])
            at += len(one.dictionary)
        self._texts, self._waiting = joined.dictionary, []


def among(texts: pa.Array, known: pa.Array) -> Codes:
    """The place of each text among those known, -1 for none."""
    places: Codes = pc.index_in(texts, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
    return places


def translate_codes(places: Codes, codes: Sequence[Codes]) -> Codes:
    """What `places` has for each code of several columns, one after the other."""
    return np.concatenate([places[:0], *(places[some] for some in codes)])


def find_distinct(columns: Iterable[pa.Array]) -> pa.Array:
    """The distinct texts of columns in the order of their UTF-8, which is that of Python's texts too."""
    coder = Coder()
    for column in columns:
        coder.add(column.unique())
    found, _ = coder.coded()
    return found.take(pc.sort_indices(found))


def store_name_vectors(
    names: pa.Array, context: BuildContext, collection: str, part: str, into: Floats | None = None
) -> None:
    """Make a collection hold exactly the distinct `names`, by id, each with its vector as a document.

    All are asked of the encoder, whose cache has most: so what the part cost is that of each name, once. Only those
    that are new are written. `into` (names, dimensions), where given, takes the vectors too. `part` is for the progress
    bar.
    """
    vectors = context.collection(collection, Schema(dimensions=context.encoder.dimensions))
    held = large_text(batch.column("id") for batch in vectors.scan(()))
    fresh = pc.invert(pc.is_in(names, value_set=held))
    with progress_bar(f"{part}: encoding {collection}", len(names)) as advance:
        for start in range(0, len(names), _BLOCK):
            block = names.slice(start, _BLOCK)
            rows = context.encoder.encode_documents(block.to_pylist())
            if into is not None:
                into[start : start + len(rows)] = rows
            new = fresh.slice(start, _BLOCK)
            if new.true_count:
                vectors.upsert(_records(block.filter(new), rows[new.to_numpy(zero_copy_only=False)]))
            advance(len(rows))
    vectors.delete(sorted(held.filter(pc.invert(pc.is_in(held, value_set=names))).to_pylist()))


def _records(names: pa.Array, rows: Floats) -> pa.RecordBatch:
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    return pa.RecordBatch.from_arrays([names.cast(pa.string()), column], names=["id", "vector"])
