"""Maintenance of a LanceDB table in `finish`: compaction of files and deleted records, and building of indexes.

The cost is in proportion to what has changed: adding one document leaves all large files as they are.
"""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from lancedb.index import BTree, IvfSq, LabelList

from ragindex.interfaces import Schema
from ragindex.stores.lancedb import files, text_index
from ragindex.stores.lancedb.engine import fetch_batches, wait
from ragindex.stores.lancedb.files import ID_INDEX, Fragment, IndexInfo, Version

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
"""Postings are rebuilt when more than this share of records were written or deleted since; the limit is at least
`_FEW_UNLIKE` and at most `_MANY_UNLIKE` records. Readers hold the records written since in memory."""
_FOREVER = timedelta(days=36_500)


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
    wait(table.optimize(cleanup_older_than=_FOREVER))  # keep all versions, because readers are pinned to them


# ---------------------------------------------------------------- indexes


def build_scalar_indexes(table: Any, schema: Schema) -> None:
    """Build the indexes of ids and keywords, or rebuild those that lack many records.

    With these indexes, the time of a filter does not grow with the collection.
    """
    for column, kind in (("id", BTree()), *((keyword, LabelList()) for keyword in schema.keywords)):
        if _count_unindexed(table, column) > _MAX_LACKING_SHARE * _count(table):
            wait(table.create_index(column, config=kind, replace=True))


def build_search_indexes(table: Any, folder: Path, schema: Schema) -> None:
    """Build the indexes of text and vectors, or rebuild those that lack many records."""
    if schema.text and _count(table):
        build_postings(table, folder)
    if (
        schema.dimensions
        and _count(table) >= _ANN_FROM
        and _count_unindexed(table, "vector") > _MAX_LACKING_SHARE * _count(table)
    ):
        count = choose_partitions(_count(table))
        config = IvfSq(distance_type="cosine", num_partitions=count)
        wait(table.create_index("vector", config=config, replace=True))


def choose_partitions(count: int) -> int:
    """Return the number of partitions of an index of `count` vectors: its square root."""
    return max(1, int(np.sqrt(count)))


def build_postings(table: Any, folder: Path) -> None:
    """Write the postings of all records beside a new index of ids, unless the existing ones are recent enough."""
    now = files.read_version(folder, wait(table.version()))
    stored = files.find_text_index(now)
    if stored is not None:
        most = min(max(_FEW_UNLIKE, int(_UNLIKE * now.rows)), _MANY_UNLIKE)
        if text_index.count_changes(now, files.read_version(folder, stored.made_from)) <= most:
            return
    for index in wait(table.list_indices()):
        if index.columns == ["tokens"]:  # of ragindex up to 0.1
            wait(table.drop_index(index.name))
    ids = now.indexes.get(ID_INDEX)
    if stored is not None or ids is None or not _is_of_same_records(folder, ids, now):
        wait(table.create_index("id", config=BTree(), replace=True))
        ids = files.read_version(folder, wait(table.version())).indexes[ID_INDEX]
    text_index.write_postings(table, folder, ids.uuid)


def _is_of_same_records(folder: Path, index: IndexInfo, now: Version) -> bool:
    """Return whether an index was built from exactly the records of `now`. False if its version was removed."""
    made_from = index.made_from
    return made_from in files.list_versions(folder) and not text_index.count_changes(
        now, files.read_version(folder, made_from)
    )


def _count(table: Any) -> int:
    return int(wait(table.count_rows()))


def _count_unindexed(table: Any, column: str) -> int:
    """Return the number of records that are not in an index of the column."""
    (name,) = [index.name for index in wait(table.list_indices()) if index.columns == [column]] or [None]
    stats = None if name is None else wait(table.index_stats(name))
    return _count(table) if stats is None else int(stats.num_unindexed_rows)
