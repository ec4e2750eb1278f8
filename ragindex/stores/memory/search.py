"""Exact search over the records of one version of a collection in memory, used by the LanceDB store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.errors import UsageError
from ragindex.interfaces import FilterQuery, Floats, Schema, SearchRequest, SearchResult, TextQuery, VectorQuery
from ragindex.stores.memory import bm25
from ragindex.stores.memory.filters import FilterEvaluator
from ragindex.stores.records import LARGE_STRING_LIST, describe_dimensions, widen
from ragindex.text_analysis import analyse

_MARGIN = 1e-4
"""The error of a float32 cosine. Candidates within this margin of the k-th best are scored again in float64."""
_FEW_ROWS = 1_000
"""The most rows that are looked up in the postings of each word, which is faster than to score all rows."""
_MANY_ROWS = 1 << 14
"""The fewest rows of which some are selected before they are scored; fewer are all scored faster."""
_MAX_SCORES = 1 << 22
"""The most scores held in memory at once when many queries are answered together."""

_NO_VECTORS = "This collection has no vectors. Search it by text, or search the part `vectors` over it."

RowNumbers = npt.NDArray[np.int64]
ScoreArray = npt.NDArray[np.float64]
Ranks = npt.NDArray[np.int32]


@dataclass(frozen=True)
class MemoryImage:
    """The records of a collection in memory.

    `table` contains the id, the fields, and the column `tokens` if there is searchable text. Row i of `vectors` belongs
    to record i. `statistics` are those of the larger collection that the records belong to; default: those of the
    records. Strings have 64-bit offsets (`ragindex.stores.records`), because one column may exceed the 2 GiB of
    Arrow's default strings.
    """

    schema: Schema
    table: pa.Table
    vectors: Floats | None
    statistics: bm25.Statistics | None = None

    def search(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Answer each request. Vector searches without a filter share one matrix multiplication."""
        together = [
            n for n, request in enumerate(requests) if isinstance(request, VectorQuery) and request.where is None
        ]
        best = dict(zip(together, self._nearest([requests[n] for n in together]), strict=True))  # type: ignore[misc]
        ranked = [best.get(n) or self._rank_alone(request) for n, request in enumerate(requests)]
        records = self._take_records([rows for rows, _ in ranked], [("id", *request.fields) for request in requests])
        return [
            SearchResult([self.ids[row] for row in rows.tolist()], scores, table)
            for (rows, scores), table in zip(ranked, records, strict=True)
        ]

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
        """Return the existing records among `ids`, in the order of `ids`."""
        rows = [self.rows[id] for id in ids if id in self.rows]
        return self._records(np.array(rows, dtype=np.int64), ("id", *fields))

    @cached_property
    def table_bytes(self) -> int:
        """The size of the table in bytes, without the vectors. Cached, because Arrow visits every chunk."""
        return int(self.table.nbytes)

    @cached_property
    def ids(self) -> list[str]:
        """The id of each row."""
        ids: list[str] = self.columns["id"].to_pylist()
        return ids

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """The row of each id."""
        return {id: row for row, id in enumerate(self.ids)}

    @cached_property
    def columns(self) -> Mapping[str, pa.Array]:
        """The columns by name, as one array each."""
        columns = zip(self.table.column_names, widen(self.table).columns, strict=True)
        return {name: data.chunk(0) if data.num_chunks == 1 else data.combine_chunks() for name, data in columns}

    @cached_property
    def rank(self) -> Ranks:
        """The rank of each row in the order of ids, which breaks ties between equal scores."""
        return rank_ids(self.columns["id"])

    @cached_property
    def silent(self) -> RowNumbers:
        """The rows whose vector is zero, which no vector search finds."""
        maybe = np.flatnonzero(self._vectors[:, 0] == 0)  # checking one column first is faster than checking all
        return maybe[~self._vectors[maybe].any(axis=1)]

    @cached_property
    def text(self) -> bm25.TextIndex:
        """The BM25 index over the tokens."""
        return bm25.build_text_index(self.columns["tokens"], self.statistics)

    @cached_property
    def filtering(self) -> FilterEvaluator:
        """The evaluator of filters."""
        return FilterEvaluator(self.columns, self.rows)

    def _rank_alone(self, request: SearchRequest) -> tuple[RowNumbers, ScoreArray]:
        where = request.where
        if isinstance(request, TextQuery) and where is None:
            return rank_text(self.text, self.rank, analyse(request.text, self.schema.language), request.k)
        rows = np.arange(len(self.table), dtype=np.int64) if where is None else self.filtering.passing(where)
        if isinstance(request, FilterQuery):
            rows = rows[np.argsort(self.rank[rows])[: max(request.k, 0)]]
            return rows, np.zeros(len(rows))
        if isinstance(request, TextQuery):
            return rank_text(self.text, self.rank, analyse(request.text, self.schema.language), request.k, rows)
        unit = unit_query(request.vector, self.schema.dimensions)
        rows = rows[~np.isin(rows, self.silent)] if len(self.silent) else rows
        if len(rows) > 4 * request.k:
            rough = _multiply(self._vectors[rows], unit[None, :])[:, 0]
            rows = rows[_select_near_best(rough, request.k)]
        return self._exactly(unit, rows, request.k)

    def _nearest(self, requests: Sequence[VectorQuery]) -> list[tuple[RowNumbers, ScoreArray]]:
        ranked: list[tuple[RowNumbers, ScoreArray]] = []
        step = max(1, _MAX_SCORES // max(1, len(self.table)))
        for start in range(0, len(requests), step):
            block = requests[start : start + step]
            units = np.stack([unit_query(request.vector, self.schema.dimensions) for request in block])
            rough = _multiply(self._vectors, units)
            rough[self.silent] = -np.inf
            for column, request in enumerate(block):
                rows = _select_near_best(rough[:, column], request.k)
                ranked.append(self._exactly(units[column], rows, request.k))
        return ranked

    def _exactly(self, unit: Floats, rows: RowNumbers, k: int) -> tuple[RowNumbers, ScoreArray]:
        """Return the k best of `rows` by float64 cosine."""
        if not unit.any():
            return np.empty(0, dtype=np.int64), np.empty(0)
        scores = np.empty(len(rows))
        for start in range(0, len(rows), 4096):
            scores[start : start + 4096] = exact_cosines(self._vectors[rows[start : start + 4096]], unit)
        return select_best(self.rank, rows, scores, k)

    @property
    def _vectors(self) -> Floats:
        if self.vectors is None:
            raise UsageError(_NO_VECTORS)
        return self.vectors

    def _take_records(self, rows: Sequence[RowNumbers], fields: Sequence[tuple[str, ...]]) -> list[pa.RecordBatch]:
        """Return the records of each array of rows with its fields; arrays with the same fields are taken at once.

        A request of a method can need a hundred small ones, and Arrow takes longer to begin than to take a few rows.
        """
        records: dict[int, pa.RecordBatch] = {}
        for field in dict.fromkeys(fields):
            numbers = [number for number, names in enumerate(fields) if names == field]
            together = self._records(np.concatenate([rows[number] for number in numbers]), field)
            start = 0
            for number in numbers:
                records[number] = together.slice(start, len(rows[number]))
                start += len(rows[number])
        return [records[number] for number in range(len(rows))]

    def _records(self, rows: RowNumbers, fields: Sequence[str]) -> pa.RecordBatch:
        # not pa.array(rows), which imports pandas
        indices = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))])
        columns = [self._vectors_of(rows) if name == "vector" else self._column(name).take(indices) for name in fields]
        return pa.RecordBatch.from_arrays(columns, names=list(fields))

    def _vectors_of(self, rows: RowNumbers) -> pa.Array:
        vectors = self._vectors[rows].astype(np.float32)
        return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])

    def _column(self, name: str) -> pa.Array:
        if name in self.columns:
            return self.columns[name]
        if name.startswith("meta."):
            return pa.nulls(len(self.table), LARGE_STRING_LIST)
        raise UsageError(f"Unknown field {name!r}. Available: {', '.join(self.columns)} and meta.KEY.")


