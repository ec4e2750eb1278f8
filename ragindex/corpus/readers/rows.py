"""Rows of tables as documents: which columns are id, title and text, and what the rows of a table say."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regex

from ragindex._util.text import first_names, many
from ragindex.corpus.readers.content import FileContent
from ragindex.corpus.readers.row_tables import RowTable, read_tables, write_cell
from ragindex.errors import DataError, UsageError
from ragindex.types import MetadataValue, Section

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


def parse_rows(written: str | bool | Rows | None) -> Rows | None:
    """Return the columns that `text=Question+Answer,title=Question,id=Nr` names; "" and True name none.

    Raises UsageError.
    """
    if written is None or written is False or isinstance(written, Rows):
        return written or None
    named = dict[str, str]()
    for part in filter(None, _PARTS.split("" if written is True else written)):
        role, is_named, column = part.partition("=")
        if role not in _CONVENTIONS or not is_named or role in named or (role == "text" and not column.strip()):
            raise UsageError(f"Columns are written as in {_SPELLING}, each once. Got {written!r} instead.")
        named[role] = column.strip()
    return Rows(**named)


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
    named = {name for name in (rows.title, rows.id) if name}
    text = text or [_find_conventional("text", columns, named, path)]
    if not text[0]:
        *names, last = _CONVENTIONS["text"]
        raise _columns_error(f"No column is called {', '.join(names)} or {last}, as one of text is.", columns, path)
    found = {
        role: (_find_columns(name, columns, path)[0] if name else "")
        if name is not None
        else _find_conventional(role, columns, {*text, *named}, path)
        for role, name in (("title", rows.title), ("id", rows.id))
    }
    return Rows(text, **found)


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
    count = sum(len(one.rows) for one in tables)
    return f"its {count:,} rows are one document; to make each a document: --rows {shlex.quote(str(rows))}"


def _suggest_columns(table: RowTable, path: Path) -> Rows | None:
    """Return the columns with conventional names, and for the text also the longest; None if none is long."""
    named = dict[str, str]()
    for role in _CONVENTIONS:
        try:
            column = _find_conventional(role, table.columns, named.values(), path)
        except UsageError:
            named[role] = ""  # several columns could be meant
        else:
            named |= {role: column} if column else {}
    text = named.pop("text", "") or _find_longest(table)
    if "id" in named:
        ids = [write_cell(row.get(named["id"])) for _, row in table.rows]
        named["id"] = named["id"] if all(ids) and len(set(ids)) == len(ids) else ""
    return Rows(text, **named) if text else None


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
    found = [column for column in columns if column.casefold() in _CONVENTIONS[role] and column not in others]
    if len(found) > 1:
        raise _columns_error(f"{' and '.join(map(repr, found))} could each be the {role}.", columns, path)
    return found[0] if found else ""


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
    shown = [repr(column[:80]) for column in columns][:_SHOWN_COLUMNS]
    return ", ".join(shown) + (f" and {len(columns) - len(shown):,} more" if len(shown) < len(columns) else "")


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
