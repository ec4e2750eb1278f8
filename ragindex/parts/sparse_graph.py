"""Which triples share an entity, as sparse rows on disk: one row an entity, holding its triples.

A triple's neighbours are the union of two rows. So a hub costs its own length once, and nothing grows with the number
of pairs.
"""

import hashlib
import os
import shutil
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.errors import StoreError

Integers: TypeAlias = npt.NDArray[np.integer[Any]]
_TEXTS = ("triples", "entities")
_NUMBERS = ("sides", "starts", "members")


@dataclass(frozen=True, slots=True)
class SparseGraph:
    """`triples` (n ids) and `entities` (m keys) are sorted; all else are their places.

    `sides` (n, 2) are the subject and object of each triple; `members[starts[e] : starts[e + 1]]` the triples with the
    entity e, ascending, each once. Read from memory-mapped files. Thread-safe.
    """

    triples: pa.Array
    entities: pa.Array
    sides: Integers
    starts: Integers
    members: Integers

    def neighbours(self, triple_ids: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """For each triple the ids of those that share its subject or object in either role, itself left out.

        Sorted by id, the first `limit`. A triple that is not in the graph has none.
        """
        return [self._neighbours(place, limit) for place in _places(self.triples, triple_ids)]

    def of_entities(self, keys: Sequence[str], limit: int | None = None) -> list[list[str]]:
        """For each key, as `Triples.key` makes it, the ids of the triples with it: sorted, the first `limit`."""
        places = _places(self.entities, keys)
        return [[] if place is None else self._ids(self._row(place, limit)) for place in places]

    def _neighbours(self, place: int | None, limit: int | None) -> list[str]:
        if place is None:
            return []
        longest = None if limit is None else limit + 1  # itself may be among the first
        subject, object = (self._row(int(side), longest) for side in self.sides[place])
        both = np.union1d(subject, object)
        return self._ids(both[both != place][:limit])

    def _row(self, entity: int, limit: int | None) -> Integers:
        return self.members[self.starts[entity] : self.starts[entity + 1]][:limit]

    def _ids(self, places: Integers) -> list[str]:
        ids: list[str] = self.triples.take(pa.array(places)).to_pylist()
        return ids


def _places(column: pa.Array, texts: Sequence[str]) -> Iterator[int | None]:
    """Where each text stands in a sorted column, by bisection: nothing is read but what is compared."""
    for text in texts:
        place = bisect_left(range(len(column)), text, key=lambda row: column[row].as_py())
        yield place if place < len(column) and column[place].as_py() == text else None


# ---------------------------------------------------------------- building


def sparse_graph(triples: pa.Table) -> SparseGraph:
    """The graph of a table with the columns id, subject_key, object_key (texts); n log n in the number of triples."""
    triples = triples.take(pc.sort_indices(triples.column("id")))
    n = len(triples)
    ends = pa.concat_arrays([_text(triples.column(name)) for name in ("subject_key", "object_key")])
    encoded = ends.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    entity = rank[encoded.indices.to_numpy()]
    sides = np.ascontiguousarray(entity.reshape(2, n).T)
    triple = np.tile(np.arange(n, dtype=np.int32), 2)
    once = np.concatenate([np.ones(n, bool), sides[:, 0] != sides[:, 1]])
    entity, triple = entity[once], triple[once]
    members = triple[np.lexsort((triple, entity))]
    starts = np.concatenate([[0], np.cumsum(np.bincount(entity, minlength=len(order)))])
    return SparseGraph(_text(triples.column("id")), encoded.dictionary.take(pa.array(order)), sides, starts, members)


def _text(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.large_string()), *(c.cast(pa.large_string()) for c in column.chunks)])


# ---------------------------------------------------------------- on disk


def save(graph: SparseGraph, folder: Path) -> str:
    """Write the graph into a folder of `folder` that is named by what it holds; that name. Raises StoreError.

    Files that are there are never changed, so readers of an earlier graph keep it.
    """
    partial = folder / f"partial-{os.getpid()}"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name in _TEXTS:
            _write_texts(partial / f"{name}.arrow", getattr(graph, name))
        for name in _NUMBERS:
            np.save(partial / f"{name}.npy", getattr(graph, name), allow_pickle=False)
        digest = _settled(partial)
        if not (folder / digest).exists():
            partial.replace(folder / digest)
        shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise StoreError(f"The triple graph could not be written to {folder}: {error.strerror or error}.") from error
    return digest


def load(folder: Path) -> SparseGraph:
    """The graph in `folder`, memory-mapped. Raises StoreError."""
    try:
        texts = [_read_texts(folder / f"{name}.arrow") for name in _TEXTS]
        numbers = [np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _NUMBERS]
    except (OSError, ValueError, EOFError) as error:
        raise StoreError(
            f"The triple graph in {folder} cannot be read: {error}. Run: ragindex index --workspace OTHER"
        ) from error
    return SparseGraph(*texts, *numbers)


def _write_texts(path: Path, column: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([column], names=["text"])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _read_texts(path: Path) -> pa.Array:
    return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0).column(0)


def _settled(folder: Path) -> str:
    """Bring the files to the disk, for they are named by what they hold and never written again; their hash."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
