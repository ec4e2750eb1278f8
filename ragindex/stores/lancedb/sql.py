"""Translation of filters to LanceDB's SQL conditions, and of field names to column names."""

import sys
from dataclasses import dataclass

import pyarrow as pa

from ragindex.errors import UsageError
from ragindex.filters import All, Any, Filter, Ids, Not, Range, Terms

_META_PREFIX = "meta_"


def column_name(field: str) -> str:
    """Return the column of a field. `meta.KEY` is hex-encoded, because a key may contain any character."""
    return _META_PREFIX + field.removeprefix("meta.").encode().hex() if field.startswith("meta.") else field


def field_name(column: str) -> str:
    """Return the field of a column; the inverse of `column_name`."""
    return (
        "meta." + bytes.fromhex(column.removeprefix(_META_PREFIX)).decode()
        if column.startswith(_META_PREFIX)
        else column
    )


def quote(text: str) -> str:
    """Return `text` as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The column names of a table, and which of them are lists of strings or float64."""

    names: frozenset[str]
    lists: frozenset[str]
    numbers: frozenset[str]

    @classmethod
    def of(cls, schema: pa.Schema) -> "TableColumns":
        """Read the columns from a table's schema."""
        lists = frozenset(item.name for item in schema if pa.types.is_list(item.type))
        numbers = frozenset(item.name for item in schema if pa.types.is_floating(item.type))
        return cls(frozenset(schema.names), lists, numbers)


def translate_to_sql(where: Filter, columns: TableColumns) -> str:
    """Translate a filter to an SQL condition.

    A null counts as false. LanceDB uses no index for an expression that replaces nulls, so negations are pushed down to
    single conditions, and nulls are replaced only there.
    """
    match where:
        case Ids():
            return f"id IN ({_quote_all(where.ids)})" if where.ids else "false"
        case Terms():
            return _translate_terms(where, columns)
        case Range():
            return _translate_range(where, columns)
        case Not():
            return _negate(where.filter, columns)
        case All():
            return " AND ".join(f"({translate_to_sql(part, columns)})" for part in where.filters) or "true"
        case Any():
            return " OR ".join(f"({translate_to_sql(part, columns)})" for part in where.filters) or "false"


def _negate(where: Filter, columns: TableColumns) -> str:
    match where:
        case Ids():
            return f"id NOT IN ({_quote_all(where.ids)})" if where.ids else "true"
        case Not():
            return translate_to_sql(where.filter, columns)
        case All():
            return translate_to_sql(Any(tuple(map(Not, where.filters))), columns)
        case Any():
            return translate_to_sql(All(tuple(map(Not, where.filters))), columns)
        case _:
            return f"NOT coalesce({translate_to_sql(where, columns)}, false)"


def _quote_all(values: tuple[str, ...]) -> str:
    return ", ".join(map(quote, values))


def _translate_terms(where: Terms, columns: TableColumns) -> str:
    name = column_name(where.field)
    if name not in columns.names or not where.values:
        return "false"
    if name not in columns.lists:
        return f"{name} IN ({_quote_all(where.values)})"
    if where.field.startswith("meta."):  # the values of all documents of the record must pass
        return f"array_length({name}) > 0 AND array_has_all([{_quote_all(where.values)}], {name})"
    return f"array_has_any({name}, [{_quote_all(where.values)}])"


def _translate_range(where: Range, columns: TableColumns) -> str:
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
    if where.numeric:  # always set both ends, because NaN (which sorts last) and infinity are in no range
        low, high = (
            float(-sys.float_info.max if low is None else low),
            float(sys.float_info.max if high is None else high),
        )
    ends = [f"{name} IS NOT NULL"]
    if low is not None:
        ends.append(f"{least} >= {_quote_value(low)}")
    if high is not None:
        ends.append(f"{most} <= {_quote_value(high)}")
    return " AND ".join(ends)


def _quote_value(value: float | str) -> str:
    return quote(value) if isinstance(value, str) else f"CAST({value!r} AS DOUBLE)"
