"""Filters as Elasticsearch queries, and the terms that records are indexed under for them.

All fields share a few keyword fields, whose terms are the field's name, NUL and the value: so metadata may have any
number of keys, and a mapping never grows. A number is a term too, written so that terms sort as the numbers do.

- `terms` and `numbers` hold the values of which one is enough;
- `group_terms` and `group_numbers` those of metadata with several values, every one of which has to pass: a record
  passes where a value lies inside what is asked for and none lies in the gaps outside.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

from ragindex import filters
from ragindex.errors import UsageError
from ragindex.filters import All, Filter, Ids, Not, Range, Terms
from ragindex.interfaces import Schema
from ragindex.stores.memory.filters import _number as number_in

QueryClause = dict[str, Any]
MAX_TERM_LENGTH = 256
"""Characters of a value that are indexed as they are; of longer ones a hash takes the place of the rest."""
_MOST_TERMS = 60_000
"""The server allows 65,536 terms in a query."""
_MOST_GAPS = 500
"""The server bounds the clauses of a query."""
EVERYTHING: QueryClause = {"match_all": {}}
MATCH_NONE: QueryClause = {"match_none": {}}


# ---------------------------------------------------------------- terms


def encode_term(field: str, value: str) -> str:
    """What a value of a field is indexed as."""
    return (
        f"{field}\0{value}"
        if len(value) <= MAX_TERM_LENGTH
        else f"{field}\0{value[:MAX_TERM_LENGTH]}\uffff{_hash(value)}"
    )


def encode_number(field: str, value: float) -> str:
    """What a number of a field is indexed as: 16 hexadecimal digits, in the order of numbers; others after them."""
    if value != value or value in (float("inf"), float("-inf")):
        return f"{field}\0none"
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))  # -0.0 is 0.0
    return f"{field}\0{bits ^ (0xFFFFFFFFFFFFFFFF if bits >> 63 else 1 << 63):016x}"


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:32]


def collect_terms(schema: Schema, record: Mapping[str, Any]) -> dict[str, list[str]]:
    """The terms of a record, by the keyword field they go into. `record` has the fields' values by their names."""
    terms, numbers, group_terms, group_numbers = [], [], [], []
    for field in schema.numbers:
        if record.get(field) is not None:
            numbers.append(encode_number(field, record[field]))
    for field, held in record.items():
        values = _strings(schema, field, held)
        if field.startswith("meta.") and len(set(values)) > 1:
            if None not in values:
                group_terms += [encode_term(field, value) for value in values]
            found = [one for value in values if (one := number_in(value)) is not None]
            if len(found) == len(values):
                group_numbers += [encode_number(field, one) for one in found]
        elif values != [None]:
            terms += [encode_term(field, value) for value in values if value is not None]
            numbers += [encode_number(field, one) for value in values if (one := number_in(value)) is not None]
    named = (("terms", terms), ("numbers", numbers), ("group_terms", group_terms), ("group_numbers", group_numbers))
    return {name: sorted(set(held)) for name, held in named if held}


def _strings(schema: Schema, field: str, held: Any) -> list[Any]:
    if held is None or field in schema.numbers or field in ("id", "vector", "tokens"):
        return []
    return list(held) if isinstance(held, list) else [held]


# ---------------------------------------------------------------- queries


def translate_filter(where: Filter | None, schema: Schema, groups: Set[str]) -> QueryClause:
    """The query that `where` means; `groups` are the metadata fields of which some record has several values."""
    match where:
        case None:
            return EVERYTHING
        case Ids():
            return _among("id", sorted(set(where.ids)))
        case Terms():
            return _terms(where, groups)
        case Range():
            return _range(where, schema, groups)
        case Not():
            return {"bool": {"must_not": [translate_filter(where.filter, schema, groups)]}}
        case All():
            inner = [translate_filter(part, schema, groups) for part in where.filters]
            return {"bool": {"filter": inner}} if inner else EVERYTHING
        case filters.Any():
            return _any(translate_filter(part, schema, groups) for part in where.filters)


def _any(parts: Iterable[QueryClause]) -> QueryClause:
    inner = [part for part in parts if part != MATCH_NONE]
    return {"bool": {"should": inner, "minimum_should_match": 1}} if inner else MATCH_NONE


def _among(field: str, values: Sequence[str]) -> QueryClause:
    blocks = [values[start : start + _MOST_TERMS] for start in range(0, len(values), _MOST_TERMS)]
    queries = [{"terms": {field: block}} for block in blocks]
    return queries[0] if len(queries) == 1 else _any(queries)


def _terms(where: Terms, groups: Set[str]) -> QueryClause:
    wanted = sorted({encode_term(where.field, value) for value in where.values})
    single = _among("terms", wanted)
    if where.field not in groups or not wanted:
        return single
    if len(wanted) > _MOST_GAPS:
        raise UsageError(f"A filter on {where.field!r}, which can have several values, takes at most {_MOST_GAPS}.")
    ends = [_low(where.field), *wanted, _high(where.field)]
    gaps = [{"range": {"group_terms": {"gt": low, "lt": high}}} for low, high in pairwise(ends)]
    gaps[0]["range"]["group_terms"] = {"gte": ends[0], "lt": ends[1]}  # the empty value is a value
    group = {"bool": {"filter": [_among("group_terms", wanted)], "must_not": gaps}}
    return _any([single, group])


def _range(where: Range, schema: Schema, groups: Set[str]) -> QueryClause:
    number = where.field in schema.numbers
    if number and not where.numeric and where != Range(where.field):
        raise UsageError(
            f"The field {where.field!r} contains numbers; the ends of its Range must be numbers. Got {where!r}."
        )
    kind = "numbers" if number or where.numeric else "terms"
    low, high = _ends(where)
    single: QueryClause = {"range": {kind: {"gte": low, "lte": high}}}
    if where.field not in groups:
        return single
    field = f"group_{kind}"
    outside = [{"gte": _low(where.field), "lt": low}, {"gt": high, "lt": _high(where.field)}]
    group = {
        "bool": {
            "filter": [{"range": {field: {"gte": low, "lte": high}}}],
            "must_not": [{"range": {field: ends}} for ends in outside],
        }
    }
    return _any([single, group])


def _ends(where: Range) -> tuple[str, str]:
    """The terms between which a value lies, both included."""
    if where.numeric:
        low = _low(where.field) if where.low is None else encode_number(where.field, float(where.low))
        return low, f"{where.field}\0g" if where.high is None else encode_number(where.field, float(where.high))
    for end in (where.low, where.high):
        if end is not None and len(str(end)) > MAX_TERM_LENGTH:
            raise UsageError(f"The ends of a Range on {where.field!r} must have at most {MAX_TERM_LENGTH} characters.")
    low = _low(where.field) if where.low is None else encode_term(where.field, str(where.low))
    return low, _high(where.field) if where.high is None else encode_term(where.field, str(where.high))


def _low(field: str) -> str:
    """The first term of the field: the empty value's."""
    return f"{field}\0"


def _high(field: str) -> str:
    """After every term of the field."""
    return f"{field}\1"
