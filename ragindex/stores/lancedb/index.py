"""Searching by LanceDB's own indexes: for collections beyond the memory budget.

Approximate for vectors, but for records named by their ids: those are read and compared exactly.
"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lancedb.background_loop import LOOP
from lancedb.query import MatchQuery

from ragindex.filters import Ids
from ragindex.interfaces import FilterQuery, Schema, SearchRequest, SearchResult, TextQuery, VectorQuery
from ragindex.stores.lancedb import bm25_statistics, sql
from ragindex.stores.lancedb.bm25_statistics import CollectionStatistics
from ragindex.stores.lancedb.records import combine_chunks, select_columns
from ragindex.stores.large_strings import widen
from ragindex.stores.memory import bm25
from ragindex.stores.memory.bm25 import K1
from ragindex.stores.memory.search import MemoryImage, ScoreArray, check_query_vector
from ragindex.text_analysis import analyse

_PROBED = 0.2
"""The share of an index's partitions that a search visits, and more where these do not hold enough."""
_SPARE = 50
"""Records fetched beyond k, so that equal scores at the edge are cut by id."""
_FLOAT32 = 1e-5
"""What float32 may lose of a score, as a share of it."""
_FEW = 2_000
"""So many records named by their ids are read with their vectors, which is quicker than a filtered search."""


@dataclass(frozen=True)
class SearchTable:
    """A LanceDB table at one version, opened for searches, with what each of them asks of it."""

    table: Any
    schema: Schema
    columns: sql.TableColumns
    count: int
    folder: Path
    earlier: Callable[[int], Any]

    @cached_property
    def texts(self) -> list[str]:
        """Its columns without the vector, as a table in memory has them."""
        return sorted(self.columns.names - {"vector"})

    @cached_property
    def statistics(self) -> CollectionStatistics | None:
        """What its text is searched by; None where it has no index of it."""
        return bm25_statistics.open_statistics(self.table, self.earlier, self.folder, self.schema, self.texts)


Searching: TypeAlias = Generator[Any, pa.Table, list[SearchResult]]
"""Yields a query, is sent its rows, and so on until it has the answers."""


def connect_async(folder: Path) -> Any:
    """A connection for `opened`."""
    return LOOP.run(lancedb.connect_async(folder))


def open_table(connection: Any, folder: Path, name: str, version: int, schema: Schema) -> SearchTable:
    """The collection `name`, in `folder`, for searches; `connection` is one of LanceDB's asynchronous ones."""

    async def at(version: int) -> Any:
        table = await connection.open_table(name)
        await table.checkout(version)
        return table

    async def opening() -> SearchTable:
        table = await at(version)
        columns = sql.TableColumns.of(await table.schema())
        rows = await table.count_rows()
        return SearchTable(table, schema, columns, rows, folder, lambda other: LOOP.run(at(other)))

    return LOOP.run(opening())  # type: ignore[no-any-return]


def choose_partitions(count: int) -> int:
    """Into how many parts an index of so many vectors is divided."""
    return max(1, int(np.sqrt(count)))


def search_tables(asked: Sequence[tuple[SearchTable, Sequence[SearchRequest]]]) -> list[list[SearchResult]]:
    """Answer requests to several tables; scores are those of the exact search: cosines, and BM25 without k1 + 1.

    LanceDB is waited for once for all of them, for each wait costs more than a small query.
    Raises UsageError for fields that are not there and for vectors of another length or not finite.
    """
    works, places = list[Searching](), list[list[tuple[int, int]]]()
    for number, (table, requests) in enumerate(asked):
        named, unindexed = _named(requests), _unindexed(table, requests)
        for some, work in ((named, _exact), (unindexed, _whole)):
            if some:
                works.append(work(table, [requests[n] for n in some]))
                places.append([(number, n) for n in some])
        for n in sorted(set(range(len(requests))) - {*named, *unindexed}):
            works.append(_one(table, requests[n]))
            places.append([(number, n)])
    found = {
        place: one
        for those, answers in zip(places, _run(works), strict=True)
        for place, one in zip(those, answers, strict=True)
    }
    return [[found[number, n] for n in range(len(requests))] for number, (_, requests) in enumerate(asked)]