def rank_ids(ids: pa.Array) -> Ranks:
    """Return the rank of each row in the order of ids."""
    order = np.from_dlpack(pc.sort_indices(ids))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank


def rank_text(
    index: bm25.TextIndex, rank: Ranks, tokens: Sequence[str], k: int, rows: RowNumbers | None = None
) -> tuple[RowNumbers, ScoreArray]:
    """Return the k best rows for a query, of `rows` or of all, and their scores above 0."""
    if rows is None:
        rows = index.select_best(tokens, k) if index.size >= _MANY_ROWS else np.arange(index.size)
    scores = index.scores(tokens)[rows] if len(rows) > _FEW_ROWS else index.scores_of(tokens, rows)
    return select_best(rank, rows[scores > 0], scores[scores > 0], k)


def select_best(rank: Ranks, rows: RowNumbers, scores: ScoreArray, k: int) -> tuple[RowNumbers, ScoreArray]:
    """Return the k best of `rows` and their scores; equal scores are ordered by the rank of the ids."""
    if 0 < k < len(rows):
        best = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
        rows, scores = rows[best], scores[best]
    order = np.lexsort((rank[rows], -scores))[: max(k, 0)]
    return rows[order], scores[order]


def check_query_vector(vector: Floats, dimensions: int | None) -> Floats:
    """Return the vector if it is a valid query. Raises UsageError for another length, NaN or infinity."""
    if dimensions is None:
        raise UsageError(_NO_VECTORS)
    if np.ndim(vector) == 1 and len(vector) != dimensions:
        raise UsageError(describe_dimensions(len(vector), dimensions))
    if np.shape(vector) != (dimensions,):
        raise UsageError(f"A query vector must have the shape ({dimensions},). Got {np.shape(vector)} instead.")
    if not np.isfinite(vector).all():
        raise UsageError("A query vector must be finite; got NaN or infinity. Check the encoder.")
    return vector


