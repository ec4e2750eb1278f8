"""Readers of plain text and source code, and of tables: CSV, TSV and JSON Lines."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragindex.corpus.json_reader import Item, Problems, parse_json_lines
from ragindex.corpus.readers.content import FileContent, clean_text
from ragindex.corpus.readers.text_encodings import decode_text, name_encoding
from ragindex.errors import DataError

_DELIMITERS = ",;\t|"
_SNIFFED = 20_000  # characters
_LONGEST_FIELD = 10_000_000  # characters


def read_text(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a text file, which has no title."""
    text, found = decode_text(raw, path, encoding)
    return FileContent("", clean_text(text), metadata=name_encoding(found))


def read_source_code(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read source code; its title is the file's name with suffix."""
    read = read_text(raw, path, encoding)
    return FileContent(path.name, read.text, metadata=read.metadata)


def read_table(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read CSV or TSV: a paragraph per row, with a line `column: value` per cell that is not empty.

    Raises DataError if it cannot be parsed.
    """
    text, found = decode_text(raw, path, encoding)
    rows = [row for _, row in read_csv_rows(clean_text(text), path)]
    header, body = (rows[0], rows[1:]) if rows else ([], [])
    paragraphs = [_format_row(dict(zip(header, row, strict=False))) for row in body]
    return FileContent("", "\n\n".join(filter(None, paragraphs)), metadata=name_encoding(found))


def read_json_rows(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read JSON Lines of a folder: a paragraph per object, with a line `key: value` per key. Raises DataError."""
    rows = [item.fields for item in parse_json_lines(io.BytesIO(raw), path, Problems(skip_bad=False))]
    return FileContent("", clean_text("\n\n".join(filter(None, map(_format_row, rows)))))


def read_csv_rows(text: str, path: Path) -> Iterator[tuple[Item, list[str]]]:
    """Yield the rows of CSV that are not blank, each with its place; the delimiter is a comma, semicolon, tab or bar.

    Raises DataError, with the line, if the text cannot be parsed.
    """
    limit = csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_find_delimiter(text), strict=True)
    line = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield Item({}, path, line), row
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError("comma-separated values", str(error), path=path, line=line) from error
    finally:
        csv.field_size_limit(limit)


def _find_delimiter(text: str) -> str:
    """Return the delimiter that the first row has most, outside of quotes; a comma if it has none."""
    start = text[:_SNIFFED].lstrip("\r\n")
    quoted, counts = False, dict.fromkeys(_DELIMITERS, 0)
    for mark in start:
        if mark == '"':
            quoted = not quoted
        elif mark == "\n" and not quoted:
            break
        elif mark in counts and not quoted:
            counts[mark] += 1
    return max(_DELIMITERS, key=lambda mark: counts[mark])


def _format_row(row: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{name.strip()}: {text}" for name, value in row.items() if (text := _format_cell(value)) and name.strip()
    )


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode().strip()
