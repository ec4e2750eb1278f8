"""Evaluation of filters in memory, over the rows of an Arrow table."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.errors import UsageError
from ragindex.filters import (
    MAPPING,
    NUMBER,
    All,
    Any,
    Filter,
    Ids,
    Not,
    Overlaps,
    Range,
    Terms,
    is_of_documents,
    list_open_ranges,
    negate,
    refuse_mappings,
)
from ragindex.filters import fields as list_fields
from ragindex.kept_results import KeptResults
from ragindex.stores.memory.string_lookup import StringLookup, build_string_lookup

Mask = npt.NDArray[np.bool_]
MatchingRows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeywordIndex:
    """An inverted index of a list-of-strings column: value v occurs in `rows[starts[v]:starts[v + 1]]`.

    A row appears once for each of its elements with that value. `lengths` are the list lengths of all rows.
    """

    values: StringLookup
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def holders(self, wanted: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """Return the rows that contain one of `wanted`, once for every matching element."""
        spans = [self.rows[self.starts[value] : self.starts[value + 1]] for value in self.values.find(wanted)]
        return np.concatenate(spans) if spans else np.empty(0, dtype=np.int64)


def build_keyword_index(column: pa.Array) -> KeywordIndex:
    """Build the index of a list-of-strings column. Null elements count in a row's length but match nothing."""
    encoded = column.flatten().dictionary_encode()
    parents = pc.list_parent_indices(column).to_numpy()
    codes = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    values = build_string_lookup(encoded.dictionary)
    return KeywordIndex(values, starts, parents[order].astype(np.int64), np.bincount(parents, minlength=len(column)))


_KEPT_MASKS = 8
"""The number of filters whose rows are remembered: methods ask many times with the filter of one question or user."""


