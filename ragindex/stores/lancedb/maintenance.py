"""Maintenance of a LanceDB table in `finish`: compaction of files and deleted records, and building of indexes.

The cost is in proportion to what has changed: adding one document leaves all large files as they are.

BM25 statistics are exact although LanceDB's text index is older than its records. The index covers the records that it
was built from: records written since are in no index, and records deleted since still count in its statistics.
Rebuilding it for each new document would rewrite all of it. This module therefore keeps its own statistics: those of
the indexed records are stored next to the index, and those of the records deleted or written since are counted when the
collection is opened. Records written since are held in memory (`finish` bounds their number), and the records that the
index finds are scored again from their tokens.
"""

import json
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from lancedb.index import FTS, BTree, IvfFlat, LabelList

from ragindex.interfaces import Schema
from ragindex.stores.lancedb import files
from ragindex.stores.lancedb.engine import fetch_batches, wait
from ragindex.stores.lancedb.files import TEXT_INDEX, Fragment, Version
from ragindex.stores.memory import bm25
from ragindex.stores.memory.bm25 import Statistics, TextCounts
from ragindex.stores.memory.search import MemoryImage
from ragindex.stores.records import LARGE_STRING, field_name, widen

_FRAGMENTS = 64
"""The number of fragments above which small ones are merged, because many fragments slow every read down."""
_DELETED = 0.1
"""The share of deleted records above which the table is rewritten. LanceDB does not compact fragments with fewer."""
_MAX_MERGED = 50_000
"""The most records of small fragments to merge. For more, LanceDB rewrites the table, 8,192 records at a time."""
_BLOCK_BYTES, _BLOCK_RECORDS = 32 << 20, 128
"""Records are merged in blocks of about so many bytes, read so many records at a time: a record may have 64 KiB of
metadata, and a merge takes five times the memory of what it writes."""
_ANN_FROM = 10_000
"""The number of records from which vectors get an index. Below it, LanceDB compares all vectors, fast and exactly."""
_MAX_LACKING_SHARE = 0.1
"""The share of records that an index of vectors, ids or keywords may lack. LanceDB scans those records."""
_UNLIKE, _FEW_UNLIKE, _MANY_UNLIKE = 0.05, 1_000, 20_000
"""The text index is rebuilt when more than this share of records were written or deleted since it was built; the limit
is at least `_FEW_UNLIKE` and at most `_MANY_UNLIKE` records. Readers hold the records written since in memory."""
_FOREVER = timedelta(days=36_500)
_FILE = "terms.arrow"
_TAKE_BLOCK = 8192


# ---------------------------------------------------------------- files


def compact_table(table: Any, folder: Path, version: int) -> bool:
    """Merge small fragments, or rewrite all records if many are deleted, and return whether the table was changed.

    `version` is the table's version. No version is removed.
    """
    now = files.read_version(folder, version)
    if now.written - now.rows > _DELETED * now.written:
        _rewrite(table)
    elif len(now.fragments) > _FRAGMENTS:
        small = _select_small(now.fragments)
        if small and sum(fragment.rows - fragment.deleted for fragment in small) <= _MAX_MERGED:
            _merge(table, small)
        else:
            _rewrite(table)
    else:
        return False
    return True


