"""Tables of files, row by row: CSV, JSON, spreadsheets and Parquet."""

import io
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from python_calamine import CalamineError, load_workbook

from ragindex._util.canonical import MOST_METADATA_LEVELS, encodable
from ragindex.corpus.json_reader import Problems, decode_utf8, parse_json, parse_json_lines
from ragindex.corpus.readers.archives import explain_damage
from ragindex.corpus.readers.content import clean_text
from ragindex.corpus.readers.libraries import FAULTS, describe_fault
from ragindex.corpus.readers.plain_text import read_csv_rows
from ragindex.corpus.readers.text_encodings import decode_text, name_encoding
from ragindex.errors import DataError
from ragindex.types import NO_METADATA, MetadataValue

_BATCH = 1_000  # rows
_EXACT = 2**53  # up to here a float is an integer exactly


@dataclass(frozen=True, slots=True)
class RowTable:
    """The rows of a table, or of a sheet: their numbers as a spreadsheet shows them, and the values of their columns.

    Values are strings, numbers, booleans, and lists of them; those that are empty are left out. `metadata` is that of
    the document of each row.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[int, Mapping[str, Any]], ...]
    metadata: Mapping[str, MetadataValue] = field(default_factory=lambda: NO_METADATA)


def read_tables(raw: bytes, path: Path, suffix: str, encoding: str | None) -> tuple[list[RowTable], list[str]]:
    """Return the tables of a file that have rows, and notes on what is not in them. Raises DataError."""
    notes = list[str]()
    tables = list(_READERS[suffix](raw, path, encoding, notes))
    return [table for table in tables if table.rows], notes


def write_cell(value: Any) -> str:
    """Return a value of a table as text: JSON for lists of other than strings; "" for None."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "\n".join(value)
    return json.dumps(value, ensure_ascii=False)


def _read_csv(raw: bytes, path: Path, encoding: str | None, notes: list[str]) -> Iterator[RowTable]:
    text, used = decode_text(raw, path, encoding)
    rows = (row for _, row in read_csv_rows(clean_text(text), path, blank=True))
    yield replace(_make_table("", enumerate(rows, 1), notes), metadata=name_encoding(used))


def _read_json_lines(raw: bytes, path: Path, encoding: str | None, notes: list[str]) -> Iterator[RowTable]:
    problems = Problems(skip_bad=True)
    rows = [(item.line or 0, item.fields) for item in parse_json_lines(io.BytesIO(raw), path, problems)]
    if problems.errors and not rows:
        raise problems.errors[0]
    notes += [f"line {error.line} is left out: {error.reason.removesuffix('.')}" for error in problems.errors]
    yield _flatten_rows(rows)[0]


def _read_json(raw: bytes, path: Path, encoding: str | None, notes: list[str]) -> Iterator[RowTable]:
    value = parse_json(decode_utf8(raw, path), path)
    if not isinstance(value, list) or not all(isinstance(item, str | Mapping) for item in value):
        found = "an array with other items" if isinstance(value, list) else "no array"
        raise DataError("an array of objects or of strings, whose items are rows", found, path=path)
    rows = [item if isinstance(item, Mapping) else {"text": item} for item in value]
    yield _flatten_rows(enumerate(rows, 1))[0]


def _read_workbook(raw: bytes, path: Path, encoding: str | None, notes: list[str]) -> Iterator[RowTable]:
    with explain_damage("a workbook", raw, path, CalamineError):
        workbook = load_workbook(io.BytesIO(raw))
    for name in workbook.sheet_names:
        try:
            sheet = workbook.get_sheet_by_name(name)
            first = sheet.start[0] + 1 if sheet.start else 1
            rows = sheet.to_python(skip_empty_area=True)
        except (CalamineError, *FAULTS) as error:
            notes.append(f"the sheet {name} cannot be read ({describe_fault(error)})")
        else:
            yield _make_table(encodable(name), enumerate(rows, first), notes)


def _read_parquet(raw: bytes, path: Path, encoding: str | None, notes: list[str]) -> Iterator[RowTable]:
    import pyarrow as pa
    from pyarrow import parquet

    with explain_damage("a Parquet file", raw, path, pa.ArrowException):
        batches = parquet.ParquetFile(io.BytesIO(raw)).iter_batches(batch_size=_BATCH, use_threads=False)
        rows = (row for batch in batches for row in _list_rows(batch))
        table, binary = _flatten_rows(enumerate(rows, 1))
    if binary:
        notes.append(f"columns of bytes that are no text are left out: {', '.join(binary)}")
    yield table


