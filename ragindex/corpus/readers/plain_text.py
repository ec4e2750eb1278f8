"""Readers of plain text, source code and texts with headings (AsciiDoc, Org, TeX), of tables (CSV), and of JSON."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import regex

from ragindex._util.text import first_names, many
from ragindex.corpus.json_reader import Item
from ragindex.corpus.readers.content import ContentBuilder, FileContent, clean_text, find_heading_paths
from ragindex.corpus.readers.text_encodings import decode_text, name_encoding
from ragindex.errors import DataError

_DELIMITERS = ",;\t|"
_SNIFFED = 200  # lines
_LONGEST_FIELD = 10_000_000  # characters
_TERMINAL_CODES = regex.compile(
    r"""(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]    # colours and movements of the cursor
    | \x1b\][^\x07\x1b]*(?:\x07|\x1b\\)   # titles of the window, links
    | \x1b[ -/]*[0-Z\\^-~]
    | [^\n]\x08                            # overstruck, as bold and underlined text of manuals
    """,
    regex.VERBOSE,
)


def read_text(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a text file, which has no title; what moves and colours a terminal is left out."""
    text, detected = decode_text(raw, path, encoding)
    return FileContent("", _TERMINAL_CODES.sub("", clean_text(text)), metadata=name_encoding(detected))