def _run(works: Sequence[Searching]) -> list[list[SearchResult]]:
    found, sent = dict[int, list[SearchResult]](), dict[int, pa.Table | None](dict.fromkeys(range(len(works))))
    while sent:
        waiting = {}
        for n, rows in sent.items():
            try:
                waiting[n] = works[n].send(rows)
            except StopIteration as over:
                found[n] = over.value
        sent = dict(zip(waiting, LOOP.run(_read(list(waiting.values()))), strict=True)) if waiting else {}
    return [found[n] for n in range(len(works))]


async def _read(queries: Sequence[Any]) -> list[pa.Table]:
    return await asyncio.gather(*(query.to_arrow() for query in queries))


def _named(requests: Sequence[SearchRequest]) -> list[int]:
    """The places of requests within a few records, named by their ids: these are read at once."""
    named = [n for n, one in enumerate(requests) if isinstance(one.where, Ids) and not isinstance(one, TextQuery)]
    return named if len(_ids([requests[n] for n in named])) <= _FEW else []


def _unindexed(table: SearchTable, requests: Sequence[SearchRequest]) -> list[int]:
    """The places of searches for text where it is in no index: it is then read whole, once for all of them."""
    texts = [n for n, one in enumerate(requests) if isinstance(one, TextQuery)]
    return texts if texts and table.statistics is None else []


def _whole(table: SearchTable, requests: Sequence[SearchRequest]) -> Searching:
    """Answer from all texts in memory, released afterwards: exact and slow."""
    rows = yield table.table.query().select(table.texts)
    named = rows.rename_columns([sql.field_name(name) for name in rows.column_names])
    found = MemoryImage(table.schema, named, None).search([_bare(one) for one in requests])
    whole = list[SearchResult]()
    for one, request in zip(found, requests, strict=True):
        whole.append((yield from _with_vectors(table, one, request)))
    return whole


def _bare(request: SearchRequest) -> SearchRequest:
    return replace(request, fields=tuple(field for field in request.fields if field != "vector"))


def _with_vectors(
    table: SearchTable, found: SearchResult, request: SearchRequest
) -> Generator[Any, pa.Table, SearchResult]:
    """The same with the vectors, which are not in memory, where they are asked for."""
    if "vector" not in request.fields:
        return found
    rows = yield _query(table, table.table.query(), FilterQuery(Ids(tuple(found.ids)), 0, request.fields))
    return replace(found, records=_image(table, rows, request.fields).get(found.ids, request.fields))


def _ids(requests: Sequence[SearchRequest]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(id for one in requests if isinstance(one.where, Ids) for id in one.where.ids))


def _one(table: SearchTable, request: SearchRequest) -> Searching:
    if isinstance(request, FilterQuery):
        rows = yield _query(table, table.table.query(), request)
        return [_found(_renamed(rows, request.fields), np.zeros(len(rows)), request)]
    if isinstance(request, TextQuery):
        found = yield from _matching(table, _bare(request))
        return [(yield from _with_vectors(table, found, request))]
    return [(yield from _nearest(table, request))]


def _exact(table: SearchTable, requests: Sequence[SearchRequest]) -> Searching:
    """The answers to requests within few ids, from those records in memory.

    Where only some of them are wanted, the others' vectors are read and not their fields, which take longer.
    """
    ids, near = _ids(requests), any(isinstance(one, VectorQuery) for one in requests)
    for one in requests:
        if isinstance(one, VectorQuery):
            check_query_vector(one.vector, table.schema.dimensions)
    fields = tuple(dict.fromkeys(field for one in requests for field in one.fields))
    if near and fields and sum(one.k for one in requests) < len(ids):
        ranked = yield from _exact(table, [replace(one, fields=()) for one in requests])
        ids = tuple(dict.fromkeys(id for one in ranked for id in one.ids))
        rows = yield _query(table, table.table.query(), FilterQuery(Ids(ids), 0, fields))
        image = _image(table, rows, fields)
        return [
            replace(one, records=image.get(one.ids, each.fields)) for one, each in zip(ranked, requests, strict=True)
        ]
    wanted = FilterQuery(Ids(ids), 0, tuple(dict.fromkeys((*fields, "vector") if near else fields)))
    rows = yield _query(table, table.table.query(), wanted)
    return _image(table, rows, wanted.fields).search(requests)


