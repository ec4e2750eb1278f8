"""Look-up of strings in a large Arrow array, without a Python object for each of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_BLOCK = 100_000


@dataclass(frozen=True, slots=True)
class StringLookup:
    """Distinct strings, and their hashes in ascending order; `places[i]` is the place of the string of `hashes[i]`.

    A dict of three million names takes half a gigabyte; this takes 16 bytes each beside the strings. Hashes are
    those of this process.
    """

    strings: pa.Array
    hashes: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]

    def find(self, wanted: Sequence[str]) -> list[int]:
        """Return the places of those of `wanted` that exist, ascending."""
        if not len(self.hashes):
            return []
        asked = np.fromiter(map(hash, wanted), np.int64, len(wanted))
        first = np.searchsorted(self.hashes, asked)
        known = np.flatnonzero(self.hashes[np.minimum(first, len(self.hashes) - 1)] == asked)
        found = (self._find_one(wanted[number], int(first[number])) for number in known.tolist())
        return sorted({place for place in found if place is not None})

    def _find_one(self, wanted: str, first: int) -> int | None:
        """Return the place of a string whose hash is at `first`; other strings may have the same hash."""
        for at in range(first, len(self.hashes)):
            if self.hashes[at] != self.hashes[first]:
                return None
            place = int(self.places[at])
            if self.strings[place].as_py() == wanted:
                return place
        return None


def build_string_lookup(strings: pa.Array) -> StringLookup:
    """Build the look-up of an array of distinct strings."""
    hashes = np.empty(len(strings), np.int64)
    for start in range(0, len(strings), _BLOCK):
        block = strings.slice(start, _BLOCK).to_pylist()
        hashes[start : start + len(block)] = np.fromiter(map(hash, block), np.int64, len(block))
    places = np.argsort(hashes, kind="stable")
    return StringLookup(strings, hashes[places], places)
