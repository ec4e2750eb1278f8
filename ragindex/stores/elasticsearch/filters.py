"""Translation of filters to Elasticsearch queries, and of records to the terms that these queries search.

All fields share a few keyword fields, whose terms consist of the field's name, NUL and the value. Metadata can
therefore have any number of keys without growing the mapping. Numbers are terms too, encoded so that they sort
numerically.

- `terms` and `numbers` contain values of which one must pass;
- `group_terms` and `group_numbers` contain the values of fields of documents that have several, all of which must pass:
  a record passes if a value lies in the wanted range or set and none lies in the gaps outside. If a document has no
  value, or no number, the term `_lack` stands for it.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

from ragindex import filters
from ragindex.errors import UsageError
from ragindex.filters import (
    MAPPING,
    All,
    Filter,
    Ids,
    Not,
    Overlaps,
    Range,
    Terms,
    is_of_documents,
    push_negations,
    read_number,
    refuse_mappings,
    refuse_strings,
)
from ragindex.interfaces import Schema

QueryClause = dict[str, Any]
MAX_TERM_LENGTH = 256
"""The most characters of a value that are indexed; the rest of a longer value is replaced by a hash."""
_MAX_TERMS = 60_000
"""The most terms in one query clause; the server allows 65,536."""
_MAX_GAPS = 500
"""The most values in a filter on a field with several values, because the server limits the clauses of a query."""
EVERYTHING: QueryClause = {"match_all": {}}
MATCH_NONE: QueryClause = {"match_none": {}}


# ---------------------------------------------------------------- terms


def encode_term(field: str, value: str) -> str:
    """Return the term for a value of a field."""
    if len(value) <= MAX_TERM_LENGTH:
        return f"{field}\0{value}"
    return f"{field}\0{value[:MAX_TERM_LENGTH]}\uffff{hashlib.sha256(value.encode()).hexdigest()[:32]}"


def encode_number(field: str, value: float) -> str:
    """Return the term for a number of a field: 16 hexadecimal digits that sort numerically; NaN and infinity last."""
    if value != value or value in (float("inf"), float("-inf")):
        return f"{field}\0none"
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))  # adding 0.0 turns -0.0 into 0.0
    return f"{field}\0{bits ^ (0xFFFFFFFFFFFFFFFF if bits >> 63 else 1 << 63):016x}"


def collect_terms(schema: Schema, record: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the terms of a record by keyword field. `record` contains the values by field name."""
    terms, numbers, group_terms, group_numbers = [], [], [], []
    for field in schema.numbers:
        if record.get(field) is not None:
            numbers.append(encode_number(field, record[field]))
    for field, content in record.items():
        is_value = content is not None and field not in ("id", "vector", "tokens", *schema.numbers)
        values = [] if not is_value else list(content) if isinstance(content, list) else [content]
        texts = [encode_term(field, value) for value in values if value is not None]
        figures = [encode_number(field, number) for value in values if (number := read_number(value)) is not None]
        group = is_group(field, values, record.get("doc_ids"))
        if group:
            group_terms += texts if len(texts) == len(values) else [*texts, _lack(field)]
            group_numbers += figures if len(figures) == len(values) else [*figures, _lack(field)]
        if not group or not field.startswith("meta."):
            terms += texts
            numbers += figures
    kinds = (("terms", terms), ("numbers", numbers), ("group_terms", group_terms), ("group_numbers", group_numbers))
    return {name: sorted(set(content)) for name, content in kinds if content}


def is_group(field: str, values: Sequence[Any], documents: Sequence[str] | None) -> bool:
    """Return whether the values of a field are of several documents that do not all have the same one.

    `documents` are the ids of the record's documents, None if it does not tell them.
    """
    of_one = field.startswith("meta.") and documents is not None and len(documents) == 1
    return is_of_documents(field) and len(set(values)) > 1 and not of_one


# ---------------------------------------------------------------- queries


def translate_filter(where: Filter | None, schema: Schema, groups: Set[str]) -> QueryClause:
    """Translate a filter to a query. `groups` are the fields of documents with several values in some record.

    Raises UsageError for a field of metadata that is a mapping in some record (in `groups`, with MAPPING behind it).
    """
    return EVERYTHING if where is None else _translate(push_negations(where), schema, groups)


def _translate(where: Filter, schema: Schema, groups: Set[str]) -> QueryClause:
    match where:
        case Ids():
            return _match_values("id", sorted(set(where.ids)))
        case Terms() | Overlaps():
            return _translate_terms(where, groups)
        case Range():
            return _translate_range(where, schema, groups)
        case Not(filter=Range() as inner) if inner.field in groups:
            return _translate_outside(inner, groups)
        case Not():
            return {"bool": {"must_not": [_translate(where.filter, schema, groups)]}}
        case All():
            inner_queries = [_translate(part, schema, groups) for part in where.filters]
            return {"bool": {"filter": inner_queries}} if inner_queries else EVERYTHING
        case filters.Any():
            return _match_any(_translate(part, schema, groups) for part in where.filters)


