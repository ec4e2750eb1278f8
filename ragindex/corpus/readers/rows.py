"""Rows of tables (CSV, JSON, spreadsheets, Parquet) as documents: which columns are id, title and text."""

import io
import json
import math
import shlex
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import regex
from python_calamine import CalamineError, load_workbook

from ragindex._util.canonical import MOST_METADATA_LEVELS, encodable
from ragindex._util.text import first_names, many
from ragindex.corpus.json_reader import Problems, decode_utf8, parse_json, parse_json_lines
from ragindex.corpus.readers.archives import FAULTS, describe_fault, explain_damage
from ragindex.corpus.readers.content import FileContent, clean_text
from ragindex.corpus.readers.plain_text import split_rows
from ragindex.corpus.readers.text_encodings import decode_text, name_encoding
from ragindex.errors import DataError, UsageError
from ragindex.types import NO_METADATA, MetadataValue, Section

_BATCH = 1_000  # rows
_EXACT = 2**53  # up to here a float is an integer exactly
_CONVENTIONS = {
    "text": ("text", "body", "content", "answer", "description", "passage"),
    "title": ("title", "name", "question", "subject"),
    "id": ("id", "_id", "key"),
}
_SPELLING = "--rows 'text=COLUMN,title=COLUMN,id=COLUMN'"
_PARTS = regex.compile(r",\s*(?=(?:text|title|id)=)")
_OURS = ("source", "modified")
_SUGGESTED_FROM = 50  # rows
_SUGGESTED_UP_TO = 10_000_000  # bytes: the table is read a second time
_LONG_TEXT = 40  # characters of a column's mean cell
_SHOWN_COLUMNS = 30


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
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return json.dumps(value, ensure_ascii=False)


def _read_csv(raw: bytes, path: Path, encoding: str | None, notes: list[str]) -> Iterator[RowTable]:
    text, used = decode_text(raw, path, encoding)
    rows, remarks = split_rows(text, path.suffix.lower())
    notes += remarks
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
        what = "an array with other items" if isinstance(value, list) else "no array"
        raise DataError("an array of objects or of strings, whose items are rows", what, path=path)
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
            return [item for item in map(_simplify, value) if item is not None] or None
        case dict():
            simple = ((encodable(str(key)), _simplify(item)) for key, item in value.items())
            return {key: item for key, item in simple if item is not None} or None
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


@dataclass(frozen=True, slots=True)
class Rows:
    """Which columns of a table are the id, the title and the text of the documents that its rows are.

    Example:
        rows = ragindex.Rows(text=["Question", "Answer"], title="Question", id="Nr")
        corpus = ragindex.read("faq.csv", rows=rows)

    A column is named as in the header, or, in JSON and Parquet, by its path (`fields.summary`). Several columns of text
    are written below one another with their names. Columns that are not named are those with a conventional name:
    `text`, `body`, `content`, `answer`, `description` or `passage`; `title`, `name`, `question` or `subject`; `id`,
    `_id` or `key`. With "" documents have the file's name as title and the number of the row as id.
    """

    text: str | Sequence[str] = ()
    title: str | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        names = (self.text,) if isinstance(self.text, str) else tuple(self.text)
        object.__setattr__(self, "text", names)

    def __str__(self) -> str:
        """Return what `parse_rows` reads."""
        roles = {"text": "+".join(self.text) or None, "title": self.title, "id": self.id}
        return ",".join(f"{role}={column}" for role, column in roles.items() if column is not None)


def parse_rows(option: str | bool | Rows | None) -> Rows | None:
    """Return the columns that `text=Question+Answer,title=Question,id=Nr` names; "" and True name none.

    Raises UsageError.
    """
    if option is None or option is False or isinstance(option, Rows):
        return option or None
    column_of = dict[str, str]()
    for part in filter(None, _PARTS.split("" if option is True else option)):
        role, is_named, column = part.partition("=")
        if role not in _CONVENTIONS or not is_named or role in column_of or (role == "text" and not column.strip()):
            raise UsageError(f"Columns are written as in {_SPELLING}, each once. Got {option!r} instead.")
        column_of[role] = column.strip()
    return Rows(**column_of)


def read_rows(raw: bytes, path: Path, suffix: str, encoding: str | None, rows: Rows) -> FileContent:
    """Read a table of which each row is a document.

    Raises DataError, and UsageError if the table has no such columns or several that could be meant.
    """
    tables, notes = read_tables(raw, path, suffix, encoding)
    chosen, problems = list[tuple[RowTable, Rows]](), list[UsageError]()
    for table in tables:
        try:
            chosen.append((table, resolve_columns(rows, table.columns, path)))
        except UsageError as error:
            problems.append(error)
            notes.append(f"the sheet {table.name} is left out, because its columns are {_list_columns(table.columns)}")
    if problems and not chosen:
        raise problems[0]
    inner, blank = list[tuple[str, FileContent]](), list[str]()
    for table, columns in chosen:
        lead = f"{table.name}/" if len(tables) > 1 else ""
        own = {**table.metadata, **({"sheet": table.name} if lead else {})}
        for number, row in table.rows:
            content = _make_document(row, number, columns, path.stem, own)
            if content is None:
                blank.append(f"{lead}{number}")
            else:
                inner.append((lead + (write_cell(row.get(columns.id or "")) or str(number)), content))
    if blank:
        notes.append(f"{many(len(blank), 'row')} without text left out: {first_names(blank)}")
    return FileContent("", "", notes=tuple(notes), inner=tuple(inner))


