"""Searching by LanceDB's own indexes: for collections beyond the memory budget.

Approximate for vectors, but for records named by their ids: those are read and compared exactly.
"""

import asyncio
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.background_loop import LOOP
from lancedb.index import FTS, BTree, IvfFlat, LabelList
from lancedb.query import MatchQuery

from ragindex.filters import Ids
from ragindex.interfaces import Found, Match, Nearest, Request, Schema, Where
from ragindex.stores import lance_sql
from ragindex.stores.image import Image, query_vector
from ragindex.stores.lance_records import one_batch, renamed
from ragindex.stores.text_index import K1
from ragindex.text import analyse

_ANN_FROM = 10_000
"""Below so many records LanceDB compares all vectors, which is quick and exact."""
_LACKING = 0.1
"""The share of vectors that an index may lack: making it anew takes seconds, and is not worth it for one document."""
_PROBED = 0.2
"""The share of an index's partitions that a search visits, and more where these do not hold enough."""
_SPARE = 50
"""Records fetched beyond k, so that equal scores at the edge are cut by id."""
_FEW = 2_000
"""So many records named by their ids are read with their vectors, which is quicker than a filtered search."""


@dataclass(frozen=True, slots=True)
class Table:
    """A LanceDB table at one version, opened for searches, with what each of them asks of it."""

    table: Any
    schema: Schema
    columns: lance_sql.Columns
    count: int


Searching: TypeAlias = Generator[Any, pa.Table, list[Found]]
"""Yields a query, is sent its rows, and so on until it has the answers."""


def connected(folder: Path) -> Any:
    """A connection for `opened`."""
    return LOOP.run(lancedb.connect_async(folder))


def opened(connection: Any, name: str, version: int, schema: Schema) -> Table:
    """The collection `name` for searches; `connection` is one of LanceDB's asynchronous ones."""

    async def opening() -> Table:
        table = await connection.open_table(name)
        await table.checkout(version)
        columns = lance_sql.Columns.of(await table.schema())
        return Table(table, schema, columns, await table.count_rows())

    return LOOP.run(opening())  # type: ignore[no-any-return]


def build_lookups(table: Any, schema: Schema) -> None:
    """Indexes of ids and keywords: a filter then takes as long in a large collection as in a small one."""
    held = {column for index in table.list_indices() for column in index.columns}
    for column, kind in (("id", BTree()), *((keyword, LabelList()) for keyword in schema.keywords)):
        if column not in held:
            table.create_index(column, config=kind)


def build_searches(table: Any, schema: Schema) -> None:
    """Make the index of text anew, so that the statistics behind BM25 know just what is there, and that of vectors
    where it lacks many: until then LanceDB compares those that it lacks one by one.
    """
    if schema.text and table.count_rows():
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
    if schema.dimensions and table.count_rows() >= _ANN_FROM and _unindexed(table) > _LACKING * table.count_rows():
        partitions = _partitions(table.count_rows())
        table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=partitions), replace=True)


def _unindexed(table: Any) -> int:
    """The vectors that are in no index."""
    (name,) = [index.name for index in table.list_indices() if index.columns == ["vector"]] or [None]
    stats = None if name is None else table.index_stats(name)
    return int(table.count_rows() if stats is None else stats.num_unindexed_rows)


def _partitions(count: int) -> int:
    return max(1, int(np.sqrt(count)))


def search(asked: Sequence[tuple[Table, Sequence[Request]]]) -> list[list[Found]]:
    """Answer requests to several tables; scores are those of the exact search: cosines, and BM25 without k1 + 1.

    LanceDB is waited for once for all of them, for each wait costs more than a small query.
    Raises UsageError for fields that are not there and for vectors of another length or not finite.
    """
    works, places = list[Searching](), list[list[tuple[int, int]]]()
    for number, (table, requests) in enumerate(asked):
        named = _named(requests)
        if named:
            works.append(_exact(table, [requests[n] for n in named]))
            places.append([(number, n) for n in named])
        for n in sorted(set(range(len(requests))) - set(named)):
            works.append(_one(table, requests[n]))
            places.append([(number, n)])
    found = {
        place: one
        for those, answers in zip(places, _run(works), strict=True)
        for place, one in zip(those, answers, strict=True)
    }
    return [[found[number, n] for n in range(len(requests))] for number, (_, requests) in enumerate(asked)]


def _run(works: Sequence[Searching]) -> list[list[Found]]:
    found, waiting = dict[int, list[Found]](), {n: next(work) for n, work in enumerate(works)}
    while waiting:
        rows, asking = LOOP.run(_read(list(waiting.values()))), waiting
        waiting = {}
        for n, table in zip(asking, rows, strict=True):
            try:
                waiting[n] = works[n].send(table)
            except StopIteration as over:
                found[n] = over.value
    return [found[n] for n in range(len(works))]


