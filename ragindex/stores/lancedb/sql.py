"""Filters as conditions in LanceDB's SQL, and the names that fields have in its tables."""

import sys
from dataclasses import dataclass

import pyarrow as pa

from ragindex.errors import UsageError
from ragindex.filters import All, Any, Filter, Ids, Not, Range, Terms

_META = "meta_"


def column_name(field: str) -> str:
    """A field's column: `meta.KEY` is escaped, for a key may hold any character."""
    return _META + field.removeprefix("meta.").encode().hex() if field.startswith("meta.") else field


def field_name(column: str) -> str:
    """The field behind a column; the inverse of `column`."""
    return "meta." + bytes.fromhex(column.removeprefix(_META)).decode() if column.startswith(_META) else column


def quote(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class TableColumns:
    """A table's columns: which there are, and which of them hold lists of strings or float64."""

    names: frozenset[str]
    lists: frozenset[str]
    numbers: frozenset[str]

    @classmethod
    def of(cls, schema: pa.Schema) -> "TableColumns":
        """Those of a table's schema."""
        lists = frozenset(item.name for item in schema if pa.types.is_list(item.type))
        numbers = frozenset(item.name for item in schema if pa.types.is_floating(item.type))
        return cls(frozenset(schema.names), lists, numbers)


def translate_to_sql(where: Filter, columns: TableColumns) -> str:
    """The condition that `where` means.

    A null counts as false: so a negation is carried down to what it denies, and nowhere else is a null replaced, for
    LanceDB looks into no index behind such an expression.
    """
    match where:
        case Ids():
            return f"id IN ({_listed(where.ids)})" if where.ids else "false"
        case Terms():
            return _terms(where, columns)
        case Range():
            return _range(where, columns)
        case Not():
            return _denied(where.filter, columns)
        case All():
            return " AND ".join(f"({translate_to_sql(part, columns)})" for part in where.filters) or "true"
        case Any():
            return " OR ".join(f"({translate_to_sql(part, columns)})" for part in where.filters) or "false"


def _denied(where: Filter, columns: TableColumns) -> str:
    match where:
        case Ids():
            return f"id NOT IN ({_listed(where.ids)})" if where.ids else "true"
        case Not():
            return translate_to_sql(where.filter, columns)
        case All():
            return translate_to_sql(Any(tuple(map(Not, where.filters))), columns)
        case Any():
            return translate_to_sql(All(tuple(map(Not, where.filters))), columns)
        case _:
            return f"NOT coalesce({translate_to_sql(where, columns)}, false)"


def _listed(values: tuple[str, ...]) -> str:
    return ", ".join(map(quote, values))


def _terms(where: Terms, columns: TableColumns) -> str:
    name = column_name(where.field)
    if name not in columns.names or not where.values:
        return "false"
    if name not in columns.lists:
        return f"{name} IN ({_listed(where.values)})"
    if where.field.startswith("meta."):  # every document of the record
        return f"array_length({name}) > 0 AND array_has_all([{_listed(where.values)}], {name})"
    return f"array_has_any({name}, [{_listed(where.values)}])"


def _range(where: Range, columns: TableColumns) -> str:
    name = column_name(where.field)
    if name not in columns.names:
        return "false"
    if name in columns.numbers and not where.numeric and where != Range(where.field):
        raise UsageError(
            f"The field {where.field!r} contains numbers; the ends of its Range must be numbers. Got {where!r}."
        )
    least = most = name
    if name in columns.lists:
        values = f"arrow_try_cast({name}, 'List(Float64)')" if where.numeric else name
        least, most = f"array_min({values})", f"array_max({values})"
    elif where.numeric and name not in columns.numbers:
        least = most = f"arrow_try_cast({name}, 'Float64')"
    low, high = where.low, where.high
    if where.numeric:  # both ends always: NaN, which sorts last, and infinity are in no range
        low, high = (
            float(-sys.float_info.max if low is None else low),
            float(sys.float_info.max if high is None else high),
        )
    ends = [f"{name} IS NOT NULL"]
    if low is not None:
        ends.append(f"{least} >= {_literal(low)}")
    if high is not None:
        ends.append(f"{most} <= {_literal(high)}")
    return " AND ".join(ends)


def _literal(value: float | str) -> str:
    return quote(value) if isinstance(value, str) else f"CAST({value!r} AS DOUBLE)"
