"""Searching by LanceDB's own indexes: for collections beyond the memory budget. Approximate for vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ragindex.filters import Filter
from ragindex.interfaces import Found, Match, Nearest, Request, Schema
from ragindex.stores import lance_sql
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
    from lancedb.index import FTS, IvfFlat

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
        table.create_index("vector", config=IvfFlat(distance_type="cosine"), replace=True)


def search(table: Any, schema: Schema, request: Request, condition: Callable[[Filter], str]) -> Found:
    """Answer one request; scores are those of the exact search (cosine, BM25 without k1 + 1) where LanceDB's are."""
    columns = [lance_sql.column(name) for name in ("id", *request.fields)]
    query, score = _query(table, schema, request)
    if query is None:
        return _found(pa.table({name: pa.array([], table.schema.field(name).type) for name in columns}), [], request)
    if request.where is not None:
        query = (
            query.where(condition(request.where), prefilter=True) if score else query.where(condition(request.where))
        )
    limit = request.k + _SPARE if score else None
    rows = query.select([*columns, score] if score else columns).limit(limit).to_arrow()
    if score == "_distance":
        return _found(rows, 1 - rows.column(score).to_numpy(), request)
    return _found(rows, rows.column(score).to_numpy() / (K1 + 1) if score else np.zeros(len(rows)), request)


def _query(table: Any, schema: Schema, request: Request) -> tuple[Any, str]:
    """The query and the column its score is in; no query where nothing can be found."""
    from lancedb.query import MatchQuery

    if isinstance(request, Nearest):
        if not request.vector.any():
            return None, ""
        partitions = max(1, int(np.sqrt(table.count_rows())))
        query = table.search(request.vector, vector_column_name="vector").distance_type("cosine")
        return query.nprobes(max(1, int(partitions * _PROBED))), "_distance"
    if isinstance(request, Match):
        tokens = analyse(request.text, schema.language)
        return (table.search(MatchQuery(" ".join(tokens), "tokens")), "_score") if tokens else (None, "")
    return table.search(), ""


def _found(rows: pa.Table, scores: Any, request: Request) -> Found:
    ids = rows.column("id").to_pylist()
    order = sorted(range(len(ids)), key=lambda row: (-scores[row], ids[row]))[: max(request.k, 0)]
    fields = ("id", *request.fields)
    kept = rows.take(pa.array(order, pa.int64())).combine_chunks()
    arrays = [kept.column(lance_sql.column(name)).combine_chunks() for name in fields]
    ordered = np.array([scores[row] for row in order], dtype=np.float64)
    return Found([ids[row] for row in order], ordered, pa.RecordBatch.from_arrays(arrays, names=list(fields)))
