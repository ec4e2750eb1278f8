"""What BM25 needs of a collection beyond memory, exactly, while LanceDB's text index is older than the records.

LanceDB's index knows the records that it was made from: those written since are in no index, and those deleted since
still count in its statistics. To make it anew for each document would write all of it for each document. So the
statistics are ours: those of the records that the index was made from lie beside it, those of the records deleted or
written since are counted when the collection is opened. What was written since is held in memory, which `finish`
bounds; what the index finds is scored again from its tokens.
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
from lancedb.background_loop import LOOP

from ragindex.interfaces import Schema
from ragindex.stores.lancedb import files, sql
from ragindex.stores.lancedb.files import IndexInfo, Version
from ragindex.stores.large_strings import LARGE_STRING, widen
from ragindex.stores.memory import bm25
from ragindex.stores.memory.bm25 import Statistics, TextCounts
from ragindex.stores.memory.search import MemoryImage

TEXT_INDEX = "tokens_idx"
"""The name that LanceDB gives the index of the column `tokens`."""
_FILE = "terms.arrow"
_TAKEN = 8192


@dataclass(frozen=True, slots=True)
class IndexedStatistics:
    """The statistics of the records that the text index was made from; `terms` are sorted."""

    statistics: Statistics
    terms: pa.Array


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """The statistics of one version of a collection, those that its index goes by, and the records it lacks."""

    statistics: Statistics
    indexed: Statistics
    lacking: MemoryImage

    def looseness(self, tokens: Iterable[str]) -> float:
        """How many times the index's score a record's true score for `tokens` can be at most."""
        weights = [self.statistics.idf(token) / self.indexed.idf(token) for token in set(tokens)]
        return max(weights) * max(1.0, self.statistics.mean / self.indexed.mean)

    def finds(self, tokens: Iterable[str]) -> bool:
        """Whether a record in the index can hold one of `tokens`."""
        return any(self.indexed.frequency(token) for token in tokens)


# ---------------------------------------------------------------- beside the index


def save_statistics(folder: Path, uuid: str, counted: TextCounts) -> None:
    """Write the statistics of the records that the index `uuid` of the table in `folder` was made from."""
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


def list_text_indexes(version: Version) -> list[IndexInfo]:
    """The index of text, if the version has one: what it was made from is needed as long as it is."""
    return [index for name, index in version.indexes.items() if name == TEXT_INDEX]


def has_statistics(folder: Path, version: Version) -> bool:
    """Whether the version has a text index with its statistics."""
    index = version.indexes.get(TEXT_INDEX)
    return index is not None and (folder / "_indices" / index.uuid / _FILE).exists()


def _read(path: Path) -> IndexedStatistics:
    """Mapped into memory: a term is looked up by halving."""
    file = pa.ipc.open_file(pa.memory_map(str(path)))
    counts = json.loads(file.schema.metadata[b"counts"])
    batch = file.get_batch(0)
    terms, frequencies = batch.column(0), batch.column(1)

    def frequency(token: str) -> int:
        place = bisect_left(range(len(terms)), token, key=lambda number: terms[number].as_py())
        return int(frequencies[place].as_py()) if place < len(terms) and terms[place].as_py() == token else 0

    return IndexedStatistics(Statistics(counts["filled"], counts["tokens"], frequency), terms)


# ---------------------------------------------------------------- what has changed since


def first_new_row(made_from: Version) -> int:
    """The first row that was written after this version: rows count on from fragment to fragment."""
    return (max((one.id for one in made_from.fragments), default=-1) + 1) << 32


def count_changes(now: Version, made_from: Version) -> int:
    """How many records were written since, or deleted."""
    last = first_new_row(made_from) >> 32
    written = sum(one.rows - one.deleted for one in now.fragments if one.id >= last)
    left = sum(one.rows - one.deleted for one in now.fragments if one.id < last)
    return written + made_from.rows - left


def open_statistics(
    table: Any, earlier: Any, folder: Path, schema: Schema, columns: Sequence[str]
) -> CollectionStatistics | None:
    """The words of `table`, an asynchronous one at one version; `earlier` opens it at another.

    `columns` are what its records are searched and read by, the vector aside. None where it has no index of text.
    """
    now = files.read_version(folder, LOOP.run(table.version()))
    if not has_statistics(folder, now):
        return None
    index = now.indexes[TEXT_INDEX]
    made_from = files.read_version(folder, index.made_from)
    indexed = _read(folder / "_indices" / index.uuid / _FILE)
    first = first_new_row(made_from)
    found = LOOP.run(table.query().where(f"_rowid >= {first}").select(list(columns)).to_arrow())
    lacking = widen(found.rename_columns([sql.field_name(name) for name in columns]))
    new = bm25.count_tokens(lacking.column("tokens").chunks)
    gone = _gone(table, earlier, now, made_from)
    statistics = _moved(indexed.statistics, new, gone)
    return CollectionStatistics(statistics, indexed.statistics, MemoryImage(schema, lacking, None, statistics))


def _moved(indexed: Statistics, new: TextCounts, gone: TextCounts) -> Statistics:
    def frequency(token: str) -> int:
        return indexed.frequency(token) + new.frequencies.get(token, 0) - gone.frequencies.get(token, 0)

    return Statistics(indexed.filled + new.filled - gone.filled, indexed.tokens + new.tokens - gone.tokens, frequency)


def _gone(table: Any, earlier: Any, now: Version, made_from: Version) -> TextCounts:
    """The statistics of the indexed records that have been deleted since."""
    first = first_new_row(made_from)
    if sum(one.rows - one.deleted for one in now.fragments if one.id < first >> 32) == made_from.rows:
        return TextCounts(0, 0, {})
    before = earlier(made_from.number)
    left, were = (_rows(one, first) for one in (table, before))
    rows = np.setdiff1d(were, left).tolist()
    blocks = (rows[start : start + _TAKEN] for start in range(0, len(rows), _TAKEN))
    taken = (LOOP.run(before.take_row_ids(block).select(["tokens"]).to_arrow()) for block in blocks)
    return bm25.count_tokens(chunk for table in taken for chunk in table.column("tokens").chunks)


def _rows(table: Any, before: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    found = LOOP.run(table.query().where(f"_rowid < {before}").with_row_id().select(["_rowid"]).to_arrow())
    rows: np.ndarray[tuple[int], np.dtype[np.uint64]] = found.column("_rowid").to_numpy()
    return rows