def _image(table: SearchTable, rows: pa.Table, fields: Sequence[str]) -> MemoryImage:
    named = _renamed(rows, tuple(dict.fromkeys(fields)))
    if "vector" not in fields:
        return MemoryImage(table.schema, named, None)
    values = named.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return MemoryImage(
        table.schema, named.drop_columns(["vector"]), values.reshape(len(named), table.schema.dimensions or 0)
    )


def _matching(table: SearchTable, request: SearchRequest) -> Generator[Any, pa.Table, SearchResult]:
    """What the index finds, scored as from memory, beside what it lacks. More is fetched until nothing that was not
    could be better: the index's own scores, of older statistics, bound the true ones.
    """
    assert isinstance(request, TextQuery)  # noqa: S101  # without its vectors
    tokens, statistics = analyse(request.text, table.schema.language), table.statistics
    if not tokens or statistics is None:
        return (yield from _nothing(table, request))
    [found] = statistics.lacking.search([request])
    size = min(request.k, table.count) + _SPARE
    while statistics.finds(tokens):
        indexed = table.table.query().nearest_to_text(MatchQuery(" ".join(tokens), "tokens")).fast_search()
        rows = yield _query(table, indexed, request, "tokens", "_score").limit(size)
        both = _both(found, rows, bm25.build_text_index(_texts(rows), statistics.statistics).scores(tokens), request)
        if len(rows) < size or _proven(both, rows, statistics.looseness(tokens), request.k):
            return both
        size *= 4
    return found


def _texts(rows: pa.Table) -> pa.Array:
    return widen(rows).column("tokens").combine_chunks()


def _proven(found: SearchResult, rows: pa.Table, looseness: float, k: int) -> bool:
    """Whether the k-th best score is beyond what any record can have that the index has not given yet."""
    least = float(pc.min(rows.column("_score")).as_py()) / (K1 + 1)
    return k <= 0 or (len(found.ids) >= k and bool(found.scores[k - 1] > least * looseness * (1 + _FLOAT32)))


def _both(lacking: SearchResult, rows: pa.Table, scores: ScoreArray, request: TextQuery) -> SearchResult:
    """The best of what the index lacks and of what it has found."""
    found = [pa.Table.from_batches([lacking.records]), _renamed(rows, request.fields)]
    return _found(pa.concat_tables(found), np.concatenate([lacking.scores, scores]), request)


def _nearest(table: SearchTable, request: VectorQuery) -> Generator[Any, pa.Table, SearchResult]:
    if not check_query_vector(request.vector, table.schema.dimensions).any():
        return (yield from _nothing(table, request))
    limit = min(request.k, table.count) + _SPARE
    near = table.table.query().nearest_to(request.vector).column("vector").distance_type("cosine")
    near = near.maximum_nprobes(0).minimum_nprobes(max(1, int(choose_partitions(table.count) * _PROBED)))
    rows = yield _query(table, near, request, "_distance").limit(limit)
    return _found(_renamed(rows, request.fields), 1 - rows.column("_distance").to_numpy(), request)


def _nothing(table: SearchTable, request: SearchRequest) -> Generator[Any, pa.Table, SearchResult]:
    rows = yield _query(table, table.table.query().where("false"), replace(request, where=None))
    return _found(_renamed(rows, request.fields), np.zeros(0), request)


def _query(table: SearchTable, query: Any, request: SearchRequest, *score: str) -> Any:
    if request.where is not None:
        query = query.where(sql.translate_to_sql(request.where, table.columns))
    columns = dict.fromkeys(map(sql.column_name, ("id", *request.fields)))
    return query.select([*(name for name in columns if name in table.columns.names), *score])


def _renamed(rows: pa.Table, fields: Sequence[str]) -> pa.Table:
    """The fields asked for, under their own names."""
    return widen(select_columns(rows, ("id", *fields)))


def _found(rows: pa.Table, scores: Any, request: SearchRequest) -> SearchResult:
    ids = rows.column("id").to_pylist()
    order = sorted(range(len(ids)), key=lambda row: (-scores[row], ids[row]))[: max(request.k, 0)]
    kept = combine_chunks(rows.select(["id", *request.fields]).take(pa.array(order, pa.int64())))
    return SearchResult([ids[row] for row in order], np.array([scores[row] for row in order], dtype=np.float64), kept)
