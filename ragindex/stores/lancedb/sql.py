"""Translation of filters to LanceDB's SQL conditions, and of field names to column names."""

from dataclasses import dataclass

import pyarrow as pa

from ragindex.filters import (
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
    refuse_strings,
)
from ragindex.stores.records import column_name


def quote(text: str) -> str:
    """Return `text` as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The column names of a table, and which of them are lists of strings or float64."""

    names: frozenset[str]
    lists: frozenset[str]
    numbers: frozenset[str]

    def have_metadata(self, field: str) -> bool:
        """Return whether `field` is metadata, and the table says of how many documents a record is made."""
        return field.startswith("meta.") and column_name(field) in self.lists and "doc_ids" in self.lists

    @classmethod
    def of(cls, schema: pa.Schema) -> "TableColumns":
        """Read the columns from a table's schema."""
        lists = frozenset(item.name for item in schema if pa.types.is_list(item.type))
        numbers = frozenset(item.name for item in schema if pa.types.is_floating(item.type))
        return cls(frozenset(schema.names), lists, numbers)


def translate_to_sql(where: Filter, columns: TableColumns) -> str:
    """Translate a filter to an SQL condition.

    A null counts as false. LanceDB uses no index for an expression that replaces nulls, so nulls are replaced only in
    negations, which are pushed down to single conditions.
    """
    return _translate(push_negations(where), columns)


def _translate(where: Filter, columns: TableColumns) -> str:
    match where:
        case Ids():
            return f"id IN ({_quote_all(where.ids)})" if where.ids else "false"
        case Terms() | Overlaps():
            return _translate_terms(where, columns)
        case Range():
            return _translate_range(where, columns)
        case Not():
            return _translate_not(where.filter, columns)
        case All():
            return " AND ".join(f"({_translate(part, columns)})" for part in where.filters) or "true"
        case Any():
            return " OR ".join(f"({_translate(part, columns)})" for part in where.filters) or "false"


def _translate_not(where: Filter, columns: TableColumns) -> str:
    if isinstance(where, Ids):
        return f"id NOT IN ({_quote_all(where.ids)})" if where.ids else "true"
    if isinstance(where, Range) and column_name(where.field) in columns.lists and is_of_documents(where.field):
        outside = f"({_translate_outside(where, columns)})"
        if not columns.have_metadata(where.field):
            return outside
        return _by_documents(f"NOT {_translate_any_inside(where, columns)}", outside)
    return f"NOT coalesce({_translate(where, columns)}, false)"


def _by_documents(single: str, several: str) -> str:
    """Return the condition `one` for records of one document, and `several` for all others."""
    is_one = "(coalesce(array_length(doc_ids), 0) = 1)"
    return f"(({is_one} AND {single}) OR (NOT {is_one} AND {several}))"


def _translate_any_inside(where: Range, columns: TableColumns) -> str:
    """Return the condition that an element lies in the range: the next one after `low`, among them in order, does."""
    values, (low, high) = _read_values(where, columns), _list_ends(where)
    least, most = _find_extremes(where, columns)
    if low is None or high is None:
        ends = [f"{most} >= {_quote_value(low)}"] if low is not None else []
        ends += [f"{least} <= {_quote_value(high)}"] if high is not None else []
        return f"coalesce({' AND '.join(ends) or f'{least} IS NOT NULL'}, false)"
    in_order = f"array_sort(array_append({values}, {_quote_value(low)}), 'ASC', 'NULLS FIRST')"
    following = f"{in_order}[CAST(array_position({in_order}, {_quote_value(low)}) AS BIGINT) + 1]"
    return f"coalesce({following} <= {_quote_value(high)}, false)"


def _translate_outside(where: Range, columns: TableColumns) -> str:
    """Return the condition that there are no values, or that all lie on the same side of the range."""
    return " OR ".join(f"NOT {_translate_any_inside(side, columns)}" for side in list_open_ranges(where))


def _quote_all(values: tuple[str, ...]) -> str:
    return ", ".join(map(quote, values))


def _translate_terms(where: Terms | Overlaps, columns: TableColumns) -> str:
    name = column_name(where.field)
    if name not in columns.names or not where.values:
        return "false"
    if name not in columns.lists:
        return f"{name} IN ({_quote_all(where.values)})"
    shares = f"array_has_any({name}, [{_quote_all(where.values)}])"
    if not isinstance(where, Terms) or not is_of_documents(where.field):
        return shares
    contained = f"array_has_all([{_quote_all(where.values)}], {name})"  # the values of all documents must pass
    several = f"{shares} AND {contained}"
    return _by_documents(shares, several) if columns.have_metadata(where.field) else several


def _translate_range(where: Range, columns: TableColumns) -> str:
    name = column_name(where.field)
    if name not in columns.names:
        return "false"
    if name in columns.numbers and not where.numeric and where != Range(where.field):
        raise refuse_strings(where)
    if name in columns.lists and not is_of_documents(where.field):
        return _translate_any_inside(where, columns)
    least, most = _find_extremes(where, columns)
    low, high = _list_ends(where)
    ends = [f"{name} IS NOT NULL"]
    if name in columns.lists:  # no document may lack the value
        ends.append(f"array_sort({_read_values(where, columns)}, 'ASC', 'NULLS FIRST')[1] IS NOT NULL")
    if low is not None:
        ends.append(f"{least} >= {_quote_value(low)}")
    if high is not None:
        ends.append(f"{most} <= {_quote_value(high)}")
    condition = " AND ".join(ends)
    if not columns.have_metadata(where.field):
        return condition
    return _by_documents(_translate_any_inside(where, columns), condition)


def _find_extremes(where: Range, columns: TableColumns) -> tuple[str, str]:
    """Return the expressions of the least and greatest value of the range's field."""
    values = _read_values(where, columns)
    is_list = column_name(where.field) in columns.lists
    return (f"array_min({values})", f"array_max({values})") if is_list else (values, values)


def _read_values(where: Range, columns: TableColumns) -> str:
    name = column_name(where.field)
    if not where.numeric or name in columns.numbers:
        return name
    return f"arrow_try_cast({name}, '{'List(Float64)' if name in columns.lists else 'Float64'}')"


def _list_ends(where: Range) -> tuple[float | str | None, float | str | None]:
    return list_number_ends(where) if where.numeric else (where.low, where.high)


def _quote_value(value: float | str) -> str:
    return quote(value) if isinstance(value, str) else f"CAST({float(value)!r} AS DOUBLE)"