def read_source_code(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read source code; its title is the file's name with suffix."""
    read = read_text(raw, path, encoding)
    return FileContent(path.name, read.text, metadata=read.metadata)


# ---------------------------------------------------------------- texts with headings: AsciiDoc, Org and TeX


class _Markup(NamedTuple):
    """Patterns of one language.

    `heading` has the groups `level`, a run of marks or a name of `levels`, and `text`. `block` matches a table, or the
    first line of code or a table with the group `mark`, which ends with the line or command `end`.
    """

    heading: regex.Pattern[str]
    block: regex.Pattern[str]
    end: str
    title: regex.Pattern[str]
    levels: tuple[str, ...] = ()


def _compile(heading: str, block: str, end: str, title: str, levels: tuple[str, ...] = ()) -> _Markup:
    heads, blocks, titles = (regex.compile(pattern, regex.MULTILINE) for pattern in (heading, block, title))
    return _Markup(heads, blocks, end, titles, levels)


_TEX_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
_TEX_ARGUMENT = r"\{(?<text>(?:[^{}\\]|\\.|\{[^{}]*+\})*+)\}"
_ASCIIDOC = _compile(
    r"^(?<level>={1,6})[ \t]++(?<text>\S[^\n]*+)$",
    r"^(?<mark>-{4,}|\.{4,}|\|===)[ \t]*+$",
    r"^{mark}[ \t]*+$",
    r"\A\s*+=[ \t]++(?<text>\S[^\n]*+)",
)
_ORG = _compile(
    r"^(?<level>\*++)[ \t]++(?<text>\S[^\n]*+)$",
    r"^[ \t]*+(?:#\+(?i:begin)_(?<mark>\w++)[^\n]*+|\|[^\n]*+(?:\n[ \t]*+\|[^\n]*+)*+)",
    r"^[ \t]*+#\+(?i:end_{mark})\b",
    r"^#\+(?i:title):[ \t]*+(?<text>\S[^\n]*+)",
)
_TEX = _compile(
    rf"^[ \t]*+\\(?<level>{'|'.join(_TEX_LEVELS)})\b\*?(?:\[[^\]\n]*+\])?{_TEX_ARGUMENT}",
    r"\\begin\{(?<mark>(?:verbatim|lstlisting|minted|tabular|longtable)\*?)\}",
    r"\\end\{{{mark}\}}",
    rf"\\title(?:\[[^\]\n]*+\])?{_TEX_ARGUMENT}",
    _TEX_LEVELS,
)
_MARKUPS: Mapping[str, _Markup] = {".adoc": _ASCIIDOC, ".asciidoc": _ASCIIDOC, ".org": _ORG, ".tex": _TEX}


def read_headed_text(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a text as it is; its headings are those outside of code and tables, which are its blocks."""
    decoded, detected = decode_text(raw, path, encoding)
    text, markup = clean_text(decoded), _MARKUPS[path.suffix.lower()]
    blocks, headings, place = list[tuple[int, int]](), list[tuple[int, int, str]](), 0
    for start, end in (*_find_blocks(text, markup), (len(text), len(text))):
        for match in markup.heading.finditer(text, place, start):
            level = markup.levels.index(match["level"]) + 1 if markup.levels else len(match["level"])
            headings.append((match.start(), level, " ".join(match["text"].split())))
        blocks += [(start, end)] if start < end else []
        place = end
    title = markup.title.search(text)
    top = headings[0][2] if headings and not text[: headings[0][0]].strip() else ""
    return FileContent(
        " ".join(title["text"].split()) if title else top,
        text,
        find_heading_paths(headings),
        name_encoding(detected),
        tuple(blocks),
    )


def _find_blocks(text: str, markup: _Markup) -> Iterator[tuple[int, int]]:
    place, unclosed = 0, set[str]()
    while opening := markup.block.search(text, place):
        place, mark = opening.end(), opening["mark"]
        if mark is None:
            yield opening.end() - len(opening[0].lstrip()), place
        elif mark not in unclosed:
            pattern = markup.end.format(mark=regex.escape(mark))
            if end := regex.compile(pattern, regex.MULTILINE).search(text, place):
                place = end.end()
                yield (
                    opening.end() - len(opening[0].lstrip()),
                    opening.end() + len(text[opening.end() : place].rstrip()),
                )
            else:
                unclosed.add(mark)


# ---------------------------------------------------------------- tables


def read_table(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read CSV or TSV as one table. Lines that stand before it and have fewer cells are paragraphs.

    A row with a quotation mark that is not closed is divided at every delimiter, and a note says so.
    """
    text, detected = decode_text(raw, path, encoding)
    rows, notes = split_rows(text, path.suffix.lower())
    before, builder = _count_leading(rows), ContentBuilder()
    for row in rows[:before]:
        builder.add_paragraph(" ".join(filter(None, map(str.strip, row))))
    builder.add_table([row for row in rows[before:] if any(map(str.strip, row))])
    return builder.build(metadata=name_encoding(detected), notes=notes)


def split_rows(text: str, suffix: str) -> tuple[list[list[str]], list[str]]:
    """Return the rows of CSV or TSV, and notes on those with a quotation mark that is not closed.

    A first line `sep=;`, which is for Excel, is a blank row.
    """
    lines = clean_text(text).split("\n")
    first = int(lines[0].lower() in [f"sep={mark}" for mark in _DELIMITERS])
    delimiter = lines[0][-1] if first else "\t" if suffix == ".tsv" else ""
    with _field_limit.raised():
        rows, strays = _read_rows(lines, first, delimiter or _find_delimiter(lines))
    notes = _note_lines(
        strays,
        "row has a stray quotation mark and is divided at every delimiter",
        "rows have a stray quotation mark and are divided at every delimiter",
    )
    return [[""]] * first + rows, notes


def _read_rows(lines: Sequence[str], start: int, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Return the rows from a line on, and the numbers of the lines with a quotation mark that is not closed."""
    rows, strays = list[list[str]](), list[int]()
    while start < len(lines):
        reader, first = csv.reader(_end_lines(lines, start, len(lines)), delimiter=delimiter, strict=True), start
        try:
            for row in reader:
                rows.append(row)
                start = first + reader.line_num
        except csv.Error:
            rows.append(lines[start].split(delimiter))
            start += 1
            strays.append(start)
    return rows, strays


def _count_leading(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows stand before the table: those with fewer cells than most rows.

    Of these, one with several cells that stands right above the table is its header, which names only some columns,
    unless others with several cells stand before.
    """
    used = [max((at for at, cell in enumerate(row, 1) if cell.strip()), default=0) for row in rows]
    _, width = max(((rows, width) for width, rows in Counter(used).items() if width), default=(0, 0))
    leading = next((at for at, count in enumerate(used) if count >= width), 0)
    return leading - (leading > 0 and used[leading - 1] > 1 and all(count <= 1 for count in used[: leading - 1]))


def _note_lines(numbers: Sequence[int], singular: str, plural: str) -> list[str]:
    """Return the note on lines that are not as they should be, if there are any."""
    lines = f"line{'s' * (len(numbers) > 1)} {first_names([f'{number:,}' for number in numbers])}"
    return [f"{many(len(numbers), singular, plural)}: {lines}"] if numbers else []


def _find_delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that divides most of the first rows into the same number of cells, then the most cells.

    These are the rows up to the first one in which another character than the delimiter follows a quotation mark.
    """

    def rate(delimiter: str) -> tuple[int, int]:
        sample, widths = _end_lines(lines, 0, min(_SNIFFED, len(lines))), Counter[int]()
        with suppress(csv.Error):
            for row in csv.reader(sample, delimiter=delimiter, strict=True):
                widths[len(row)] += 1
        return max(((rows, width) for width, rows in widths.items() if width > 1), default=(0, 0))

    return max(_DELIMITERS, key=rate)


def _end_lines(lines: Sequence[str], start: int, end: int) -> Iterator[str]:
    return (f"{lines[at]}\n" for at in range(start, end))


class _FieldLimit:
    """The longest field that `csv` reads, which is one setting of the process: raised while any text is read.

    Texts are read side by side, in threads or by generators that take turns, and end in any order.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._readings = 0
        self._usual = 0

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raise the limit; the last reading that ends sets it back."""
        with self._lock:
            if not self._readings:
                self._usual = csv.field_size_limit(_LONGEST_FIELD)
            self._readings += 1
        try:
            yield
        finally:
            with self._lock:
                self._readings -= 1
                if not self._readings:
                    csv.field_size_limit(self._usual)


_field_limit = _FieldLimit()


def read_csv_rows(text: str, path: Path) -> Iterator[tuple[Item, list[str]]]:
    """Yield the rows of CSV that are not blank, each with its place; the delimiter is a comma, semicolon, tab or bar.

    Raises DataError, with the line, if the text cannot be parsed.
    """
    line = 1
    with _field_limit.raised():
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=_find_delimiter(text.splitlines()), strict=True)
        try:
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield Item({}, path, line), row
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError("comma-separated values", str(error), path=path, line=line) from error


# ---------------------------------------------------------------- JSON


def read_json_text(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read JSON: a line `key: value` per value, nested ones by their path (`author.name: Ann`).

    The items of an outer array are paragraphs. What is not JSON stays as it is written, and a note says so.
    """
    text, detected = decode_text(raw, path, encoding)
    notes = list[str]()
    try:
        value = _parse_json(text)
        text = _join_paragraphs(map(_write_value, value if isinstance(value, list) else [value]))
    except (ValueError, RecursionError) as error:
        notes.append(f"it is not JSON, and stays as it is written: {error}")
    return FileContent("", clean_text(text), metadata=name_encoding(detected), notes=tuple(notes))


def read_json_lines_text(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read JSON Lines of a folder: a paragraph per line, written as `read_json_text` does."""
    text, detected = decode_text(raw, path, encoding)
    paragraphs, bad = list[str](), list[int]()
    for number, line in enumerate(clean_text(text).split("\n"), 1):
        try:
            paragraphs.append(_write_value(_parse_json(line)) if line.strip() else "")
        except (ValueError, RecursionError):
            paragraphs.append(line)
            bad.append(number)
    notes = _note_lines(
        bad, "line is not JSON and stays as it is written", "lines are not JSON and stay as they are written"
    )
    text = clean_text(_join_paragraphs(paragraphs))
    return FileContent("", text, metadata=name_encoding(detected), notes=tuple(notes))


def _parse_json(text: str) -> Any:
    """Return a value of JSON: objects as tuples of pairs, since keys may repeat, and numbers as they are written."""
    return json.loads(text, object_pairs_hook=tuple, parse_float=str, parse_int=str, parse_constant=str)


def _join_paragraphs(paragraphs: Iterable[str]) -> str:
    return "\n\n".join(filter(None, paragraphs)).encode("utf-8", "replace").decode()  # escapes may be half a character


def _write_value(value: Any) -> str:
    """Return the lines of a value; an array of plain values is one line, and values without text are left out."""
    stack, lines = list[tuple[str, Any]]([("", value)]), list[str]()
    while stack:
        key, value = stack.pop()
        if isinstance(value, list) and any(isinstance(inner, list | tuple) for inner in value):
            stack += [(key, inner) for inner in reversed(value)]
        elif isinstance(value, tuple):
            stack += [(f"{key}.{name}" if key else name, inner) for name, inner in reversed(value)]
        else:
            text = ", ".join(filter(None, map(_write_plain, value if isinstance(value, list) else [value])))
            if text:
                lines.append(f"{key}: {text}" if key.strip() else text)
    return "\n".join(lines)


def _write_plain(value: str | bool | None) -> str:
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    return value.strip()
