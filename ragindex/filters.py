"""Filters: conditions on the records of a collection, as plain values that every store understands.

`All`, `Any` and `Not` combine `Ids`, `Terms`, `Overlaps` and `Range`. Document metadata has the field names `meta.KEY`.
A document whose value is a list passes a condition if one of the elements does, and its negation if none does.

A record may be made from several documents, as summaries are. It passes a filter on the fields of documents
(`meta.KEY`, `doc_ids`, `passage_ids`) only if all its documents pass, with all their elements
(docs/reference/filter-syntax.md).

`passes` is what filters mean. Each engine has a compiler of filters, beside its store, that agrees with it.
"""

import math
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

import regex

from ragindex._util.ids import spellings
from ragindex._util.text import quote_value
from ragindex.errors import UsageError


@dataclass(frozen=True, slots=True)
class Ids:
    """Records whose id is one of `ids`."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """Records whose `field` holds one of `values`, compared as exact strings (see `term`).

    A keyword field holds a list; it matches if it shares an element with `values`, and so does `meta.KEY` of a record
    of one document. Other fields of documents match only if all their elements are among `values`. On `meta.KEY` and
    `doc_ids`, `values` have each string in both normal forms of Unicode: file names of macOS are in another than typed.
    """

    field: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _require_encodable(self.field, self.values)
        if self.field.startswith("meta.") or self.field == "doc_ids":
            spelled = dict.fromkeys(spelling for value in self.values for spelling in spellings(value))
            object.__setattr__(self, "values", tuple(spelled))


@dataclass(frozen=True, slots=True)
class Overlaps:
    """Records whose list `field` shares an element with `values`: those made from one of some passages or documents.

    For parts, which replace records. As a question's filter it would pass what other documents contributed to.
    """

    field: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _require_encodable(self.field, self.values)


@dataclass(frozen=True, slots=True)
class Range:
    """Records whose `field` lies between `low` and `high`, both included; None leaves an end open.

    Numbers compare as numbers. Strings, including ISO dates, compare by code point. Of `meta.KEY` of a record of one
    document an element must lie there, of other fields of documents all elements.
    Raises UsageError unless the ends are both finite numbers or both strings.
    """

    field: str
    low: float | str | None = None
    high: float | str | None = None

    def __post_init__(self) -> None:
        _require_encodable(self.field, [end for end in (self.low, self.high) if isinstance(end, str)])
        kinds = {_end_kind(end) for end in (self.low, self.high) if end is not None}
        if len(kinds) > 1 or None in kinds:
            raise UsageError(
                f"The ends of a Range on {quote_value(self.field)} must both be finite numbers or both be strings. "
                f"Got {quote_value(self.low)} and {quote_value(self.high)} instead."
            )

    @property
    def numeric(self) -> bool:
        """Whether the ends are compared as numbers."""
        return any(_end_kind(end) == "number" for end in (self.low, self.high))


@dataclass(frozen=True, slots=True)
class All:
    """Records that match every one of `filters`; without filters, all records match."""

    filters: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Records that match at least one of `filters`; without filters, no record matches.

    A record of several documents matches if all of them match the same one.
    """

    filters: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Records of which no document matches `filter`; a record of one document, or of none, that does not match it.

    With a Range, all values of a record of several documents must lie on the same side of it.
    """

    filter: "Filter"


Filter: TypeAlias = Ids | Terms | Overlaps | Range | All | Any | Not


def _require_encodable(field: str, values: Iterable[str]) -> None:
    """Raise UsageError for a text with a lone surrogate, which no store can hold or search for."""
    for text in (field, *values):
        if not text.isascii() and regex.search(r"\p{Cs}", text):
            raise UsageError(f"A filter compares with text that UTF-8 can encode. Got {quote_value(text)}.")


def _end_kind(end: object) -> str | None:
    if isinstance(end, str):
        return "string"
    if isinstance(end, bool) or not isinstance(end, int | float) or not -_LARGEST <= end <= _LARGEST:
        return None
    return "number"


_LARGEST = sys.float_info.max


def term(value: str | float | date | bool) -> str:
    """Return the string under which a metadata value is stored and compared: 12, 12.0 and "12" are the same term."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def list_typed_terms(text: str) -> list[str]:
    """Return the terms that a value may stand for as it is typed: the text, and the number or boolean that it spells.

    >>> list_typed_terms("3.0"), list_typed_terms("True"), list_typed_terms("v1.10")
    (['3.0', '3'], ['True', 'true'], ['v1.10'])
    """
    spelled: str | float = text.lower() if text.lower() in ("true", "false") else text
    if NUMBER.fullmatch(text):
        spelled = int(text) if text.lstrip("+-").isdigit() else float(text)
    return list(dict.fromkeys((text, term(spelled))))


NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""A number as text, which a numeric Range compares."""


def meta(key: str, *values: str | float | date | bool) -> Terms:
    """Return a filter for documents whose metadata key `key` has one of `values`."""
    return Terms(f"meta.{key}", tuple(term(value) for value in values))


def from_mapping(where: Mapping[str, object]) -> Filter:
    """Convert a mapping of fields to values into a filter; a record must match all entries.

    A field must equal the value, or one of a list, tuple or set of values. `{"gte": LOW, "lte": HIGH}` is a range that
    includes its ends; either may be left out. Fields: `meta.KEY`, `doc_ids`, `passage_ids`.
    Raises UsageError for an unknown field or an unsupported value.
    """
    return All(tuple(_build_condition(field, value) for field, value in where.items()))


def _build_condition(field: str, value: object) -> Filter:
    if not field.startswith("meta.") and field not in _FIELDS:
        raise UsageError(
            f"A filter's field must be meta.KEY or one of {', '.join(_FIELDS)}. Got {quote_value(field)} instead."
        )
    if isinstance(value, Mapping):
        unknown = sorted(value.keys() - {"gte", "lte"})
        if unknown or not value:
            raise UsageError(
                f"A range on {quote_value(field)} has the keys 'gte' or 'lte', or both. "
                f"Got {quote_value(value)} instead."
            )
        return Range(field, value.get("gte"), value.get("lte"))
    values = tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)
    if not all(isinstance(item, str | int | float | date) for item in values):
        raise UsageError(
            "A filter's values must be strings, numbers, booleans or dates. "
            f"Got {quote_value(value)} for {quote_value(field)}."
        )
    return Terms(field, tuple(term(item) for item in values))


_FIELDS = ("doc_ids", "passage_ids")


def combine_filters(first: Filter | None, second: Filter | None) -> Filter | None:
    """Return the conjunction of two filters, either of which may be None."""
    conditions = tuple(f for f in (first, second) if f is not None)
    return All(conditions) if len(conditions) == 2 else conditions[0] if conditions else None


def list_conditions(where: Filter | None) -> Iterator[Ids | Terms | Overlaps | Range]:
    """Yield the single conditions that `where` combines."""
    match where:
        case None:
            return
        case Not():
            yield from list_conditions(where.filter)
        case All() | Any():
            for part in where.filters:
                yield from list_conditions(part)
        case _:
            yield where


def fields(where: Filter | None) -> Iterable[str]:
    """Yield the names of the fields that `where` uses."""
    return (condition.field for condition in list_conditions(where) if not isinstance(condition, Ids))


def names_passages(where: Filter) -> bool:
    """Return whether some passages of a document may pass `where` and others not."""
    return any(isinstance(condition, Ids) or condition.field == "passage_ids" for condition in list_conditions(where))


def is_of_documents(field: str) -> bool:
    """Return whether the elements of a field are of different documents or passages, so that all of them must pass."""
    return field.startswith("meta.") or field in _FIELDS


TERMS_VERSION = 2
"""Increased when `list_terms` gives a value other terms, so that all parts are built anew."""
MAPPING = "\0mapping"
"""The term of a value that no filter can compare."""


def refuse_mappings(field: str) -> UsageError:
    """Return the error for a filter on a field that is a mapping in some documents, which passes by no comparison."""
    key = field.removeprefix("meta.")
    return UsageError(
        f"The metadata key {quote_value(key)} of some documents holds a mapping, which a filter cannot compare. "
        "Write what is filtered under a key of its own, and read the documents again: ragindex index"
    )


def list_terms(value: object) -> list[str]:
    """Return the terms of a metadata value: those of all elements of a list, MAPPING of a mapping, none of None."""
    if isinstance(value, Mapping):
        return [MAPPING]
    if isinstance(value, list | tuple):
        return [nested for element in value for nested in list_terms(element)]
    return [term(value)] if isinstance(value, str | int | float | date) else []


def document_fields(id: str, metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of the record of one document that filters compare."""
    return {"id": id, "doc_ids": [id], **{f"meta.{key}": list_terms(value) for key, value in metadata.items()}}


