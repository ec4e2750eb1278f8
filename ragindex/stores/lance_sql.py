"""Filters as conditions in LanceDB's SQL, and the names that fields have in its tables."""

import sys

from ragindex.errors import UsageError
from ragindex.filters import All, Any, Filter, Ids, Not, Range, Terms

_META = "meta_"


def column(field: str) -> str:
    """A field's column: `meta.KEY` is escaped, for a key may hold any character."""
    return _META + field.removeprefix("meta.").encode().hex() if field.startswith("meta.") else field


def field(column: str) -> str:
    """The field behind a column; the inverse of `column`."""
    return "meta." + bytes.fromhex(column.removeprefix(_META)).decode() if column.startswith(_META) else column


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def condition(where: Filter, columns: frozenset[str], lists: frozenset[str], numbers: frozenset[str]) -> str:
    """The condition that `where` means; `columns` exist, `lists` hold lists of strings, `numbers` float64."""
    match where:
        case Ids():
            return _among("id", where.ids)
        case Terms():
            return _terms(where, columns, lists)
        case Range():
            return _range(where, columns, lists, numbers)
        case Not():
            return f"NOT ({condition(where.filter, columns, lists, numbers)})"
        case All():
            return " AND ".join(f"({condition(part, columns, lists, numbers)})" for part in where.filters) or "true"
        case Any():
            return " OR ".join(f"({condition(part, columns, lists, numbers)})" for part in where.filters) or "false"


def _among(name: str, values: tuple[str, ...]) -> str:
    return f"coalesce({name} IN ({', '.join(map(quoted, values))}), false)" if values else "false"


def _terms(where: Terms, columns: frozenset[str], lists: frozenset[str]) -> str:
    name = column(where.field)
    if name not in columns or not where.values:
        return "false"
    if name not in lists:
        return _among(name, where.values)
    values = f"[{', '.join(map(quoted, where.values))}]"
    if where.field.startswith("meta."):  # every document of the record
        return f"coalesce(array_length({name}) > 0 AND array_has_all({values}, {name}), false)"
    return f"coalesce(array_has_any({name}, {values}), false)"


def _range(where: Range, columns: frozenset[str], lists: frozenset[str], numbers: frozenset[str]) -> str:
    name = column(where.field)
    if name not in columns:
        return "false"
    if name in numbers and not where.numeric and where != Range(where.field):
        raise UsageError(
            f"The field {where.field!r} holds numbers; its Range must have numbers for ends. Got {where!r}."
        )
    least = most = name
    if name in lists:
        values = f"arrow_try_cast({name}, 'List(Float64)')" if where.numeric else name
        least, most = f"array_min({values})", f"array_max({values})"
    elif where.numeric and name not in numbers:
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
    return f"coalesce({' AND '.join(ends)}, false)"


def _literal(value: float | str) -> str:
    return quoted(value) if isinstance(value, str) else f"CAST({value!r} AS DOUBLE)"
