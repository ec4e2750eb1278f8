"""Exact BM25 over a LanceDB table that is not held in memory: postings in a file, mapped into memory.

The file lies beside LanceDB's index of ids, from the same version of the table: it is kept and removed with that index.
It may be older than the records of a version: rewriting it for each new document would read all of them. Its statistics
are corrected when the table is opened: tokens of the records deleted or written since are counted. Records written
since, whose number `finish` bounds, are held in memory.
"""

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ragindex._util import durable_files
from ragindex.interfaces import Schema
from ragindex.stores.lancedb import files
from ragindex.stores.lancedb.engine import fetch_batches, wait
from ragindex.stores.lancedb.files import POSTINGS, Version
from ragindex.stores.memory import bm25
from ragindex.stores.memory.bm25 import Postings, Statistics, TextCounts, TextIndex
from ragindex.stores.memory.search import MemoryImage, Ranks, RowNumbers, ScoreArray, rank_ids, rank_text
from ragindex.stores.records import field_name, widen

_BATCH = 8192
_Numbers = npt.NDArray[Any]
RowIds = npt.NDArray[np.uint64]


# ---------------------------------------------------------------- writing


def write_postings(table: Any, folder: Path, uuid: str) -> None:
    """Write the postings of all records beside the index `uuid` of the table in `folder`."""
    blocks_of_ids, row_ids, blocks = list[pa.Array](), list[_Numbers](), list[Postings]()
    for batch in fetch_batches(table, table.query().with_row_id().select(["id", "tokens"]), _BATCH):
        blocks_of_ids.append(batch.column("id").cast(pa.large_string()))
        row_ids.append(batch.column("_rowid").to_numpy())
        blocks.append(bm25.count_postings(batch.column("tokens")))
    postings, ids = bm25.merge_postings(blocks), pa.concat_arrays(blocks_of_ids)
    own = Statistics(postings.filled, postings.tokens, lambda token: 0)
    columns: dict[str, pa.Array] = {
        "terms": pa.array(postings.terms, pa.large_string()),
        "starts": pa.array(postings.starts),
        "rows": pa.array(postings.rows),
        "counts": pa.array(postings.counts),
        "peaks": pa.array(postings.weigh({}, own).peaks),
        "lengths": pa.array(postings.lengths.astype(np.int32)),
        "ids": ids,
        "ranks": pa.array(rank_ids(ids)),
        "row_ids": pa.array(np.concatenate(row_ids)),
    }
    lists = {name: pa.LargeListArray.from_arrays([0, len(values)], values) for name, values in columns.items()}
    counts = {"counts": json.dumps({"filled": postings.filled, "tokens": postings.tokens})}
    batch = pa.record_batch(lists).replace_schema_metadata(counts)
    path = folder / "_indices" / uuid / POSTINGS
    with durable_files.replace_file(path) as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


# ---------------------------------------------------------------- searching


class SortedTerms:
    """Finds terms in a sorted array by binary search, and those of recent queries at once."""

    def __init__(self, terms: pa.Array) -> None:
        self.get = lru_cache(maxsize=1 << 14)(partial(_find_term, terms))  # a method would be a cycle


def _find_term(terms: pa.Array, term: str) -> int | None:
    place = bisect_left(range(len(terms)), term, key=lambda number: terms[number].as_py())
    return place if place < len(terms) and terms[place].as_py() == term else None


@dataclass(frozen=True, slots=True)
class StoredText:
    """The postings of a table, with the statistics of one of its versions, and the records that they lack.

    Row i of `index` is the record `ids[i]`, which had LanceDB's row id `row_ids[i]`; `ranks` are those of the ids, and
    `order` sorts the row ids. The rows `deleted` are no longer in the table.
    """

    index: TextIndex
    ids: pa.Array
    ranks: Ranks
    row_ids: RowIds
    order: RowNumbers
    deleted: RowNumbers
    lacking: MemoryImage

    def find_rows(self, row_ids: RowIds) -> RowNumbers:
        """Return the rows of the index with these row ids, in order, without those that it lacks."""
        return _find_rows(self.row_ids, self.order, row_ids)

    def rank(self, tokens: Sequence[str], k: int, rows: RowNumbers | None) -> tuple[RowNumbers, ScoreArray]:
        """Return the k best rows of the index, of `rows` or of all, and their scores above 0.

        Raises ValueError if the postings are damaged so that they name rows that are none.
        """
        try:
            if rows is None:
                rows = self.index.select_best(tokens, k, self.deleted)
            return rank_text(self.index, self.ranks, tokens, k, rows)
        except IndexError as error:
            raise ValueError(f"{POSTINGS} is damaged: {error}") from error


