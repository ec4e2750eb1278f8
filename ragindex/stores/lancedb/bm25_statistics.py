"""Exact BM25 statistics of a collection beyond memory, although LanceDB's text index is older than its records.

LanceDB's index covers the records that it was built from. Records written since are in no index, and records deleted
since still count in its statistics. Rebuilding the index for each new document would rewrite all of it. This module
therefore keeps its own statistics: those of the indexed records are stored next to the index, and those of the records
deleted or written since are counted when the collection is opened. Records written since are held in memory (`finish`
bounds their number), and the records that the index finds are scored again from their tokens.
"""

import json
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ragindex.interfaces import Schema
from ragindex.stores.arrow import LARGE_STRING, widen
from ragindex.stores.lancedb import files
from ragindex.stores.lancedb.engine import wait
from ragindex.stores.lancedb.files import TEXT_INDEX, Version
from ragindex.stores.memory import bm25
from ragindex.stores.memory.bm25 import Statistics, TextCounts
from ragindex.stores.memory.search import MemoryImage
from ragindex.stores.records import field_name

_FILE = "terms.arrow"
_TAKE_BLOCK = 8192


@dataclass(frozen=True, slots=True)
class IndexedStatistics:
    """The statistics of the records that the text index was built from; `terms` are sorted."""

    statistics: Statistics
    terms: pa.Array


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """The statistics of one version of a collection, those of its text index, and the records that the index lacks."""

    statistics: Statistics
    indexed: Statistics
    lacking: MemoryImage

    def looseness(self, tokens: Iterable[str]) -> float:
        """Return an upper bound of the ratio of a record's true score for `tokens` to the index's score."""
        weights = [self.statistics.idf(token) / self.indexed.idf(token) for token in set(tokens)]
        return max(weights) * max(1.0, self.statistics.mean / self.indexed.mean)

    def finds(self, tokens: Iterable[str]) -> bool:
        """Return whether the index contains a record with one of `tokens`."""
        return any(self.indexed.frequency(token) for token in tokens)


# ---------------------------------------------------------------- statistics of the index


def save_statistics(folder: Path, uuid: str, counted: TextCounts) -> None:
    """Write the statistics of the records that the index `uuid` of the table in `folder` was built from."""
    terms = sorted(counted.frequencies)
    columns = [pa.array(terms, LARGE_STRING), pa.array([counted.frequencies[term] for term in terms], pa.int64())]
    counts = {"counts": json.dumps({"filled": counted.filled, "tokens": counted.tokens})}
    schema = pa.schema([("term", LARGE_STRING), ("frequency", pa.int64())], metadata=counts)
    path = folder / "_indices" / uuid / _FILE
    partial = path.with_suffix(".partial")
    with partial.open("wb") as sink:
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        sink.flush()
        os.fsync(sink.fileno())
    partial.replace(path)


def has_statistics(folder: Path, version: Version) -> bool:
    """Return whether the version has a text index with statistics."""
    index = version.indexes.get(TEXT_INDEX)
    return index is not None and (folder / "_indices" / index.uuid / _FILE).exists()


def _read_statistics(path: Path) -> IndexedStatistics:
    """Read statistics, memory-mapped; terms are looked up by binary search."""
    file = pa.ipc.open_file(pa.memory_map(str(path)))
    counts = json.loads(file.schema.metadata[b"counts"])
    batch = file.get_batch(0)
    terms, frequencies = batch.column(0), batch.column(1)

    def frequency(token: str) -> int:
        place = bisect_left(range(len(terms)), token, key=lambda number: terms[number].as_py())
        return int(frequencies[place].as_py()) if place < len(terms) and terms[place].as_py() == token else 0

    return IndexedStatistics(Statistics(counts["filled"], counts["tokens"], frequency), terms)


# ---------------------------------------------------------------- changes since the index was built


def first_new_row(made_from: Version) -> int:
    """Return the first row id written after this version; row ids increase from fragment to fragment."""
    return (max((one.id for one in made_from.fragments), default=-1) + 1) << 32


def count_changes(now: Version, made_from: Version) -> int:
    """Return the number of records written or deleted since the version `made_from`."""
    last = first_new_row(made_from) >> 32
    written = sum(one.rows - one.deleted for one in now.fragments if one.id >= last)
    left = sum(one.rows - one.deleted for one in now.fragments if one.id < last)
    return written + made_from.rows - left


def open_statistics(
    table: Any, earlier: Any, folder: Path, schema: Schema, columns: Sequence[str]
) -> CollectionStatistics | None:
    """Open the statistics of `table`, or return None if it has no text index.

    `table` is an asynchronous LanceDB table at one version, and `earlier` opens it at another version. `columns` are
    all its columns except the vector.
    """
    now = files.read_version(folder, wait(table.version()))
    if not has_statistics(folder, now):
        return None
    index = now.indexes[TEXT_INDEX]
    made_from = files.read_version(folder, index.made_from)
    indexed = _read_statistics(folder / "_indices" / index.uuid / _FILE)
    first = first_new_row(made_from)
    found = wait(table.query().where(f"_rowid >= {first}").select(list(columns)).to_arrow())
    lacking = widen(found.rename_columns([field_name(name) for name in columns]))
    new = bm25.count_tokens(lacking.column("tokens").chunks)
    gone = _count_deleted(table, earlier, now, made_from)
    statistics = _update_statistics(indexed.statistics, new, gone)
    return CollectionStatistics(statistics, indexed.statistics, MemoryImage(schema, lacking, None, statistics))


def _update_statistics(indexed: Statistics, new: TextCounts, gone: TextCounts) -> Statistics:
    def frequency(token: str) -> int:
        return indexed.frequency(token) + new.frequencies.get(token, 0) - gone.frequencies.get(token, 0)

    return Statistics(indexed.filled + new.filled - gone.filled, indexed.tokens + new.tokens - gone.tokens, frequency)


def _count_deleted(table: Any, earlier: Any, now: Version, made_from: Version) -> TextCounts:
    """Return the statistics of the indexed records that have been deleted since."""
    first = first_new_row(made_from)
    if sum(one.rows - one.deleted for one in now.fragments if one.id < first >> 32) == made_from.rows:
        return TextCounts(0, 0, {})
    before = earlier(made_from.number)
    left, were = (_read_row_ids(one, first) for one in (table, before))
    rows = np.setdiff1d(were, left).tolist()
    blocks = (rows[start : start + _TAKE_BLOCK] for start in range(0, len(rows), _TAKE_BLOCK))
    taken = (wait(before.take_row_ids(block).select(["tokens"]).to_arrow()) for block in blocks)
    return bm25.count_tokens(chunk for table in taken for chunk in table.column("tokens").chunks)


def _read_row_ids(table: Any, before: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    found = wait(table.query().where(f"_rowid < {before}").with_row_id().select(["_rowid"]).to_arrow())
    rows: np.ndarray[tuple[int], np.dtype[np.uint64]] = found.column("_rowid").to_numpy()
    return rows