def _select_small(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Return the smallest fragments to merge, or an empty list if all are of similar size.

    Fewer than half of `_FRAGMENTS` remain, and the merged fragments are together smaller than each of the others. A
    record is therefore rewritten only when the records around it have doubled.
    """
    by_size = sorted(fragments, key=lambda fragment: (fragment.rows, fragment.id))
    rows = 0
    for number, fragment in enumerate(by_size):
        if number > len(by_size) - _FRAGMENTS // 2 and fragment.rows > rows:
            return by_size[:number]
        rows += fragment.rows
    return []


def _merge(table: Any, small: Sequence[Fragment]) -> None:
    """Write the records of fragments anew, a block at once, so that a concurrent reader sees each record once."""
    ranges = " OR ".join(f"(_rowid >= {part.id << 32} AND _rowid < {(part.id + 1) << 32})" for part in small)
    batches = fetch_batches(table, table.query().where(ranges), _BLOCK_RECORDS)
    block = list[pa.RecordBatch]()
    for batch in batches:
        block.append(batch)
        if sum(each.nbytes for each in block) > _BLOCK_BYTES:
            _write_block(table, block)
            block = []
    if block:
        _write_block(table, block)


def _write_block(table: Any, block: Sequence[pa.RecordBatch]) -> None:
    wait(table.merge_insert("id").when_matched_update_all().execute(pa.Table.from_batches(block)))


def _rewrite(table: Any) -> None:
    if any(index.name == TEXT_INDEX for index in wait(table.list_indices())):
        wait(table.drop_index(TEXT_INDEX))  # otherwise LanceDB rebuilds it too, without our statistics
    wait(table.optimize(cleanup_older_than=_FOREVER))  # keep all versions, because readers are pinned to them


# ---------------------------------------------------------------- indexes


def build_scalar_indexes(table: Any, schema: Schema, lacking: float = _MAX_LACKING_SHARE) -> None:
    """Build the indexes of ids and keywords, or rebuild those that lack more than the share `lacking` of the records.

    With these indexes, the time of a filter does not grow with the collection.
    """
    for column, kind in (("id", BTree()), *((keyword, LabelList()) for keyword in schema.keywords)):
        if _count_unindexed(table, column) > lacking * _count(table):
            wait(table.create_index(column, config=kind, replace=True))


def build_search_indexes(table: Any, folder: Path, schema: Schema) -> None:
    """Build the indexes of text and vectors, or rebuild those that lack many records."""
    if schema.text and _count(table):
        build_bm25_index(table, folder, schema)
    if (
        schema.dimensions
        and _count(table) >= _ANN_FROM
        and _count_unindexed(table, "vector") > _MAX_LACKING_SHARE * _count(table)
    ):
        count = choose_partitions(_count(table))
        config = IvfFlat(distance_type="cosine", num_partitions=count)
        wait(table.create_index("vector", config=config, replace=True))


def choose_partitions(count: int) -> int:
    """Return the number of partitions of an index of `count` vectors: its square root."""
    return max(1, int(np.sqrt(count)))


def build_bm25_index(table: Any, folder: Path, schema: Schema) -> None:
    """Build the text index and its statistics, unless the existing index is recent enough.

    A filtered text search uses only the scalar indexes if they exist, so they must contain all records of the text
    index.
    """
    now = files.read_version(folder, wait(table.version()))
    if has_statistics(folder, now):
        made_from = files.read_version(folder, now.indexes[TEXT_INDEX].made_from)
        most = min(max(_FEW_UNLIKE, int(_UNLIKE * now.rows)), _MANY_UNLIKE)
        if count_changes(now, made_from) <= most:
            return
    if any(index.columns == ["id"] for index in wait(table.list_indices())):
        build_scalar_indexes(table, schema, 0)
    analysed = FTS(
        base_tokenizer="whitespace",
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
        max_token_length=None,
        with_position=False,
    )
    wait(table.create_index("tokens", config=analysed, replace=True))
    index = files.read_version(folder, wait(table.version())).indexes[TEXT_INDEX]
    batches = fetch_batches(table, table.query().select(["tokens"]), 8192)
    save_statistics(folder, index.uuid, bm25.count_tokens(batch.column("tokens") for batch in batches))


def _count(table: Any) -> int:
    return int(wait(table.count_rows()))


def _count_unindexed(table: Any, column: str) -> int:
    """Return the number of records that are not in an index of the column."""
    (name,) = [index.name for index in wait(table.list_indices()) if index.columns == [column]] or [None]
    stats = None if name is None else wait(table.index_stats(name))
    return _count(table) if stats is None else int(stats.num_unindexed_rows)


# ---------------------------------------------------------------- BM25 statistics


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


def _read_statistics(path: Path) -> Statistics:
    """Read statistics, memory-mapped; the terms are sorted and looked up by binary search."""
    file = pa.ipc.open_file(pa.memory_map(str(path)))
    counts = json.loads(file.schema.metadata[b"counts"])
    batch = file.get_batch(0)
    terms, frequencies = batch.column(0), batch.column(1)

    def frequency(token: str) -> int:
        place = bisect_left(range(len(terms)), token, key=lambda number: terms[number].as_py())
        return int(frequencies[place].as_py()) if place < len(terms) and terms[place].as_py() == token else 0

    return Statistics(counts["filled"], counts["tokens"], frequency)


# ---------------------------------------------------------------- changes since the index was built


def first_new_row(made_from: Version) -> int:
    """Return the first row id written after this version; row ids increase from fragment to fragment."""
    return (max((fragment.id for fragment in made_from.fragments), default=-1) + 1) << 32


def count_changes(now: Version, made_from: Version) -> int:
    """Return the number of records written or deleted since the version `made_from`."""
    last = first_new_row(made_from) >> 32
    row_count = sum(fragment.rows - fragment.deleted for fragment in now.fragments if fragment.id >= last)
    remaining = sum(fragment.rows - fragment.deleted for fragment in now.fragments if fragment.id < last)
    return row_count + made_from.rows - remaining


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
    rows = wait(table.query().where(f"_rowid >= {first}").select(list(columns)).to_arrow())
    lacking = widen(rows.rename_columns([field_name(name) for name in columns]))
    new = bm25.count_tokens(lacking.column("tokens").chunks)
    deleted = _count_deleted(table, earlier, now, made_from)

    def frequency(token: str) -> int:
        return indexed.frequency(token) + new.frequencies.get(token, 0) - deleted.frequencies.get(token, 0)

    filled, tokens = indexed.filled + new.filled - deleted.filled, indexed.tokens + new.tokens - deleted.tokens
    statistics = Statistics(filled, tokens, frequency)
    return CollectionStatistics(statistics, indexed, MemoryImage(schema, lacking, None, statistics))


def _count_deleted(table: Any, earlier: Any, now: Version, made_from: Version) -> TextCounts:
    """Return the statistics of the indexed records that have been deleted since."""
    first = first_new_row(made_from)
    if sum(part.rows - part.deleted for part in now.fragments if part.id < first >> 32) == made_from.rows:
        return TextCounts(0, 0, {})
    before = earlier(made_from.number)
    remaining, were = (_read_row_ids(version, first) for version in (table, before))
    rows = np.setdiff1d(were, remaining).tolist()
    blocks = (rows[start : start + _TAKE_BLOCK] for start in range(0, len(rows), _TAKE_BLOCK))
    records = (wait(before.take_row_ids(block).select(["tokens"]).to_arrow()) for block in blocks)
    return bm25.count_tokens(chunk for table in records for chunk in table.column("tokens").chunks)


def _read_row_ids(table: Any, before: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    rows = wait(table.query().where(f"_rowid < {before}").with_row_id().select(["_rowid"]).to_arrow())
    ids: np.ndarray[tuple[int], np.dtype[np.uint64]] = rows.column("_rowid").to_numpy()
    return ids