# ---------------------------------------------------------------- what filters mean


def push_negations(where: Filter) -> Filter:
    """Return an equal filter in the form that engines evaluate: `Not` only around Ids, Overlaps and Range.

    No document of a record may have one of the values of negated Terms, which is what negated Overlaps mean.
    """
    match where:
        case All() | Any():
            return type(where)(tuple(push_negations(part) for part in where.filters))
        case Not(filter=Not(filter=inner)):
            return push_negations(inner)
        case Not(filter=All(filters=parts)):
            return Any(tuple(push_negations(Not(part)) for part in parts))
        case Not(filter=Any(filters=parts)):
            return All(tuple(push_negations(Not(part)) for part in parts))
        case Not(filter=Terms(field=field, values=values)):
            return Not(Overlaps(field, values))
        case _:
            return where


def list_open_ranges(where: Range) -> list[Range]:
    """Return the ranges from the low end up and from the high end down.

    A record of which no value lies in one of them fails `where`: all its values are on the same side of the range.
    """
    open_ = [Range(where.field, low=where.low)] if where.low is not None else []
    open_ += [Range(where.field, high=where.high)] if where.high is not None else []
    return open_ or [where]


def passes(where: Filter, record: Mapping[str, object]) -> bool:
    """Return whether a record passes: the reference that every engine's compiler of filters agrees with.

    `record` has its `id`, and texts, numbers and lists of texts by field, as collections return them. Raises UsageError
    for a mapping in metadata, and for ends of a Range that are strings where the field is a number.

    >>> passes(meta("year", 1998), {"id": "a", "doc_ids": ["a"], "meta.year": ["1998", "2001"]})
    True
    """
    return _passes(push_negations(where), record)


def _passes(where: Filter, record: Mapping[str, object]) -> bool:
    match where:
        case All():
            return all([_passes(part, record) for part in where.filters])
        case Any():
            return any([_passes(part, record) for part in where.filters])
        case Ids():
            return record["id"] in where.ids
        case Not(filter=Range() as inner):
            values = _list_values(inner.field, record)
            # Of several documents, all values lie on the same side.
            sides = [inner] if _is_any_enough(inner.field, record) else list_open_ranges(inner)
            return not all(any(is_inside(value, side) for value in values) for side in sides)
        case Not():
            return not _passes(where.filter, record)
        case _:
            values = _list_values(where.field, record)
            matches = [is_inside(item, where) if isinstance(where, Range) else item in where.values for item in values]
            enough = isinstance(where, Overlaps) or _is_any_enough(where.field, record)
            return any(matches) and (enough or all(matches))


def _list_values(field: str, record: Mapping[str, object]) -> Sequence[typing.Any]:
    value = record.get(field)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if field.startswith("meta.") and MAPPING in values:
        raise refuse_mappings(field)
    return values


def _is_any_enough(field: str, record: Mapping[str, object]) -> bool:
    """Return whether one value that matches is enough: of keywords, and of metadata of one document."""
    documents = record.get("doc_ids")
    of_one = isinstance(documents, list) and len(documents) == 1
    return not is_of_documents(field) or (field.startswith("meta.") and of_one)


def is_inside(value: typing.Any, where: Range) -> bool:
    """Return whether a value of a record lies in the range. None, NaN, infinity and words are in no numeric range."""
    if value is None:
        return False
    if where.numeric:
        number = read_number(value) if isinstance(value, str) else value
        low, high = list_number_ends(where)
        return number is not None and low <= number <= high
    if not isinstance(value, str) and where != Range(where.field):
        raise refuse_strings(where)
    return (where.low is None or value >= where.low) and (where.high is None or value <= where.high)


def list_number_ends(where: Range) -> tuple[float, float]:
    """Return both ends of a range of numbers; NaN (which engines sort last) and infinity are in none."""
    return (
        -_LARGEST if where.low is None else float(where.low),
        _LARGEST if where.high is None else float(where.high),
    )


def read_number(text: str | None) -> float | None:
    """Return the number that a value of metadata is, None if it is none."""
    return float(text) if text is not None and NUMBER.fullmatch(text) else None


