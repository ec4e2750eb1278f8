"""Filters: conditions on the records of a collection, as plain values that every store understands.

`All`, `Any` and `Not` combine `Ids`, `Terms` and `Range`. Document metadata is filtered as the field `meta.KEY`.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

from ragindex.errors import UsageError


@dataclass(frozen=True, slots=True)
class Ids:
    """Records whose own id is one of `ids`."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """Records whose `field` holds one of `values`, compared as exact strings (see `term`).

    A keyword field holds a list: one shared element is enough. A `meta.KEY` field of a record made from several
    documents passes only when the value of every one of them is among `values`.
    """

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Records whose `field` lies between `low` and `high`, both included; None leaves an end open.

    Numbers compare as numbers; strings, and so ISO dates, compare by code point.
    """

    field: str
    low: float | str | None = None
    high: float | str | None = None

    def __post_init__(self) -> None:
        kinds = {_kind(end) for end in (self.low, self.high) if end is not None}
        if len(kinds) > 1 or None in kinds:
            raise UsageError(
                f"The ends of a Range on {self.field!r} must both be finite numbers or both be strings. "
                f"Got {self.low!r} and {self.high!r} instead."
            )

    @property
    def numeric(self) -> bool:
        """Whether it compares as numbers."""
        return any(_kind(end) == "number" for end in (self.low, self.high))


@dataclass(frozen=True, slots=True)
class All:
    """Records that pass every one of `filters`; with none, all records pass."""

    filters: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Records that pass at least one of `filters`; with none, no record passes."""

    filters: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Records that do not pass `filter`."""

    filter: "Filter"


Filter: TypeAlias = Ids | Terms | Range | All | Any | Not


def _kind(end: object) -> str | None:
    if isinstance(end, str):
        return "string"
    if isinstance(end, bool) or not isinstance(end, int | float) or not -_LARGEST <= end <= _LARGEST:
        return None
    return "number"


_LARGEST = sys.float_info.max


def term(value: str | float | date | bool) -> str:
    """The one string under which a metadata value is stored and compared: 12, 12.0 and "12" are the same term."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def meta(key: str, *values: str | float | date | bool) -> Terms:
    """The filter on the metadata key `key` of documents: one of `values`."""
    return Terms(f"meta.{key}", tuple(term(value) for value in values))


def from_mapping(where: Mapping[str, object]) -> Filter:
    """The filter that a mapping of fields to values stands for: all of its entries must pass.

    A value (or any of a list, tuple or set of values) must be equal; `{"gte": LOW, "lte": HIGH}` is a range with its
    ends, either of which may be left out. Fields: `meta.KEY`, `doc_ids`, `passage_ids`. Raises UsageError.
    """
    return All(tuple(_condition(field, value) for field, value in where.items()))


def _condition(field: str, value: object) -> Filter:
    if not field.startswith("meta.") and field not in _FIELDS:
        raise UsageError(f"A filter's field must be meta.KEY or one of {', '.join(_FIELDS)}. Got {field!r} instead.")
    if isinstance(value, Mapping):
        unknown = sorted(value.keys() - {"gte", "lte"})
        if unknown or not value:
            raise UsageError(f"A range on {field!r} has the keys 'gte' or 'lte', or both. Got {value!r} instead.")
        return Range(field, value.get("gte"), value.get("lte"))
    values = tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)
    if not all(isinstance(one, str | int | float | date) for one in values):
        raise UsageError(f"A filter's values must be strings, numbers, booleans or dates. Got {value!r} for {field!r}.")
    return Terms(field, tuple(term(one) for one in values))


_FIELDS = ("doc_ids", "passage_ids")


def combine_filters(first: Filter | None, second: Filter | None) -> Filter | None:
    """The conjunction of two filters, either of which may be absent."""
    given = tuple(f for f in (first, second) if f is not None)
    return All(given) if len(given) == 2 else given[0] if given else None


def fields(where: Filter | None) -> Iterable[str]:
    """The names of the fields that `where` looks at."""
    if isinstance(where, Terms | Range):
        yield where.field
    elif isinstance(where, Not):
        yield from fields(where.filter)
    elif isinstance(where, All | Any):
        for part in where.filters:
            yield from fields(part)