def open_text(table: Any, earlier: Any, folder: Path, schema: Schema, columns: Sequence[str]) -> StoredText | None:
    """Open the postings of `table`, or return None if it has none.

    `table` is an asynchronous LanceDB table at one version, and `earlier` opens it at another version. `columns` are
    all its columns except the vector.
    """
    now = files.read_version(folder, wait(table.version()))
    stored = files.find_text_index(now)
    if stored is None:
        return None
    made_from = files.read_version(folder, stored.made_from)
    file = pa.ipc.open_file(pa.memory_map(str(folder / "_indices" / stored.uuid / POSTINGS)))
    counts, batch = json.loads(file.schema.metadata[b"counts"]), file.get_batch(0)
    values = {name: batch.column(name).values for name in batch.schema.names}
    terms, ids = SortedTerms(values.pop("terms")), values.pop("ids")
    arrays = {name: each.to_numpy() for name, each in values.items()}
    starts, row_ids = arrays["starts"], arrays["row_ids"]
    order = np.argsort(row_ids, kind="stable")

    rows = wait(table.query().where(f"_rowid >= {first_new_row(made_from)}").select(list(columns)).to_arrow())
    lacking = widen(rows.rename_columns([field_name(name) for name in columns]))
    new = bm25.count_tokens(lacking.column("tokens").chunks)
    deleted = _list_deleted(table, now, made_from, row_ids)
    old = _count_deleted(earlier, made_from, deleted)

    def frequency(token: str) -> int:
        term = terms.get(token)
        indexed = 0 if term is None else int(starts[term + 1] - starts[term])
        return indexed + new.frequencies.get(token, 0) - old.frequencies.get(token, 0)

    filled, tokens = counts["filled"] + new.filled - old.filled, counts["tokens"] + new.tokens - old.tokens
    statistics = Statistics(filled, tokens, frequency)
    before = Statistics(counts["filled"], counts["tokens"], frequency)
    index = TextIndex(
        terms,
        starts,
        arrays["rows"],
        arrays["counts"],
        statistics.saturation(arrays["lengths"]),
        arrays["peaks"] * np.float32(max(1.0, statistics.mean / before.mean)),  # at most so much do frequencies grow
        statistics,
    )
    gone = _find_rows(row_ids, order, deleted)
    image = MemoryImage(schema, lacking, None, statistics)
    return StoredText(index, ids, arrays["ranks"], row_ids, order, gone, image)


def _find_rows(row_ids: RowIds, order: RowNumbers, some: RowIds) -> RowNumbers:
    places = np.minimum(np.searchsorted(row_ids, some, sorter=order), len(order) - 1)
    rows = order[places]
    return np.sort(rows[row_ids[rows] == some])


# ---------------------------------------------------------------- changes since the postings were written


def first_new_row(made_from: Version) -> int:
    """Return the first row id written after this version; row ids increase from fragment to fragment."""
    return (max((fragment.id for fragment in made_from.fragments), default=-1) + 1) << 32


def count_changes(now: Version, made_from: Version) -> int:
    """Return the number of records written or deleted since the version `made_from`."""
    last = first_new_row(made_from) >> 32
    row_count = sum(fragment.rows - fragment.deleted for fragment in now.fragments if fragment.id >= last)
    return row_count + made_from.rows - _count_remaining(now, made_from)


def _count_remaining(now: Version, made_from: Version) -> int:
    last = first_new_row(made_from) >> 32
    return sum(fragment.rows - fragment.deleted for fragment in now.fragments if fragment.id < last)


def _list_deleted(table: Any, now: Version, made_from: Version, row_ids: RowIds) -> RowIds:
    """Return the row ids of the indexed records that have been deleted since."""
    if _count_remaining(now, made_from) == made_from.rows:
        return row_ids[:0]
    query = table.query().where(f"_rowid < {first_new_row(made_from)}").with_row_id().select(["_rowid"])
    return np.setdiff1d(row_ids, wait(query.to_arrow()).column("_rowid").to_numpy())


def _count_deleted(earlier: Any, made_from: Version, deleted: RowIds) -> TextCounts:
    """Return the counts of the tokens of deleted records, read at the version `made_from`."""
    if not len(deleted):
        return TextCounts(0, 0, {})
    before, rows = earlier(made_from.number), deleted.tolist()
    blocks = (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))
    records = (wait(before.take_row_ids(block).select(["tokens"]).to_arrow()) for block in blocks)
    return bm25.count_tokens(chunk for table in records for chunk in table.column("tokens").chunks)
