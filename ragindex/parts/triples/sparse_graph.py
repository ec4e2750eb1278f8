"""The triples that share an entity or a passage, as sparse rows on disk: one row of triples per entity and per passage.

The neighbours of a triple are the union of two rows. A hub is therefore stored once, and nothing grows with
the number of pairs. Triples, entities and passages are referred to by their places among the sorted ids and
keys, which are small integers.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.index import versioned_files
from ragindex.parts.records import large_text

AnyIntegers: TypeAlias = npt.NDArray[np.integer[Any]]
_ROWS = ("entities", "passages")
_NUMBERS = ("sides", "owners")
_DATA_NAME = "triple graph"
NONE = -1
"""The place of a text that is not in the column."""


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Sparse rows: `members[starts[i] : starts[i + 1]]` are the places of the triples of `keys[i]`, ascending."""

    keys: pa.Array
    starts: AnyIntegers
    members: AnyIntegers

    def of(self, place: int, limit: int | None = None) -> AnyIntegers:
        """Return the first `limit` triples of the key at `place`; none for NONE."""
        if place == NONE:
            return self.members[:0]
        return self.members[self.starts[place] : self.starts[place + 1]][:limit]


@dataclass(frozen=True, slots=True)
class SparseGraph:
    """The graph of triples: `triples` (n ids) and the keys of the rows are sorted, all other arrays hold places.

    `sides` (n, 2) are the subject and object of each triple, NONE if that is not a node; `owners` (n,) are
    the passages. The arrays are read from memory-mapped files. Thread-safe.
    """

    triples: pa.Array
    sides: AnyIntegers
    owners: AnyIntegers
    entities: Adjacency
    passages: Adjacency

    def neighbours(self, triple_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """Return for each triple the ids of the other triples that share its subject or object, in either role.

        The ids are sorted and cut to the first `limit`. A triple that is not in the graph has none.
        """
        return [self.ids(self.around(place, limit)) for place in places(self.triples, triple_ids).tolist()]

    def of_entities(self, keys: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """Return the ids of the triples of each entity, sorted, the first `limit`; `Triples.key` makes the keys."""
        return [self.ids(self.entities.of(place, limit)) for place in places(self.entities.keys, keys).tolist()]

    def of_passages(self, passage_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """Return the ids of the triples of each passage, sorted, the first `limit`."""
        return [self.ids(self.passages.of(place, limit)) for place in places(self.passages.keys, passage_ids).tolist()]

    def joining(self, triple_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return by id the keys of the entities that join each triple with others; unknown triples are left out."""
        pairs = zip(triple_ids, places(self.triples, triple_ids).tolist(), strict=True)
        return {id: self._keys(self.sides[place]) for id, place in pairs if place != NONE}

    def _keys(self, sides: AnyIntegers) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.entities.keys[int(side)].as_py() for side in sides if side != NONE))

    def around(self, place: int, limit: int | None = None) -> AnyIntegers:
        """Return the places of the neighbours of the triple at `place`, ascending, the first `limit`."""
        if place == NONE:
            return np.empty(0, np.int32)
        longest = None if limit is None else limit + 1  # the triple itself may be among the first ones
        subject, object = (self.entities.of(int(side), longest) for side in self.sides[place])
        both: AnyIntegers = np.union1d(subject, object)
        neighbours: AnyIntegers = both[both != place][:limit]
        return neighbours

    def ids(self, triples: AnyIntegers) -> list[str]:
        """Return the ids of the triples at these places."""
        ids: list[str] = self.triples.take(pa.array(triples)).to_pylist()
        return ids


def places(column: pa.Array, texts: Sequence[str]) -> AnyIntegers:
    """Return the place of each text in a sorted column, NONE if it is missing.

    The search is a bisection, so only the texts that are compared are read from disk.
    """
    found_places = np.full(len(texts), NONE, np.int64)
    for number, text in enumerate(texts):
        place = bisect_left(range(len(column)), text, key=lambda row: column[row].as_py())
        if place < len(column) and column[place].as_py() == text:
            found_places[number] = place
    return found_places


# ---------------------------------------------------------------- building


def sparse_graph(triples: pa.Table, nodes: pa.Array | None = None) -> SparseGraph:
    """Build the graph from a table with the text columns id, subject_key, object_key and passage_id, in O(n log n).

    `nodes` are the keys that join triples; by default, all keys do.
    """
    triples = triples.take(pc.sort_indices(triples.column("id")))
    n = len(triples)
    ends = pa.concat_arrays([large_text(triples.column(name).chunks) for name in ("subject_key", "object_key")])
    keys, codes = _encode_texts(ends, None if nodes is None else nodes.cast(pa.large_string()))
    sides = np.ascontiguousarray(codes.reshape(2, n).T)
    twice = sides[:, 0] == sides[:, 1]
    triple = np.tile(np.arange(n, dtype=np.int32), 2)
    counted = (codes != NONE) & ~np.concatenate([np.zeros(n, bool), twice])
    passages, owners = _encode_texts(large_text(triples.column("passage_id").chunks), None)
    return SparseGraph(
        large_text(triples.column("id").chunks),
        sides,
        owners,
        _build_rows(keys, codes[counted], triple[counted]),
        _build_rows(passages, owners, np.arange(n, dtype=np.int32)),
    )


def _encode_texts(texts: pa.Array, selected: pa.Array | None) -> tuple[pa.Array, AnyIntegers]:
    """Return the distinct texts, sorted, and the place of each text among them, NONE for texts not in `selected`."""
    encoded = texts.dictionary_encode()
    among = encoded.dictionary
    included = (
        np.ones(len(among), bool) if selected is None else pc.is_in(among, selected).to_numpy(zero_copy_only=False)
    )
    order = pc.sort_indices(among).to_numpy()
    order = order[included[order]]
    place = np.full(len(among), NONE, np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return among.take(pa.array(order)), place[encoded.indices.to_numpy()]


def _build_rows(keys: pa.Array, key: AnyIntegers, triple: AnyIntegers) -> Adjacency:
    members = triple[np.lexsort((triple, key))]
    starts = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=len(keys)))])
    return Adjacency(keys, starts, members)


# ---------------------------------------------------------------- on disk


def save_graph(graph: SparseGraph, folder: Path) -> str:
    """Write the graph to a new folder in `folder`, named by a hash of its content; return the name.

    Raises StoreError.
    """
    return versioned_files.save_version(_DATA_NAME, folder, lambda partial: _write(graph, partial))


def load_graph(folder: Path) -> SparseGraph:
    """Open the graph in `folder`, memory-mapped. Raises StoreError."""
    with versioned_files.open_files(_DATA_NAME, folder):
        triples = versioned_files.read_texts(folder / "triples.arrow")
        entities, passages = (_read_rows(folder, name, len(triples)) for name in _ROWS)
        sides = versioned_files.read_places(folder / "sides.npy", (len(triples), 2), len(entities.keys), NONE)
        owners = versioned_files.read_places(folder / "owners.npy", (len(triples),), len(passages.keys))
    return SparseGraph(triples, sides, owners, entities, passages)


def _write(graph: SparseGraph, folder: Path) -> None:
    versioned_files.write_texts(folder / "triples.arrow", graph.triples)
    for name in _NUMBERS:
        versioned_files.write_numbers(folder / f"{name}.npy", getattr(graph, name))
    for name in _ROWS:
        rows: Adjacency = getattr(graph, name)
        versioned_files.write_texts(folder / f"{name}.arrow", rows.keys)
        versioned_files.write_numbers(folder / f"{name}.starts.npy", rows.starts)
        versioned_files.write_numbers(folder / f"{name}.members.npy", rows.members)


def _read_rows(folder: Path, name: str, triples: int) -> Adjacency:
    keys = versioned_files.read_texts(folder / f"{name}.arrow")
    members = versioned_files.read_places(folder / f"{name}.members.npy", (-1,), triples)
    starts = versioned_files.read_starts(folder / f"{name}.starts.npy", len(keys), len(members))
    return Adjacency(keys, starts, members)