def _match_any(parts: Iterable[QueryClause]) -> QueryClause:
    inner = [part for part in parts if part != MATCH_NONE]
    return {"bool": {"should": inner, "minimum_should_match": 1}} if inner else MATCH_NONE


def _match_values(field: str, values: Sequence[str]) -> QueryClause:
    blocks = [values[start : start + _MAX_TERMS] for start in range(0, len(values), _MAX_TERMS)]
    queries = [{"terms": {field: block}} for block in blocks]
    return queries[0] if len(queries) == 1 else _match_any(queries)


def _translate_outside(where: Range, groups: Set[str]) -> QueryClause:
    """Match the records of one value outside of the range, and of several that lie on the same side of it."""
    _require_comparable(where.field, groups)
    kind = "numbers" if where.numeric else "terms"
    group = _match_values("groups", [where.field])
    single = {"bool": {"must_not": [group, _match_between(kind, _encode_ends(where))]}}
    sides = [_match_between(f"group_{kind}", _encode_ends(part)) for part in filters.list_open_ranges(where)]
    return _match_any([single, *({"bool": {"filter": [group], "must_not": [side]}} for side in sides)])


def _match_between(kind: str, ends: tuple[str, str]) -> QueryClause:
    return {"range": {kind: {"gte": ends[0], "lte": ends[1]}}}


def _require_comparable(field: str, groups: Set[str]) -> None:
    if f"{field}{MAPPING}" in groups:
        raise refuse_mappings(field)


def _translate_terms(where: Terms | Overlaps, groups: Set[str]) -> QueryClause:
    _require_comparable(where.field, groups)
    terms = sorted({encode_term(where.field, value) for value in where.values})
    single = _match_values("terms", terms)
    if where.field not in groups or not terms:
        return single
    if isinstance(where, Overlaps):
        return _match_any([single, _match_values("group_terms", terms)])
    if len(terms) > _MAX_GAPS:
        raise UsageError(f"A filter on {where.field!r}, which can have several values, takes at most {_MAX_GAPS}.")
    ends = [_lowest_term(where.field), *terms, _highest_term(where.field)]
    gaps = [{"range": {"group_terms": {"gt": low, "lt": high}}} for low, high in pairwise(ends)]
    gaps[0]["range"]["group_terms"] = {"gte": ends[0], "lt": ends[1]}  # the empty string is a value too
    return _match_single_or_group(where.field, single, _match_values("group_terms", terms), gaps)


def _match_single_or_group(
    field: str, single: QueryClause, group: QueryClause, outside: Sequence[QueryClause]
) -> QueryClause:
    """Match records of one value that passes, and of several of which one passes and none lies outside."""
    (kind,) = next(iter(outside))["range"]
    lacking = {"term": {kind: _lack(field)}}
    return _match_any(
        [
            {"bool": {"filter": [single], "must_not": [_match_values("groups", [field])]}},
            {"bool": {"filter": [group], "must_not": [*outside, lacking]}},
        ]
    )


def _translate_range(where: Range, schema: Schema, groups: Set[str]) -> QueryClause:
    _require_comparable(where.field, groups)
    number = where.field in schema.numbers
    if number and not where.numeric and where != Range(where.field):
        raise refuse_strings(where)
    kind = "numbers" if number or where.numeric else "terms"
    low, high = _encode_ends(where)
    single: QueryClause = {"range": {kind: {"gte": low, "lte": high}}}
    if where.field not in groups:
        return single
    field = f"group_{kind}"
    beside = [{"gte": _lowest_term(where.field), "lt": low}, {"gt": high, "lt": _highest_term(where.field)}]
    outside = [{"range": {field: ends}} for ends in beside]
    return _match_single_or_group(where.field, single, {"range": {field: {"gte": low, "lte": high}}}, outside)


def _encode_ends(where: Range) -> tuple[str, str]:
    """Return the first and last term of a range, both inclusive."""
    if where.numeric:
        low = _lowest_term(where.field) if where.low is None else encode_number(where.field, float(where.low))
        return low, f"{where.field}\0g" if where.high is None else encode_number(where.field, float(where.high))
    for end in (where.low, where.high):
        if end is not None and len(str(end)) > MAX_TERM_LENGTH:
            raise UsageError(f"The ends of a Range on {where.field!r} must have at most {MAX_TERM_LENGTH} characters.")
    low = _lowest_term(where.field) if where.low is None else encode_term(where.field, str(where.low))
    return low, _highest_term(where.field) if where.high is None else encode_term(where.field, str(where.high))


def _lowest_term(field: str) -> str:
    """Return the first term of a field, which is that of the empty value."""
    return f"{field}\0"


def _lack(field: str) -> str:
    """Return the term of a document without a value; it sorts after every value and is in no range of values."""
    return f"{field}\2"


def _highest_term(field: str) -> str:
    """Return a term that sorts after every term of a field."""
    return f"{field}\1"
