"""What `finish` does to a LanceDB table: few files, few deleted records in them, and the indexes that searches need.

Nothing here costs more than what has changed calls for: one more document leaves all large files as they are.
"""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from lancedb.index import FTS, BTree, IvfFlat, LabelList

from ragindex.interfaces import Schema
from ragindex.stores.lancedb import bm25_statistics, files
from ragindex.stores.lancedb.files import Fragment
from ragindex.stores.lancedb.index import choose_partitions
from ragindex.stores.memory import bm25

_FRAGMENTS = 64
"""More of them make every read slow: the small ones are then written together."""
_DELETED = 0.1
"""The share of deleted records at which the table is rewritten: LanceDB does not compact a fragment with fewer."""
_TOGETHER = 50_000
"""Records of small fragments that are merged at once; LanceDB rewrites more of them in a stream."""
_ANN_FROM = 10_000
"""Below so many records LanceDB compares all vectors, which is quick and exact."""
_LACKING = 0.1
"""The share of records that an index of vectors, ids or keywords may lack: LanceDB looks at those one by one."""
_UNLIKE, _FEW_UNLIKE, _MANY_UNLIKE = 0.05, 1_000, 20_000
"""The share of records written or deleted since the index of text was made at which it is made anew, and between how
many: readers hold those in memory."""
_FOR_EVER = timedelta(days=36_500)


# ---------------------------------------------------------------- files


def compact_table(table: Any, folder: Path) -> None:
    """Merge small fragments; rewrite all records if many are deleted. No version is removed."""
    now = files.read_version(folder, table.version)
    if now.written - now.rows > _DELETED * now.written:
        _rewrite(table)
    elif len(now.fragments) > _FRAGMENTS:
        small = _small(now.fragments)
        if small and sum(one.rows - one.deleted for one in small) <= _TOGETHER:
            _write_together(table, small)
        else:
            _rewrite(table)


def _small(fragments: Sequence[Fragment]) -> list[Fragment]:
    """The fewest that leave half as many fragments and are together smaller than any other; none where all are alike.

    So a record is written again only when the records beside it have doubled.
    """
    by_size = sorted(fragments, key=lambda one: (one.rows, one.id))
    whole = 0
    for number, one in enumerate(by_size):
        if number > len(by_size) - _FRAGMENTS // 2 and one.rows > whole:
            return by_size[:number]
        whole += one.rows
    return []


def _write_together(table: Any, small: Sequence[Fragment]) -> None:
    """In one write: whoever reads in between sees each record once."""
    within = " OR ".join(f"(_rowid >= {one.id << 32} AND _rowid < {(one.id + 1) << 32})" for one in small)
    rows = table.search().where(within).limit(None).to_arrow()
    table.merge_insert("id").when_matched_update_all().execute(rows)


def _rewrite(table: Any) -> None:
    if any(index.name == bm25_statistics.TEXT_INDEX for index in table.list_indices()):
        table.drop_index(bm25_statistics.TEXT_INDEX)  # else LanceDB rebuilds it too, without its statistics
    table.optimize(cleanup_older_than=_FOR_EVER)  # readers are still pinned to what was before


# ---------------------------------------------------------------- indexes


def build_scalar_indexes(table: Any, schema: Schema, lacking: float = _LACKING) -> None:
    """Build indexes of ids and keywords, again if they lack more than a share of the records: a filter then takes as
    long in a large collection as in a small one.
    """
    for column, kind in (("id", BTree()), *((keyword, LabelList()) for keyword in schema.keywords)):
        if _unindexed(table, column) > lacking * table.count_rows():
            table.create_index(column, config=kind, replace=True)


def build_search_indexes(table: Any, folder: Path, schema: Schema) -> None:
    """Build the indexes of text and of vectors, again if they lack many records."""
    if schema.text and table.count_rows():
        build_bm25_index(table, folder, schema)
    if (
        schema.dimensions
        and table.count_rows() >= _ANN_FROM
        and _unindexed(table, "vector") > _LACKING * table.count_rows()
    ):
        count = choose_partitions(table.count_rows())
        table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=count), replace=True)


def build_bm25_index(table: Any, folder: Path, schema: Schema) -> None:
    """The index of text, with its statistics beside it.

    A search in it goes by the lookups alone where there are any, so these must know all records that it knows.
    """
    now = files.read_version(folder, table.version)
    if bm25_statistics.has_statistics(folder, now):
        made_from = files.read_version(folder, now.indexes[bm25_statistics.TEXT_INDEX].made_from)
        most = min(max(_FEW_UNLIKE, int(_UNLIKE * now.rows)), _MANY_UNLIKE)
        if bm25_statistics.count_changes(now, made_from) <= most:
            return
    if any(index.columns == ["id"] for index in table.list_indices()):
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
    table.create_index("tokens", config=analysed, replace=True)
    made = files.read_version(folder, table.version).indexes[bm25_statistics.TEXT_INDEX]
    batches = table.search().select(["tokens"]).limit(None).to_batches(8192)
    bm25_statistics.save_statistics(folder, made.uuid, bm25.count_tokens(batch.column("tokens") for batch in batches))


def _unindexed(table: Any, column: str) -> int:
    """The records that are in no index of the column."""
    (name,) = [index.name for index in table.list_indices() if index.columns == [column]] or [None]
    stats = None if name is None else table.index_stats(name)
    return int(table.count_rows() if stats is None else stats.num_unindexed_rows)