async def _read(queries: Sequence[Any]) -> list[pa.Table]:
    return await asyncio.gather(*(query.to_arrow() for query in queries))


def _named(requests: Sequence[Request]) -> list[int]:
    """The places of requests within a few records, named by their ids: these are read at once."""
    named = [n for n, one in enumerate(requests) if isinstance(one.where, Ids) and not isinstance(one, Match)]
    return named if len(_ids([requests[n] for n in named])) <= _FEW else []


def _ids(requests: Sequence[Request]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(id for one in requests if isinstance(one.where, Ids) for id in one.where.ids))


def _one(table: Table, request: Request) -> Searching:
    if isinstance(request, Where):
        rows = yield _query(table, table.table.query(), request)
        return [_found(_renamed(rows, request.fields), np.zeros(len(rows)), request)]
    if isinstance(request, Match):
        return [(yield from _matching(table, request))]
    return [(yield from _nearest(table, request))]


def _exact(table: Table, requests: Sequence[Request]) -> Searching:
    """The answers to requests within few ids, from those records in memory.

    Where only some of them are wanted, the others' vectors are read and not their fields, which take longer.
    """
    ids, near = _ids(requests), any(isinstance(one, Nearest) for one in requests)
    for one in requests:
        if isinstance(one, Nearest):
            query_vector(one.vector, table.schema.dimensions)
    fields = tuple(dict.fromkeys(field for one in requests for field in one.fields))
    if near and fields and sum(one.k for one in requests) < len(ids):
        ranked = yield from _exact(table, [replace(one, fields=()) for one in requests])
        ids = tuple(dict.fromkeys(id for one in ranked for id in one.ids))
        rows = yield _query(table, table.table.query(), Where(Ids(ids), 0, fields))
        image = _image(table, rows, fields)
        return [
            replace(one, records=image.get(one.ids, each.fields)) for one, each in zip(ranked, requests, strict=True)
        ]
    wanted = Where(Ids(ids), 0, tuple(dict.fromkeys((*fields, "vector") if near else fields)))
    rows = yield _query(table, table.table.query(), wanted)
    return _image(table, rows, wanted.fields).search(requests)


def _image(table: Table, rows: pa.Table, fields: Sequence[str]) -> Image:
    named = _renamed(rows, tuple(dict.fromkeys(fields)))
    if "vector" not in fields:
        return Image(table.schema, named, None)
    values = named.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return Image(table.schema, named.drop_columns(["vector"]), values.reshape(len(named), table.schema.dimensions or 0))


def _matching(table: Table, request: Match) -> Generator[Any, pa.Table, Found]:
    tokens = analyse(request.text, table.schema.language)
    if not tokens:
        return (yield from _nothing(table, request))
    words = table.table.query().nearest_to_text(MatchQuery(" ".join(tokens), "tokens"))
    rows = yield _query(table, words, request, "_score").limit(min(request.k, table.count) + _SPARE)
    scores = rows.column("_score").to_numpy() / (K1 + 1)
    return _found(_renamed(rows, request.fields), scores, request)


def _nearest(table: Table, request: Nearest) -> Generator[Any, pa.Table, Found]:
    if not query_vector(request.vector, table.schema.dimensions).any():
        return (yield from _nothing(table, request))
    limit = min(request.k, table.count) + _SPARE
    near = table.table.query().nearest_to(request.vector).column("vector").distance_type("cosine")
    near = near.maximum_nprobes(0).minimum_nprobes(max(1, int(_partitions(table.count) * _PROBED)))
    rows = yield _query(table, near, request, "_distance").limit(limit)
    return _found(_renamed(rows, request.fields), 1 - rows.column("_distance").to_numpy(), request)


def _nothing(table: Table, request: Request) -> Generator[Any, pa.Table, Found]:
    rows = yield _query(table, table.table.query().where("false"), replace(request, where=None))
    return _found(_renamed(rows, request.fields), np.zeros(0), request)


def _query(table: Table, query: Any, request: Request, *score: str) -> Any:
    if request.where is not None:
        query = query.where(lance_sql.condition(request.where, table.columns))
    columns = dict.fromkeys(map(lance_sql.column, ("id", *request.fields)))
    return query.select([*(name for name in columns if name in table.columns.names), *score])


def _renamed(rows: pa.Table, fields: Sequence[str]) -> pa.Table:
    """The fields asked for, under their own names."""
    return renamed(
        rows.drop_columns([name for name in ("_score", "_distance") if name in rows.schema.names]), ("id", *fields)
    )


def _found(rows: pa.Table, scores: Any, request: Request) -> Found:
    ids = rows.column("id").to_pylist()
    order = sorted(range(len(ids)), key=lambda row: (-scores[row], ids[row]))[: max(request.k, 0)]
    kept = one_batch(rows.select(["id", *request.fields]).take(pa.array(order, pa.int64())))
    return Found([ids[row] for row in order], np.array([scores[row] for row in order], dtype=np.float64), kept)
