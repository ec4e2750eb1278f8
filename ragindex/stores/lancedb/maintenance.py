"""Maintenance of a LanceDB table in `finish`: compaction of files and deleted records, and building of indexes.

The cost is in proportion to what has changed: adding one document leaves all large files as they are.
"""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from lancedb.index import FTS, BTree, IvfFlat, LabelList

from ragindex.interfaces import Schema
from ragindex.stores.lancedb import bm25_statistics, files
from ragindex.stores.lancedb.engine import fetch_batches, wait
from ragindex.stores.lancedb.files import Fragment
from ragindex.stores.lancedb.index import choose_partitions
from ragindex.stores.memory import bm25

_FRAGMENTS = 64
"""The number of fragments above which small ones are merged, because many fragments slow every read down."""
_DELETED = 0.1
"""The share of deleted records above which the table is rewritten. LanceDB does not compact fragments with fewer."""
_MAX_MERGED = 50_000
"""The most records of small fragments to merge in memory. For more, LanceDB rewrites the table in a stream."""
_ANN_FROM = 10_000
"""The number of records from which vectors get an index. Below it, LanceDB compares all vectors, fast and exactly."""
_MAX_LACKING_SHARE = 0.1
"""The share of records that an index of vectors, ids or keywords may lack. LanceDB scans those records."""
_UNLIKE, _FEW_UNLIKE, _MANY_UNLIKE = 0.05, 1_000, 20_000
"""The text index is rebuilt when more than this share of records were written or deleted since it was built; the limit
is at least `_FEW_UNLIKE` and at most `_MANY_UNLIKE` records. Readers hold the records written since in memory."""
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
        if small and sum(one.rows - one.deleted for one in small) <= _MAX_MERGED:
            _merge_fragments(table, small)
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
    by_size = sorted(fragments, key=lambda one: (one.rows, one.id))
    whole = 0
    for number, one in enumerate(by_size):
        if number > len(by_size) - _FRAGMENTS // 2 and one.rows > whole:
            return by_size[:number]
        whole += one.rows
    return []


def _merge_fragments(table: Any, small: Sequence[Fragment]) -> None:
    """Merge fragments in one write, so that a concurrent reader sees each record once."""
    within = " OR ".join(f"(_rowid >= {one.id << 32} AND _rowid < {(one.id + 1) << 32})" for one in small)
    rows = wait(table.query().where(within).to_arrow())
    wait(table.merge_insert("id").when_matched_update_all().execute(rows))


def _rewrite(table: Any) -> None:
    if any(index.name == files.TEXT_INDEX for index in wait(table.list_indices())):
        wait(table.drop_index(files.TEXT_INDEX))  # otherwise LanceDB rebuilds it too, without our statistics
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


def build_bm25_index(table: Any, folder: Path, schema: Schema) -> None:
    """Build the text index and its statistics, unless the existing index is recent enough.

    A filtered text search uses only the scalar indexes if they exist, so they must contain all records of the text
    index.
    """
    now = files.read_version(folder, wait(table.version()))
    if bm25_statistics.has_statistics(folder, now):
        made_from = files.read_version(folder, now.indexes[files.TEXT_INDEX].made_from)
        most = min(max(_FEW_UNLIKE, int(_UNLIKE * now.rows)), _MANY_UNLIKE)
        if bm25_statistics.count_changes(now, made_from) <= most:
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
    made = files.read_version(folder, wait(table.version())).indexes[files.TEXT_INDEX]
    batches = fetch_batches(table, table.query().select(["tokens"]), 8192)
    bm25_statistics.save_statistics(folder, made.uuid, bm25.count_tokens(batch.column("tokens") for batch in batches))


def _count(table: Any) -> int:
    return int(wait(table.count_rows()))


def _count_unindexed(table: Any, column: str) -> int:
    """Return the number of records that are not in an index of the column."""
    (name,) = [index.name for index in wait(table.list_indices()) if index.columns == [column]] or [None]
    stats = None if name is None else wait(table.index_stats(name))
    return _count(table) if stats is None else int(stats.num_unindexed_rows)