@dataclass(slots=True)
class FilterEvaluator:
    """An evaluator of filters over columns of equal length. `rows` maps ids to rows; keyword indexes are cached."""

    columns: Mapping[str, pa.Array]
    rows: Mapping[str, int]
    _keywords: dict[str, KeywordIndex] = field(default_factory=dict)
    _last_ids: tuple[Ids, MatchingRows] | None = None
    _masks: KeptResults[Filter, Mask] = field(default_factory=lambda: KeptResults(_KEPT_MASKS))

    def passing(self, where: Filter) -> MatchingRows:
        """Return the rows that pass, sorted. Filters by id and by keyword visit only the rows that they name."""
        few = self._find_few(where)
        return np.flatnonzero(self._find_mask(where)) if few is None else few

    def _find_mask(self, where: Filter) -> Mask:
        """Return the mask of a filter; those of filters on the fields of documents are kept."""
        named = list(list_fields(where))
        kept = named and all(map(is_of_documents, named))
        return self._masks.find(where, lambda: self.mask(where)) if kept else self.mask(where)

    def _find_few(self, where: Filter) -> MatchingRows | None:
        """Return the rows that pass, sorted, if they can be found by their ids or keywords; else None."""
        match where:
            case Ids():
                return self._find_ids(where)
            case Terms() | Overlaps():
                return self._find_holders(where)
            case All():
                found_of = [(part, self._find_few(part)) for part in where.filters]
                few = [rows for _, rows in found_of if rows is not None]
                if not few:
                    return None
                rows = reduce(np.intersect1d, few)
                for part in (part for part, found in found_of if found is None):
                    rows = rows[self._find_mask(part)[rows]]
                return rows
            case _:
                return None

    def _find_holders(self, where: Terms | Overlaps) -> MatchingRows | None:
        index = None if where.field.startswith("meta.") else self._keyword_index(where.field)
        if index is None:
            return None
        holders = index.holders(where.values)
        if isinstance(where, Terms) and is_of_documents(where.field):
            rows, counts = np.unique(holders, return_counts=True)
            whole: MatchingRows = rows[counts == index.lengths[rows]]
            return whole
        if len(where.values) > 1:
            holders.sort()
        new = np.ones(len(holders), np.bool_)  # faster than np.unique, which sorts again
        np.not_equal(holders[1:], holders[:-1], out=new[1:])
        return holders[new]

    def _find_ids(self, where: Ids) -> MatchingRows:
        """Return the sorted rows of ids; those of the last filter are kept, for requests that share it."""
        last = self._last_ids
        if last is not None and last[0] is where:
            return last[1]
        found = {row for row in map(self.rows.get, where.ids) if row is not None}
        rows = np.array(sorted(found), dtype=np.int64)
        self._last_ids = where, rows
        return rows

    def _keyword_index(self, field: str) -> KeywordIndex | None:
        """Return the index of a list-of-strings column, None for another column or none."""
        column = self.columns.get(field)
        if column is None or not pa.types.is_list(column.type):
            return None
        index = self._keywords.get(field)
        return index or self._keywords.setdefault(field, build_keyword_index(column))

    def _require_comparable(self, field: str) -> None:
        """Raise UsageError if a value of a field of metadata is a mapping."""
        index = self._keyword_index(field) if field.startswith("meta.") else None
        if index is not None and len(index.holders((MAPPING,))):
            raise refuse_mappings(field)

    def _is_any_enough(self, field: str) -> Mask:
        """Return a mask of the rows that pass by any element: keywords, and metadata of rows of one document."""
        if not is_of_documents(field):
            return np.ones(len(self.rows), dtype=np.bool_)
        documents = self._keyword_index("doc_ids") if field.startswith("meta.") else None
        return np.zeros(len(self.rows), dtype=np.bool_) if documents is None else documents.lengths == 1

    def mask(self, where: Filter) -> Mask:
        """Return a boolean mask of the rows that pass, of shape (rows,)."""
        match where:
            case Ids():
                mask = np.zeros(len(self.rows), dtype=np.bool_)
                mask[[self.rows[id] for id in where.ids if id in self.rows]] = True
                return mask
            case Terms() | Overlaps():
                return self._terms(where)
            case Range():
                return self._range(where)
            case Not():
                inner = where.filter
                return self.mask(negate(inner)) if isinstance(inner, Not | All | Any) else self._fails(inner)
            case All():
                return self._combine(where.filters, np.logical_and, start=True)
            case Any():
                return self._combine(where.filters, np.logical_or, start=False)

    def _combine(self, filters: tuple[Filter, ...], combine: "np.ufunc", *, start: bool) -> Mask:
        mask = np.full(len(self.rows), start)
        for part in filters:
            combine(mask, self._find_mask(part), out=mask)
        return mask

    def _fails(self, where: Ids | Terms | Overlaps | Range) -> Mask:
        """Return a mask of the rows that fail, of those of several documents the rows of which all documents fail."""
        if isinstance(where, Ids | Overlaps) or not is_of_documents(where.field):
            return ~self.mask(where)
        return self._fails_range(where) if isinstance(where, Range) else ~self.mask(Overlaps(where.field, where.values))

    def _fails_range(self, where: Range) -> Mask:
        column = self.columns.get(where.field)
        if column is None:
            return np.ones(len(self.rows), dtype=np.bool_)
        self._require_comparable(where.field)
        values, parents = column.flatten(), pc.list_parent_indices(column).to_numpy()
        inside = [_is_inside(values, one) for one in (where, *list_open_ranges(where))]
        some, *open_ended = (np.bincount(parents[mask], minlength=len(column)) > 0 for mask in inside)
        return np.where(self._is_any_enough(where.field), ~some, ~reduce(np.logical_and, open_ended))

    def _terms(self, where: Terms | Overlaps) -> Mask:
        nothing = np.zeros(len(self.rows), dtype=np.bool_)
        column = self.columns.get(where.field)
        if column is None:
            return nothing
        index = self._keyword_index(where.field)
        if index is None:
            among = pc.is_in(column, pa.array(where.values, column.type))
            return among.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
        self._require_comparable(where.field)
        holders = index.holders(where.values)
        if isinstance(where, Overlaps):
            nothing[holders] = True
            return nothing
        return self._find_passing(where.field, np.bincount(holders, minlength=len(self.rows)), index.lengths)

    def _find_passing(self, field: str, passing: MatchingRows, lengths: MatchingRows) -> Mask:
        """Return the mask of the rows that pass, by the numbers of their elements that pass, and of all of them."""
        mask: Mask = (passing > 0) & (self._is_any_enough(field) | (passing == lengths))
        return mask

    def _range(self, where: Range) -> Mask:
        column = self.columns.get(where.field)
        if column is None:
            return np.zeros(len(self.rows), dtype=np.bool_)
        is_list = pa.types.is_list(column.type)
        inside = _is_inside(column.flatten() if is_list else column, where)
        if not is_list:
            return inside
        self._require_comparable(where.field)
        parents = pc.list_parent_indices(column).to_numpy()
        passing = np.bincount(parents[inside], minlength=len(column))
        return self._find_passing(where.field, passing, np.bincount(parents, minlength=len(column)))


def _is_inside(values: pa.Array, where: Range) -> Mask:
    """Return a mask of the values in the range. Non-numeric text, NaN and infinity are in no numeric range."""
    if pa.types.is_floating(values.type) and not where.numeric and where != Range(where.field):
        raise UsageError(
            f"The field {where.field!r} contains numbers; the ends of its Range must be numbers. Got {where!r}."
        )
    if where.numeric and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        encoded = values.dictionary_encode()
        values = pa.array([_number(value) for value in encoded.dictionary.to_pylist()], pa.float64())
        values = values.take(encoded.indices)
    inside = pc.is_valid(values)
    low, high = where.low, where.high
    if where.numeric:
        low, high = (
            float(-sys.float_info.max if low is None else low),
            float(sys.float_info.max if high is None else high),
        )
    if low is not None:
        inside = pc.and_(inside, pc.fill_null(pc.greater_equal(values, low), False))
    if high is not None:
        inside = pc.and_(inside, pc.fill_null(pc.less_equal(values, high), False))
    return inside.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and NUMBER.fullmatch(text) else None
