"""Comparisons of metadata, as frameworks and OpenAI's API have them, built as filters of ragindex."""

import math
from collections.abc import Callable, Mapping
from datetime import date
from typing import Literal, TypeAlias

from ragindex.counts import quote_value
from ragindex.errors import UsageError
from ragindex.filters import All, Filter, Not, Range, Terms, term

ComparisonOperator: TypeAlias = Literal["==", "!=", ">", ">=", "<", "<=", "in", "not in"]

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
