"""Search through indexes on disk, for collections beyond the memory budget.

Vector searches are approximate, except among records given by id, which are read and compared exactly.
"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ragindex.filters import Ids
from ragindex.interfaces import FilterQuery, Floats, Schema, SearchRequest, SearchResult, TextQuery, VectorQuery
from ragindex.stores.lancedb import maintenance, sql, text_index
from ragindex.stores.lancedb.engine import wait
from ragindex.stores.lancedb.text_index import StoredText
from ragindex.stores.memory.search import MemoryImage, check_query_vector, exact_cosines, unit_query
from ragindex.stores.records import column_name, combine_chunks, field_name, select_columns, widen
from ragindex.text_analysis import analyse

_PROBE_SHARE = 0.2
"""The share of an index's partitions that a search visits; it visits more if these contain too few records."""
_SPARE = 50
"""Records fetched beyond k, so that ties at the cutoff are resolved by id."""
_FEW = 2_000
"""The most records given by id that are read with their vectors, which is faster than a filtered search."""


@dataclass(frozen=True)
class SearchTable:
    """A LanceDB table at one version, opened for searches. `earlier` opens the table at another version."""

    table: Any
    schema: Schema
    columns: sql.TableColumns
    count: int
    folder: Path
    earlier: Callable[[int], Any]

    @cached_property
    def texts(self) -> list[str]:
        """The names of all columns except the vector."""
        return sorted(self.columns.names - {"vector"})

    @cached_property
    def text(self) -> StoredText | None:
        """The postings for text searches; None if there are none."""
        return text_index.open_text(self.table, self.earlier, self.folder, self.schema, self.texts)


Searching: TypeAlias = Generator[Any, pa.Table, list[SearchResult]]
"""A generator that yields queries, receives their rows, and returns the results of its requests."""


def open_table(connection: Any, folder: Path, name: str, version: int, schema: Schema) -> SearchTable:
    """Open the table `name`, stored in `folder`, for searches through an asynchronous LanceDB connection."""

    async def at(version: int) -> Any:
        table = await connection.open_table(name)
        await table.checkout(version)
        return table

    async def opening() -> SearchTable:
        table = await at(version)
        columns = sql.TableColumns.of(await table.schema())
        rows = await table.count_rows()
        return SearchTable(table, schema, columns, rows, folder, lambda other: wait(at(other)))

    return wait(opening())


def search_tables(searches: Sequence[tuple[SearchTable, Sequence[SearchRequest]]]) -> list[list[SearchResult]]:
    """Answer requests to several tables. The scores are those of the exact search: cosines, and BM25 without k1 + 1.

    The queries of all tables run concurrently, because waiting for LanceDB costs more than a small query.
    Raises UsageError if a field is unknown, or if a vector has another length or is not finite.
    """
    works, places = list[Searching](), list[list[tuple[int, int]]]()
    for number, (table, requests) in enumerate(searches):
        by_ids, unindexed = _find_id_requests(requests), _find_unindexed(table, requests)
        for numbers, work in ((by_ids, _search_ids), (unindexed, _search_all_texts)):
            if numbers:
                works.append(work(table, [requests[n] for n in numbers]))
                places.append([(number, n) for n in numbers])
        for n in sorted(set(range(len(requests))) - {*by_ids, *unindexed}):
            works.append(_search_one(table, requests[n]))
            places.append([(number, n)])
    results = {
        place: result
        for group, answers in zip(places, _run_searches(works), strict=True)
        for place, result in zip(group, answers, strict=True)
    }
    return [[results[number, n] for n in range(len(requests))] for number, (_, requests) in enumerate(searches)]


def _run_searches(works: Sequence[Searching]) -> list[list[SearchResult]]:
    results, tables = dict[int, list[SearchResult]](), dict[int, pa.Table | None](dict.fromkeys(range(len(works))))
    while tables:
        waiting = {}
        for n, rows in tables.items():
            try:
                waiting[n] = works[n].send(rows)
            except StopIteration as over:
                results[n] = over.value
        tables = dict(zip(waiting, wait(_read(list(waiting.values()))), strict=True)) if waiting else {}
    return [results[n] for n in range(len(works))]


async def _read(queries: Sequence[Any]) -> list[pa.Table]:
    return await asyncio.gather(*(query.to_arrow() for query in queries))


