"""Searching by LanceDB's own indexes: for collections beyond the memory budget. Approximate for vectors."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from lancedb.index import FTS, IvfFlat
from lancedb.query import MatchQuery

from ragindex.filters import Filter
from ragindex.interfaces import Found, Match, Request, Schema, Where
from ragindex.stores import lance_sql
from ragindex.stores.image import query_vector
from ragindex.stores.lance_records import one_batch, renamed
from ragindex.stores.text_index import K1
from ragindex.text import analyse

_ANN_FROM = 10_000
"""Below so many records LanceDB compares all vectors, which is quick and exact."""
_PROBED = 0.2
"""The share of an index's partitions that a search visits."""
_SPARE = 50
"""Records fetched beyond k, so that equal scores at the edge are cut by id."""


def build(table: Any, schema: Schema) -> None:
    """Make the indexes anew: the statistics behind BM25 then know just the records that are there."""
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
    if schema.dimensions and table.count_rows() >= _ANN_FROM:
        table.create_index(
            "vector", config=IvfFlat(distance_type="cosine", num_partitions=_partitions(table)), replace=True
        )


def _partitions(table: Any) -> int:
    return max(1, int(np.sqrt(table.count_rows())))


def search(table: Any, schema: Schema, request: Request, condition: Callable[[Filter], str]) -> Found:
    """Answer one request; scores are those of the exact search: cosines, and BM25 without k1 + 1.

    Raises UsageError for fields that are not there and for vectors of another length or not finite.
    """
    count = table.count_rows()
    if isinstance(request, Where):
        rows = _fetch(table.search(), request, None, "", condition, table)
        return _found(rows, np.zeros(len(rows)), request)
    limit = min(request.k, count) + _SPARE
    if isinstance(request, Match):
        tokens = analyse(request.text, schema.language)
        if not tokens:
            return _nothing(table, request)
        rows = _fetch(table.search(MatchQuery(" ".join(tokens), "tokens")), request, limit, "_score", condition, table)
        return _found(rows, rows.column("_score").to_numpy() / (K1 + 1), request)
    if not query_vector(request.vector, schema.dimensions).any():
        return _nothing(table, request)
    near = table.search(request.vector, vector_column_name="vector").distance_type("cosine")
    probing = near.nprobes(max(1, int(_partitions(table) * _PROBED)))
    rows = _fetch(probing, request, limit, "_distance", condition, table)
    if len(rows) < min(request.k, count):  # the partitions visited did not hold enough: compare all
        everywhere = table.search(request.vector, vector_column_name="vector").distance_type("cosine")
        rows = _fetch(everywhere.bypass_vector_index(), request, limit, "_distance", condition, table)
    return _found(rows, 1 - rows.column("_distance").to_numpy(), request)


def _nothing(table: Any, request: Request) -> Found:
    nowhere = replace(request, where=None)
    return _found(_fetch(table.search().where("false"), nowhere, None, "", str, table), np.zeros(0), request)


def _fetch(
    query: Any, request: Request, limit: int | None, score: str, condition: Callable[[Filter], str], table: Any
) -> pa.Table:
    """The records of a query, with the fields asked for under their own names, and the column `score`."""
    if request.where is not None:
        clause = condition(request.where)
        query = query.where(clause, prefilter=True) if score else query.where(clause)
    present = set(table.schema.names)
    columns = [name for name in map(lance_sql.column, ("id", *request.fields)) if name in present]
    rows = query.select([*columns, score] if score else columns).limit(limit).to_arrow()
    named = renamed(rows.drop_columns([score]) if score else rows, ("id", *request.fields))
    return named.append_column(score, rows.column(score)) if score else named


def _found(rows: pa.Table, scores: Any, request: Request) -> Found:
    ids = rows.column("id").to_pylist()
    order = sorted(range(len(ids)), key=lambda row: (-scores[row], ids[row]))[: max(request.k, 0)]
    kept = one_batch(rows.select(["id", *request.fields]).take(pa.array(order, pa.int64())))
    return Found([ids[row] for row in order], np.array([scores[row] for row in order], dtype=np.float64), kept)