def unit_query(vector: Floats, dimensions: int | None) -> Floats:
    """Return the vector scaled to unit length, or as it is if it is zero. Raises what `check_query_vector` raises."""
    norm = np.linalg.norm(check_query_vector(vector, dimensions).astype(np.float64))
    return vector if norm == 0 else (vector / norm).astype(np.float32)


def exact_cosines(vectors: Floats, unit: Floats) -> ScoreArray:
    """Return the float64 cosine of each unit vector (rows, dimensions) with the unit vector of a query.

    Each row is summed separately, so a score does not depend on the other rows or on other queries.
    """
    scores: ScoreArray = (vectors * unit.astype(np.float64)).sum(axis=1)
    return scores


def _multiply(vectors: Floats, units: Floats) -> Floats:
    """Multiply (rows, dimensions) by (queries, dimensions) to (rows, queries), in float32."""
    if vectors.dtype == np.float32:
        return vectors @ units.T
    step = 8192  # multiplication of float16 is slow, so blocks are converted to float32
    blocks = [vectors[start : start + step].astype(np.float32) @ units.T for start in range(0, len(vectors), step)]
    return np.concatenate(blocks) if blocks else np.empty((0, len(units)), dtype=np.float32)


def _select_near_best(scores: Floats, k: int) -> RowNumbers:
    """Return the rows whose approximate score is within the margin of the k-th best."""
    least = np.partition(scores, len(scores) - k)[len(scores) - k] - _MARGIN if 0 < k < len(scores) else -np.inf
    return np.flatnonzero((scores >= least) & (scores > -np.inf))