def _find_id_requests(requests: Sequence[SearchRequest]) -> list[int]:
    """Return the positions of requests that are filtered by a few ids; those records are read at once."""
    numbers = [
        n for n, request in enumerate(requests) if isinstance(request.where, Ids) and not isinstance(request, TextQuery)
    ]
    return numbers if len(_collect_ids([requests[n] for n in numbers])) <= _FEW else []


def _find_unindexed(table: SearchTable, requests: Sequence[SearchRequest]) -> list[int]:
    """Return the positions of text searches if there is no text index; all texts are then read once for all of them."""
    texts = [n for n, request in enumerate(requests) if isinstance(request, TextQuery)]
    return texts if texts and table.text is None else []


def _search_all_texts(table: SearchTable, requests: Sequence[SearchRequest]) -> Searching:
    """Read all texts into memory and search them, which is exact and slow. The memory is released afterwards."""
    rows = yield table.table.query().select(table.texts)
    renamed = rows.rename_columns([field_name(name) for name in rows.column_names])
    results = MemoryImage(table.schema, renamed, None).search([_drop_vector(request) for request in requests])
    complete = list[SearchResult]()
    for result, request in zip(results, requests, strict=True):
        complete.append((yield from _add_vectors(table, result, request)))
    return complete


def _drop_vector(request: SearchRequest) -> SearchRequest:
    return replace(request, fields=tuple(field for field in request.fields if field != "vector"))


def _add_vectors(
    table: SearchTable, result: SearchResult, request: SearchRequest
) -> Generator[Any, pa.Table, SearchResult]:
    """Add the vectors, which are not in memory, to a result if the request asks for them."""
    if "vector" not in request.fields:
        return result
    rows = yield _build_query(table, table.table.query(), FilterQuery(Ids(tuple(result.ids)), 0, request.fields))
    return replace(result, records=_build_image(table, rows, request.fields).get(result.ids, request.fields))


def _collect_ids(requests: Sequence[SearchRequest]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(id for request in requests if isinstance(request.where, Ids) for id in request.where.ids)
    )


def _search_one(table: SearchTable, request: SearchRequest) -> Searching:
    if isinstance(request, FilterQuery):
        rows = yield _build_query(table, table.table.query(), request)
        return [_build_result(_rename_columns(rows, request.fields), np.zeros(len(rows)), request)]
    if isinstance(request, TextQuery):
        result = yield from _search_text(table, _drop_vector(request))
        return [(yield from _add_vectors(table, result, request))]
    return [(yield from _search_vectors(table, request))]


def _search_ids(table: SearchTable, requests: Sequence[SearchRequest]) -> Searching:
    """Answer requests that are filtered by a few ids, from those records in memory.

    If fewer records are wanted than there are ids, only vectors are read first, because reading fields takes longer.
    """
    ids, near = _collect_ids(requests), any(isinstance(request, VectorQuery) for request in requests)
    for request in requests:
        if isinstance(request, VectorQuery):
            check_query_vector(request.vector, table.schema.dimensions)
    fields = tuple(dict.fromkeys(field for request in requests for field in request.fields))
    if near and fields and sum(request.k for request in requests) < len(ids):
        ranked = yield from _search_ids(table, [replace(request, fields=()) for request in requests])
        ids = tuple(dict.fromkeys(id for result in ranked for id in result.ids))
        rows = yield _build_query(table, table.table.query(), FilterQuery(Ids(ids), 0, fields))
        image = _build_image(table, rows, fields)
        pairs = zip(ranked, requests, strict=True)
        return [replace(result, records=image.get(result.ids, request.fields)) for result, request in pairs]
    query = FilterQuery(Ids(ids), 0, tuple(dict.fromkeys((*fields, "vector") if near else fields)))
    rows = yield _build_query(table, table.table.query(), query)
    return _build_image(table, rows, query.fields).search(requests)


def _build_image(table: SearchTable, rows: pa.Table, fields: Sequence[str]) -> MemoryImage:
    renamed = _rename_columns(rows, tuple(dict.fromkeys(fields)))
    if "vector" not in fields:
        return MemoryImage(table.schema, renamed, None)
    vectors = _read_vectors(renamed, table.schema.dimensions or 0)
    return MemoryImage(table.schema, renamed.drop_columns(["vector"]), vectors)