def refuse_strings(where: Range) -> UsageError:
    """Return the error for a range of strings on a field of numbers."""
    return UsageError(
        f"The field {where.field!r} contains numbers; the ends of its Range must be numbers. Got {where!r}."
    )


ComparisonOperator: TypeAlias = Literal["==", "!=", ">", ">=", "<", "<=", "in", "not in"]
NAMED_COMPARISONS: Mapping[str, ComparisonOperator] = {
    "eq": "==",
    "ne": "!=",
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
    "in": "in",
    "nin": "not in",
}
"""The operators by the names that they have in the filters of several frameworks and of OpenAI's API."""

_RESERVED = "ragindex."
_RESERVED_FIELDS = ("doc_ids", "passage_ids")


def build_comparison(key: str, operator: ComparisonOperator, value: object) -> Filter:
    """Return the filter for documents whose metadata value of `key` compares to `value`.

    A document without the key matches `!=` and `not in`, and nothing else. `in` and `not in` take a list. The keys
    `ragindex.doc_ids` and `ragindex.passage_ids` are the ids of a hit's documents and passages. Raises UsageError for
    a value that ragindex cannot compare: None, NaN, infinity, a list where one value is wanted, and anything else.
    """
    return _BUILDERS[operator](_find_field(key), value)


def _find_field(key: str) -> str:
    if not key.startswith(_RESERVED):
        return f"meta.{key}"
    field = key.removeprefix(_RESERVED)
    if field not in _RESERVED_FIELDS:
        known = ", ".join(_RESERVED + name for name in _RESERVED_FIELDS)
        raise UsageError(
            f"Of the keys that begin with {_RESERVED!r}, a filter can use {known}. Got {quote_value(key)} instead."
        )
    return field


# ---------------------------------------------------------------- comparisons


def _build_equal(field: str, value: object) -> Filter:
    return Terms(field, (_to_term(field, value),))


def _build_among(field: str, values: object) -> Filter:
    if not isinstance(values, list | tuple | set | frozenset):
        raise UsageError(f"'in' and 'not in' take a list of values. {_got(field, values)}")
    return Terms(field, tuple(_to_term(field, value) for value in values))


def _build_at_least(field: str, value: object) -> Filter:
    return Range(field, low=_to_end(field, value))


def _build_at_most(field: str, value: object) -> Filter:
    return Range(field, high=_to_end(field, value))


def _build_above(field: str, value: object) -> Filter:
    """From the next larger float or string on, because a Range includes its ends."""
    end = _to_end(field, value)
    return Range(field, low=f"{end}\0" if isinstance(end, str) else math.nextafter(end, math.inf))


def _build_below(field: str, value: object) -> Filter:
    """Strings have no next smaller one, so a list that holds `value` fails, whatever else it holds."""
    end = _to_end(field, value)
    if isinstance(end, str):
        return All((Range(field, high=end), Not(Terms(field, (end,)))))
    return Range(field, high=math.nextafter(end, -math.inf))


_BUILDERS: Mapping[ComparisonOperator, Callable[[str, object], Filter]] = {
    "==": _build_equal,
    "!=": lambda field, value: Not(_build_equal(field, value)),
    ">": _build_above,
    ">=": _build_at_least,
    "<": _build_below,
    "<=": _build_at_most,
    "in": _build_among,
    "not in": lambda field, values: Not(_build_among(field, values)),
}


# ---------------------------------------------------------------- values


def _got(field: str, value: object) -> str:
    return f"Got {quote_value(value)} for {quote_value(field)}."


def _to_term(field: str, value: object) -> str:
    """Return the term of a plain value; True is not 1."""
    if not isinstance(value, str | int | float | date) or (isinstance(value, float) and not math.isfinite(value)):
        raise UsageError(f"A filter compares with a string, a finite number, a boolean or a date. {_got(field, value)}")
    return term(value)


def _to_end(field: str, value: object) -> float | str:
    """Return the end of a range; dates become strings in ISO form, which sort by time."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | date):
        raise UsageError(f"Only numbers, strings and dates have an order. {_got(field, value)}")
    if isinstance(value, int | float):
        if not abs(value) < _TOO_LARGE:
            raise UsageError(f"A number in a filter must be finite. {_got(field, value)}")
        return float(value)
    return term(value)


_TOO_LARGE = 1e308