def resolve_columns(rows: Rows, columns: Collection[str], path: Path) -> Rows:
    """Return the columns of a table that `rows` names, or means by convention. Raises UsageError."""
    text = [column for name in rows.text for column in _find_columns(name, columns, path)]
    used_columns = {name for name in (rows.title, rows.id) if name}
    text = text or [_find_conventional("text", columns, used_columns, path)]
    if not text[0]:
        *names, last = _CONVENTIONS["text"]
        raise _columns_error(f"No column is called {', '.join(names)} or {last}, as one of text is.", columns, path)
    others = {
        role: (_find_columns(name, columns, path)[0] if name else "")
        if name is not None
        else _find_conventional(role, columns, {*text, *used_columns}, path)
        for role, name in (("title", rows.title), ("id", rows.id))
    }
    return Rows(text, **others)


def suggest_rows(raw: bytes, path: Path, suffix: str, encoding: str | None) -> str | None:
    """Return the sentence with the flag that would make the rows of a long table documents, if it has a text."""
    if len(raw) > _SUGGESTED_UP_TO:
        return None
    try:
        tables, _ = read_tables(raw, path, suffix, encoding)
    except DataError:
        return None
    table = max(tables, key=lambda table: len(table.rows), default=None)
    rows = _suggest_columns(table, path) if table and len(table.rows) > _SUGGESTED_FROM else None
    if rows is None:
        return None
    count = sum(len(table.rows) for table in tables)
    return f"its {count:,} rows are one document; to make each a document: --rows {shlex.quote(str(rows))}"


def _suggest_columns(table: RowTable, path: Path) -> Rows | None:
    """Return the columns with conventional names, and for the text also the longest; None if none is long."""
    column_of = dict[str, str]()
    for role in _CONVENTIONS:
        try:
            column = _find_conventional(role, table.columns, column_of.values(), path)
        except UsageError:
            column_of[role] = ""  # several columns could be meant
        else:
            column_of |= {role: column} if column else {}
    text = column_of.pop("text", "") or _find_longest(table)
    if "id" in column_of:
        ids = [write_cell(row.get(column_of["id"])) for _, row in table.rows]
        column_of["id"] = column_of["id"] if all(ids) and len(set(ids)) == len(ids) else ""
    return Rows(text, **column_of) if text else None


def _find_columns(name: str, columns: Collection[str], path: Path) -> list[str]:
    """Return the column of this name, or those that `A+B` names."""
    name = name.strip()
    same = [name] if name in columns else [column for column in columns if column.casefold() == name.casefold()]
    if len(same) == 1:
        return same
    if not same and "+" in name:
        return [column for part in name.split("+") for column in _find_columns(part, columns, path)]
    several = f"{' and '.join(map(repr, same))} are both called {name!r}." if same else f"There is no column {name!r}."
    raise _columns_error(several, columns, path)


def _find_conventional(role: str, columns: Collection[str], others: Collection[str], path: Path) -> str:
    """Return the column, not among `others`, with a conventional name of the role; "" if there is none."""
    names = [column for column in columns if column.casefold() in _CONVENTIONS[role] and column not in others]
    if len(names) > 1:
        raise _columns_error(f"{' and '.join(map(repr, names))} could each be the {role}.", columns, path)
    return names[0] if names else ""


def _columns_error(problem: str, columns: Collection[str], path: Path) -> UsageError:
    return UsageError(
        f"{path}: {problem} Its columns are {_list_columns(columns)}. Name them with {_SPELLING}, or leave the file "
        f"out with --exclude {shlex.quote(path.name)}."
    )


def _find_longest(table: RowTable) -> str:
    """Return the column with the longest texts, "" if they are short."""
    lengths = {
        column: sum(len(write_cell(row.get(column))) for _, row in table.rows) / len(table.rows)
        for column in table.columns
    }
    longest = max(lengths, key=lambda column: lengths[column], default="")
    return longest if lengths.get(longest, 0) >= _LONG_TEXT else ""


def _list_columns(columns: Collection[str]) -> str:
    names = [repr(column[:80]) for column in columns][:_SHOWN_COLUMNS]
    return ", ".join(names) + (f" and {len(columns) - len(names):,} more" if len(names) < len(columns) else "")


def _make_document(
    row: Mapping[str, Any], number: int, columns: Rows, stem: str, own: Mapping[str, MetadataValue]
) -> FileContent | None:
    cells = {name: text for name in columns.text if (text := write_cell(row.get(name)))}
    if not cells:
        return None
    labelled = len(columns.text) > 1
    text = "\n".join(f"{name}: {text}" if labelled else text for name, text in cells.items())
    used = {*columns.text, columns.title, columns.id}
    metadata = {f"author_{name}" if name in _OURS else name: value for name, value in row.items() if name not in used}
    title = " ".join(write_cell(row.get(columns.title or "")).split())
    return FileContent(title or stem, text, (Section(0, (), number),), {**own, **metadata})