def _read_vectors(rows: pa.Table, dimensions: int) -> Floats:
    values: Floats = rows.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(rows), dimensions)


def _search_text(table: SearchTable, request: SearchRequest) -> Generator[Any, pa.Table, SearchResult]:
    """Search the postings, and the records that they lack, with exact BM25 scores."""
    assert isinstance(request, TextQuery)  # noqa: S101  # a text query without the vector field
    tokens, text = analyse(request.text, table.schema.language), table.text
    if not tokens or text is None:
        return (yield from _search_nothing(table, request))
    passing = None
    if request.where is not None:
        where = sql.translate_to_sql(request.where, table.columns)
        passing_rows = yield table.table.query().where(where).with_row_id().select([])
        passing = text.find_rows(passing_rows.column("_rowid").to_numpy())
    rows, scores = text.rank(tokens, request.k, passing)
    [lacking] = text.lacking.search([request])
    if not len(rows):
        return lacking
    if request.fields:
        order = np.argsort(text.row_ids[rows])  # LanceDB returns records in this order
        rows, scores = rows[order], scores[order]
        taken = table.table.take_row_ids(text.row_ids[rows].tolist())
        indexed = yield taken.select(_list_columns(table, request))
    else:
        indexed = pa.table({"id": text.ids.take(pa.array(rows))})
    both = pa.concat_tables([pa.Table.from_batches([lacking.records]), _rename_columns(indexed, request.fields)])
    return _build_result(both, np.concatenate([lacking.scores, scores]), request)


def _search_vectors(table: SearchTable, request: VectorQuery) -> Generator[Any, pa.Table, SearchResult]:
    """Search the vector index, and compute the cosines of its candidates in float64, as searches in memory do.

    The index compares vectors of bytes, and LanceDB's own cosines are float32: they tie where exact ones differ, which
    moves hits, and scores that depend on their ranks.
    """
    unit = unit_query(request.vector, table.schema.dimensions)
    if not unit.any():
        return (yield from _search_nothing(table, request))
    limit = min(request.k, table.count) + _SPARE
    near = table.table.query().nearest_to(request.vector).column("vector").distance_type("cosine")
    near = near.maximum_nprobes(0).minimum_nprobes(
        max(1, int(maintenance.choose_partitions(table.count) * _PROBE_SHARE))
    )
    with_vectors = replace(request, fields=(*request.fields, "vector"))
    rows = yield _build_query(table, near, with_vectors, "_distance").limit(limit)
    scores = exact_cosines(_read_vectors(rows, len(unit)), unit)
    return _build_result(_rename_columns(rows, request.fields), scores, request)


def _search_nothing(table: SearchTable, request: SearchRequest) -> Generator[Any, pa.Table, SearchResult]:
    rows = yield _build_query(table, table.table.query().where("false"), replace(request, where=None))
    return _build_result(_rename_columns(rows, request.fields), np.zeros(0), request)


def _build_query(table: SearchTable, query: Any, request: SearchRequest, *score: str) -> Any:
    if request.where is not None:
        query = query.where(sql.translate_to_sql(request.where, table.columns))
    return query.select([*_list_columns(table, request), *score])


def _list_columns(table: SearchTable, request: SearchRequest) -> list[str]:
    """Return the columns of the id and the fields of a request that exist."""
    columns = dict.fromkeys(map(column_name, ("id", *request.fields)))
    return [name for name in columns if name in table.columns.names]


def _rename_columns(rows: pa.Table, fields: Sequence[str]) -> pa.Table:
    """Return `id` and `fields` of the rows, renamed from columns to fields."""
    return widen(select_columns(rows, ("id", *fields)))


def _build_result(rows: pa.Table, scores: Any, request: SearchRequest) -> SearchResult:
    ids = rows.column("id").to_pylist()
    order = sorted(range(len(ids)), key=lambda row: (-scores[row], ids[row]))[: max(request.k, 0)]
    records = combine_chunks(rows.select(["id", *request.fields]).take(pa.array(order, pa.int64())))
    return SearchResult(
        [ids[row] for row in order], np.array([scores[row] for row in order], dtype=np.float64), records
    )