def _list_rows(batch: Any) -> Iterator[Mapping[str, Any]]:
    import pyarrow as pa

    def list_values(column: Any) -> list[Any]:
        if pa.types.is_timestamp(column.type):  # Python has no nanoseconds
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return cast(list[Any], column.to_pylist())

    names = _name_columns(batch.schema.names)
    return (dict(zip(names, row, strict=True)) for row in zip(*map(list_values, batch.columns), strict=True))


def _make_table(name: str, numbered: Iterable[tuple[int, Sequence[Any]]], notes: list[str]) -> RowTable:
    """Return a table whose columns the first row names, below the lines above the table, which have only one cell."""
    cells = ((number, [_simplify(cell) for cell in row]) for number, row in numbered)
    rows = deque((number, row) for number, row in cells if any(cell is not None for cell in row))
    while len(rows) > 1 and _count_filled(rows[0][1]) == 1 < _count_filled(rows[1][1]):
        notes.append(f"row {rows.popleft()[0]} above the table is left out")
    header = [" ".join(write_cell(cell).split()) for cell in rows.popleft()[1]] if rows else []
    width = max([len(header), *(len(row) for _, row in rows)])
    columns = _name_columns([*header, *[""] * (width - len(header))])
    filled = [
        (number, {name: cell for name, cell in zip(columns, row, strict=False) if cell is not None})
        for number, row in rows
    ]
    named = {name for _, row in filled for name in row}
    return RowTable(
        name,
        tuple(name for at, name in enumerate(columns) if header[at : at + 1] != [""] or name in named),
        tuple(filled),
    )


def _count_filled(row: Sequence[Any]) -> int:
    return sum(cell is not None for cell in row)


def _name_columns(names: Sequence[str]) -> list[str]:
    """Return names of columns that are all different: one without a name has its number, a later one of a name too."""
    columns = dict[str, None]()
    for number, name in enumerate(names, 1):
        free = name or f"column {number}"
        columns[free if free not in columns else f"{free} ({number})"] = None
    return list(columns)


def _flatten_rows(rows: Iterable[tuple[int, Mapping[str, Any]]]) -> tuple[RowTable, list[str]]:
    """Return a table with a column for each path of keys, and the columns with bytes that are no text."""
    flat, columns, binary = list[tuple[int, dict[str, Any]]](), dict[str, None](), dict[str, None]()
    for number, fields in rows:
        row = dict[str, Any]()
        for name, value in _flatten(fields):
            columns[name] = None
            if (cell := _simplify(value)) is not None:
                row[name] = cell
            elif value and isinstance(value, bytes):
                binary[name] = None
        flat.append((number, row))
    return RowTable("", tuple(columns), tuple(flat)), list(binary)


def _flatten(
    fields: Mapping[Any, Any], lead: str = "", levels: int = MOST_METADATA_LEVELS
) -> Iterator[tuple[str, Any]]:
    for key, value in fields.items():
        name = lead + (encodable(str(key)) or "(no name)")
        if isinstance(value, Mapping) and levels > 1:
            yield from _flatten(value, f"{name}.", levels - 1)
        else:
            yield name, value


def _simplify(value: Any) -> Any:
    """Return a value of a table as JSON has it, dates as ISO text; None for one that is empty, or bytes."""
    match value:
        case None | int():
            return value
        case str():
            clean = value if value.isascii() and "\r" not in value else encodable(clean_text(value))
            return clean.strip() or None
        case float() | Decimal():
            return _simplify_number(value)
        case date() | time():
            return value.isoformat()
        case list() | tuple():
            return [one for one in map(_simplify, value) if one is not None] or None
        case dict():
            simple = ((encodable(str(key)), _simplify(one)) for key, one in value.items())
            return {key: one for key, one in simple if one is not None} or None
        case bytes():
            return _simplify_bytes(value)
    return str(value)


def _simplify_number(value: float | Decimal) -> float | str | None:
    number = float(value)
    if not math.isfinite(number):
        return None if math.isnan(number) else str(value)
    if isinstance(value, Decimal) and Decimal(repr(number)) != value:
        return str(value)
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def _simplify_bytes(value: bytes) -> Any:
    try:
        return _simplify(value.decode())
    except UnicodeDecodeError:
        return None


_READERS: Mapping[str, Callable[[bytes, Path, str | None, list[str]], Iterator[RowTable]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_json_lines,
    ".json": _read_json,
    ".xlsx": _read_workbook,
    ".xls": _read_workbook,
    ".ods": _read_workbook,
    ".parquet": _read_parquet,
}
