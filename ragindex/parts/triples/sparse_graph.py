"""Which triples share an entity or a passage, as sparse rows on disk: one row an entity, or a passage, of its triples.

A triple's neighbours are the union of two rows. So a hub costs its own length once, and nothing grows with the number
of pairs. Triples, entities and passages go by their places among the sorted ids and keys: small integers.
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

from ragindex.parts.support.columns import large_text
from ragindex.workspace import versioned_files

AnyIntegers: TypeAlias = npt.NDArray[np.integer[Any]]
_ROWS = ("entities", "passages")
_NUMBERS = ("sides", "owners")
_WHAT = "triple graph"
NONE = -1
"""The place of what is not there."""


@dataclass(frozen=True, slots=True)
class Adjacency:
    """`members[starts[i] : starts[i + 1]]` are the places of the triples with `keys[i]`, ascending, each once."""

    keys: pa.Array
    starts: AnyIntegers
    members: AnyIntegers

    def of(self, place: int, limit: int | None = None) -> AnyIntegers:
        """The first `limit` triples of one key; none for NONE."""
        if place == NONE:
            return self.members[:0]
        return self.members[self.starts[place] : self.starts[place + 1]][:limit]


@dataclass(frozen=True, slots=True)
class SparseGraph:
    """`triples` (n ids) and the keys of the rows are sorted; all else are their places.

    `sides` (n, 2) are the subject and object of each triple, NONE where that is no node; `owners` (n,) its passage.
    Read from memory-mapped files. Thread-safe.
    """

    triples: pa.Array
    sides: AnyIntegers
    owners: AnyIntegers
    entities: Adjacency
    passages: Adjacency

    def neighbours(self, triple_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """For each triple the ids of those that share its subject or object in either role, itself left out.

        Sorted by id, the first `limit`. A triple that is not in the graph has none.
        """
        return [self.ids(self.around(place, limit)) for place in places(self.triples, triple_ids).tolist()]

    def of_entities(self, keys: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """For each key, as `Triples.key` makes it, the ids of the triples with it: sorted, the first `limit`."""
        return [self.ids(self.entities.of(place, limit)) for place in places(self.entities.keys, keys).tolist()]

    def of_passages(self, passage_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """For each passage the ids of its triples: sorted, the first `limit`."""
        return [self.ids(self.passages.of(place, limit)) for place in places(self.passages.keys, passage_ids).tolist()]

    def joining(self, triple_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """By id, the keys of the entities that join a triple with others; only of triples that are there."""
        found = zip(triple_ids, places(self.triples, triple_ids).tolist(), strict=True)
        return {id: self._keys(self.sides[place]) for id, place in found if place != NONE}

    def _keys(self, sides: AnyIntegers) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.entities.keys[int(side)].as_py() for side in sides if side != NONE))

    def around(self, place: int, limit: int | None = None) -> AnyIntegers:
        """The places of the neighbours of the triple at `place`, ascending, the first `limit`."""
        if place == NONE:
            return np.empty(0, np.int32)
        longest = None if limit is None else limit + 1  # itself may be among the first
        subject, object = (self.entities.of(int(side), longest) for side in self.sides[place])
        both: AnyIntegers = np.union1d(subject, object)
        found: AnyIntegers = both[both != place][:limit]
        return found

    def ids(self, triples: AnyIntegers) -> list[str]:
        """The ids at these places."""
        ids: list[str] = self.triples.take(pa.array(triples)).to_pylist()
        return ids


def places(column: pa.Array, texts: Sequence[str]) -> AnyIntegers:
    """Where each text stands in a sorted column, else NONE; by bisection: nothing is read but what is compared."""
    found = np.full(len(texts), NONE, np.int64)
    for number, text in enumerate(texts):
        place = bisect_left(range(len(column)), text, key=lambda row: column[row].as_py())
        if place < len(column) and column[place].as_py() == text:
            found[number] = place
    return found


# ---------------------------------------------------------------- building


def sparse_graph(triples: pa.Table, nodes: pa.Array | None = None) -> SparseGraph:
    """The graph of a table with the columns id, subject_key, object_key, passage_id (texts); n log n in their number.

    `nodes` are the keys by which triples are joined; without it, all are.
    """
    triples = triples.take(pc.sort_indices(triples.column("id")))
    n = len(triples)
    ends = pa.concat_arrays([large_text(triples.column(name).chunks) for name in ("subject_key", "object_key")])
    keys, codes = _coded(ends, None if nodes is None else nodes.cast(pa.large_string()))
    sides = np.ascontiguousarray(codes.reshape(2, n).T)
    twice = sides[:, 0] == sides[:, 1]
    triple = np.tile(np.arange(n, dtype=np.int32), 2)
    counted = (codes != NONE) & ~np.concatenate([np.zeros(n, bool), twice])
    passages, owners = _coded(large_text(triples.column("passage_id").chunks), None)
    return SparseGraph(
        large_text(triples.column("id").chunks),
        sides,
        owners,
        _rows(keys, codes[counted], triple[counted]),
        _rows(passages, owners, np.arange(n, dtype=np.int32)),
    )


def _coded(texts: pa.Array, wanted: pa.Array | None) -> tuple[pa.Array, AnyIntegers]:
    """The distinct texts, sorted, and the place of each text among them; NONE for those not `wanted`."""
    encoded = texts.dictionary_encode()
    among = encoded.dictionary
    kept = np.ones(len(among), bool) if wanted is None else pc.is_in(among, wanted).to_numpy(zero_copy_only=False)
    order = pc.sort_indices(among).to_numpy()
    order = order[kept[order]]
    place = np.full(len(among), NONE, np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return among.take(pa.array(order)), place[encoded.indices.to_numpy()]


def _rows(keys: pa.Array, key: AnyIntegers, triple: AnyIntegers) -> Adjacency:
    members = triple[np.lexsort((triple, key))]
    starts = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=len(keys)))])
    return Adjacency(keys, starts, members)


# ---------------------------------------------------------------- on disk


def save_graph(graph: SparseGraph, folder: Path) -> str:
    """Write the graph into a folder of `folder` that is named by what it holds; that name. Raises StoreError."""
    return versioned_files.save_version(_WHAT, folder, lambda partial: _write(graph, partial))


def load_graph(folder: Path) -> SparseGraph:
    """The graph in `folder`, memory-mapped. Raises StoreError."""
    with versioned_files.open_files(_WHAT, folder):
        triples = versioned_files.read_texts(folder / "triples.arrow")
        sides, owners = (versioned_files.read_numbers(folder / f"{name}.npy") for name in _NUMBERS)
        entities, passages = (_read_rows(folder, name) for name in _ROWS)
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


def _read_rows(folder: Path, name: str) -> Adjacency:
    numbers = [versioned_files.read_numbers(folder / f"{name}.{kind}.npy") for kind in ("starts", "members")]
    return Adjacency(versioned_files.read_texts(folder / f"{name}.arrow"), *numbers)
