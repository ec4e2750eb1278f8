"""Evaluation of filters in memory, over the rows of an Arrow table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragindex._util.kept_results import KeptResults
from ragindex.filters import (
    MAPPING,
    All,
    Any,
    Filter,
    Ids,
    Not,
    Overlaps,
    Range,
    Terms,
    is_of_documents,
    list_number_ends,
    list_open_ranges,
    push_negations,
    read_number,
    refuse_mappings,
    refuse_strings,
)
from ragindex.filters import fields as list_fields

Mask = npt.NDArray[np.bool_]
MatchingRows = npt.NDArray[np.int64]

# ---------------------------------------------------------------- indexes


@dataclass(frozen=True, slots=True)
class StringLookup:
    """Distinct strings, and their hashes in ascending order; `places[i]` is the place of the string of `hashes[i]`.

    A dict of three million names takes half a gigabyte; this takes 16 bytes each beside the strings. Hashes are
    those of this process.
    """

    strings: pa.Array
    hashes: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]

    def find(self, values: Sequence[str]) -> list[int]:
        """Return the places of those of `values` that exist, ascending."""
        if not len(self.hashes):
            return []
        hashes = np.fromiter(map(hash, values), np.int64, len(values))
        first = np.searchsorted(self.hashes, hashes)
        matches = np.flatnonzero(self.hashes[np.minimum(first, len(self.hashes) - 1)] == hashes)
        places = (self._find_one(values[number], int(first[number])) for number in matches.tolist())
        return sorted({place for place in places if place is not None})

    def _find_one(self, value: str, first: int) -> int | None:
        """Return the place of a string whose hash is at `first`; other strings may have the same hash."""
        for at in range(first, len(self.hashes)):
            if self.hashes[at] != self.hashes[first]:
                return None
            place = int(self.places[at])
            if self.strings[place].as_py() == value:
                return place
        return None


_BLOCK = 100_000


def build_string_lookup(strings: pa.Array) -> StringLookup:
    """Build the look-up of an array of distinct strings, without a Python object for each of them."""
    hashes = np.empty(len(strings), np.int64)
    for start in range(0, len(strings), _BLOCK):
        block = strings.slice(start, _BLOCK).to_pylist()
        hashes[start : start + len(block)] = np.fromiter(map(hash, block), np.int64, len(block))
    places = np.argsort(hashes, kind="stable")
    return StringLookup(strings, hashes[places], places)


@dataclass(frozen=True, slots=True)
class KeywordIndex:
    """An inverted index of a list-of-strings column: value v occurs in `rows[starts[v]:starts[v + 1]]`.

    A row appears once for each of its elements with that value. `lengths` are the list lengths of all rows.
    """

    values: StringLookup
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def holders(self, values: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """Return the rows that contain one of `values`, once for every matching element."""
        spans = [self.rows[self.starts[value] : self.starts[value + 1]] for value in self.values.find(values)]
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


# ---------------------------------------------------------------- evaluation


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
        where = push_negations(where)
        few = self._find_few(where)
        return np.flatnonzero(self._find_mask(where)) if few is None else few

    def _find_few(self, where: Filter) -> MatchingRows | None:
        """Return the rows that pass, sorted, if they can be found by their ids or keywords; else None."""
        match where:
            case Ids():
                return self._find_ids(where)
            case Terms() | Overlaps():
                return self._find_holders(where)
            case All():
                rows_of = [(part, self._find_few(part)) for part in where.filters]
                few = [rows for _, rows in rows_of if rows is not None]
                if not few:
                    return None
                rows = reduce(np.intersect1d, few)
                for part in (part for part, matches in rows_of if matches is None):
                    rows = rows[self._find_mask(part)[rows]]
                return rows
            case _:
                return None

    def _find_ids(self, where: Ids) -> MatchingRows:
        """Return the sorted rows of ids; those of the last filter are kept, for requests that share it."""
        last = self._last_ids
        if last is not None and last[0] is where:
            return last[1]
        numbers = {row for row in map(self.rows.get, where.ids) if row is not None}
        rows = np.array(sorted(numbers), dtype=np.int64)
        self._last_ids = where, rows
        return rows

    def _find_holders(self, where: Terms | Overlaps) -> MatchingRows | None:
        index = None if where.field.startswith("meta.") else self._keyword_index(where.field)
        if index is None:
            return None
        holders = index.holders(where.values)
        if isinstance(where, Terms) and is_of_documents(where.field):
            rows, counts = np.unique(holders, return_counts=True)
            complete: MatchingRows = rows[counts == index.lengths[rows]]
            return complete
        if len(where.values) > 1:
            holders.sort()
        new = np.ones(len(holders), np.bool_)  # faster than np.unique, which sorts again
        np.not_equal(holders[1:], holders[:-1], out=new[1:])
        return holders[new]

    # ------------------------------------------------------------ masks of all rows

    def _find_mask(self, where: Filter) -> Mask:
        """Return the mask of a filter; those of filters on the fields of documents are kept."""
        fields = list(list_fields(where))
        cached = fields and all(map(is_of_documents, fields))
        return self._masks.find(where, lambda: self._mask(where)) if cached else self._mask(where)

    def _mask(self, where: Filter) -> Mask:
        """Return a boolean mask of the rows that pass, of shape (rows,)."""
        match where:
            case All() | Any():
                combine = np.logical_and if isinstance(where, All) else np.logical_or
                mask = np.full(len(self.rows), isinstance(where, All))
                for part in where.filters:
                    combine(mask, self._find_mask(part), out=mask)
                return mask
            case Ids():
                mask = self._nothing()
                mask[self._find_ids(where)] = True
                return mask
            case Not(filter=Range() as inner):
                return self._mask_outside(inner)
            case Not():
                return ~self._mask(where.filter)
            case Terms() | Overlaps():
                return self._mask_holders(where)
            case Range():
                return self._mask_inside(where)

    def _mask_holders(self, where: Terms | Overlaps) -> Mask:
        column, index = self.columns.get(where.field), self._keyword_index(where.field)
        if column is None:
            return self._nothing()
        if index is None:
            among = pc.is_in(column, pa.array(where.values, column.type))
            return among.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
        self._require_comparable(where.field)
        holders = index.holders(where.values)
        if isinstance(where, Overlaps):
            mask = self._nothing()
            mask[holders] = True
            return mask
        return self._mask_passing(where.field, np.bincount(holders, minlength=len(self.rows)), index.lengths)

    def _mask_inside(self, where: Range) -> Mask:
        column = self.columns.get(where.field)
        if column is None:
            return self._nothing()
        if not pa.types.is_list(column.type):
            return _is_inside(column, where)
        self._require_comparable(where.field)
        parents = pc.list_parent_indices(column).to_numpy()
        passing = np.bincount(parents[_is_inside(column.flatten(), where)], minlength=len(column))
        return self._mask_passing(where.field, passing, np.bincount(parents, minlength=len(column)))

    def _mask_outside(self, where: Range) -> Mask:
        column = self.columns.get(where.field)
        if column is None or not is_of_documents(where.field):
            return ~self._mask_inside(where)
        self._require_comparable(where.field)
        values, parents = column.flatten(), pc.list_parent_indices(column).to_numpy()
        inside = [_is_inside(values, part) for part in (where, *list_open_ranges(where))]
        any_inside, *open_ended = (np.bincount(parents[mask], minlength=len(column)) > 0 for mask in inside)
        return np.where(self._is_any_enough(where.field), ~any_inside, ~reduce(np.logical_and, open_ended))

    def _mask_passing(self, field: str, passing: MatchingRows, lengths: MatchingRows) -> Mask:
        """Return the mask of the rows that pass, by the numbers of their elements that pass, and of all of them."""
        mask: Mask = (passing > 0) & (self._is_any_enough(field) | (passing == lengths))
        return mask

    def _is_any_enough(self, field: str) -> Mask:
        """Return a mask of the rows that pass by any element: keywords, and metadata of rows of one document."""
        if not is_of_documents(field):
            return ~self._nothing()
        documents = self._keyword_index("doc_ids") if field.startswith("meta.") else None
        return self._nothing() if documents is None else documents.lengths == 1

    def _nothing(self) -> Mask:
        return np.zeros(len(self.rows), dtype=np.bool_)

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


def _is_inside(values: pa.Array, where: Range) -> Mask:
    """Return a mask of the values in the range, as `filters.is_inside` for each."""
    if pa.types.is_floating(values.type) and not where.numeric and where != Range(where.field):
        raise refuse_strings(where)
    low, high = list_number_ends(where) if where.numeric else (where.low, where.high)
    if where.numeric and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        encoded = values.dictionary_encode()
        values = pa.array([read_number(value) for value in encoded.dictionary.to_pylist()], pa.float64())
        values = values.take(encoded.indices)
    inside = pc.is_valid(values)
    if low is not None:
        inside = pc.and_(inside, pc.fill_null(pc.greater_equal(values, low), False))
    if high is not None:
        inside = pc.and_(inside, pc.fill_null(pc.less_equal(values, high), False))
    return inside.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
