"""The reader of spreadsheets, of Excel and OpenDocument, by calamine.

Calamine does not read text boxes, comments, charts, margins and percents of .xlsx files; office-oxide joins words of
text boxes and comments, does not say to which sheet a chart belongs and reads no SmartArt.
"""

import posixpath
import zipfile
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from html import unescape
from io import BytesIO
from itertools import islice, product
from pathlib import Path
from typing import TypeAlias
from xml.etree.ElementTree import Element

import regex
from python_calamine import CalamineError, CalamineSheet, SheetTypeEnum, SheetVisibleEnum, load_workbook

from ragindex.corpus.readers.archives import (
    ARCHIVE_FAULTS,
    FAULTS,
    describe_fault,
    explain_damage,
    get_attribute,
    get_count,
    name_panics,
    open_archive,
    parse_part,
    read_part,
)
from ragindex.corpus.readers.content import ContentBuilder, FileContent
from ragindex.corpus.readers.office import CORE_PROPERTIES, note_hidden, read_title_property

_Cell: TypeAlias = str | int | float | bool | datetime | date | time | timedelta
_WORKBOOK, _STYLES, _CONTENT = "xl/workbook.xml", "xl/styles.xml", "content.xml"
_MOST_REPEATED = 10_000  # cells that one cell of a file may stand for
_PARAGRAPH = regex.compile(r"(?:\A|\})(?:p|comment)\Z")
_MARGIN = regex.compile(rb"<(?:[\w.-]++:)?(?:odd|even|first)(?:Header|Footer)>([^<]++)<")
_MARGIN_CODE = regex.compile(r'&(?:(&)|"[^"]*+"|\d++|K[\dA-F]{6}|[A-Z])', regex.IGNORECASE)
_PERCENTS = {"9", "10"}
"""The numbers of formats of percents that every .xlsx file has."""
_OF_SHEETS, _OF_DRAWINGS = ("drawing", "comments"), ("chart", "diagramData")


def read_spreadsheet(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read each sheet as a page: its name, a table without blank rows and without blank columns around it, and texts.

    Raises DataError for a file that is damaged or encrypted, or of which no sheet can be read.
    """
    builder, notes = ContentBuilder(), list[str]()
    with explain_damage("a spreadsheet", raw, path, CalamineError), load_workbook(BytesIO(raw)) as workbook:
        sheets = workbook.sheets_metadata
        title, others = _read_parts(raw)
        for place, sheet in enumerate(sheets):
            parts = others[place] if place < len(others) else _SheetParts()
            try:
                with name_panics():
                    rows = _format_rows(_write_percents(workbook.get_sheet_by_index(place), parts.percents))
            except (CalamineError, *FAULTS) as error:
                notes.append(f"the sheet {sheet.name!r} cannot be read ({describe_fault(error)})")
                if len(notes) == len(sheets):
                    raise
                continue
            if rows or parts.texts:
                builder.start_page(place + 1, sheet.name)
                builder.add_paragraph(sheet.name)
                builder.add_table(rows)
                for text in parts.texts:
                    builder.add_paragraph(text)
    charts = [sheet.name for sheet in sheets if sheet.typ != SheetTypeEnum.WorkSheet]
    notes += [f"of the sheet {name!r}, a chart or macro, only values are read" for name in charts]
    hidden = [sheet.name for sheet in sheets if sheet.visible != SheetVisibleEnum.Visible]
    return builder.build(title, {"pages": len(sheets)}, [*note_hidden("sheet", hidden), *notes])


def _write_percents(sheet: CalamineSheet, places: Set[tuple[int, int]]) -> Iterator[list[_Cell]]:
    """Yield the rows of a sheet, with the numbers at these places (row and column, from 0) as percents."""
    if sheet.start is None:  # the sheet is empty, and `iter_rows` of calamine 0.5 panics
        return
    first = sheet.start[1]
    for number, row in enumerate(sheet.iter_rows()):
        for at, cell in enumerate(row if places else ()):
            if isinstance(cell, float) and (number, first + at) in places:
                row[at] = f"{round(100 * cell, 2):.15g} %"
        yield row


def _format_rows(rows: Iterable[list[_Cell]]) -> list[list[str]]:
    filled = (row for row in rows if row.count("") < len(row))  # millions may be blank
    texts = [row for row in ([_format_cell(cell) for cell in row] for row in filled) if any(row)]
    columns = {place for row in texts for place, cell in enumerate(row) if cell}
    first, last = min(columns, default=0), max(columns, default=0)
    return [row[first : last + 1] for row in texts]


def _format_cell(cell: _Cell) -> str:
    """Return the value of a cell as a person sees it: numbers without a needless fraction, times as ISO 8601."""
    match cell:
        case bool():
            return str(cell).upper()
        case float():
            return str(int(cell)) if cell.is_integer() and abs(cell) < 1e21 else f"{cell:.15g}"
        case datetime():
            return str(cell.date()) if cell.time() == time() else cell.isoformat(" ", "seconds")
        case time():
            return cell.isoformat("seconds")
        case timedelta():
            minutes, seconds = divmod(round(cell.total_seconds()), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        case _:
            return str(cell).strip()


@dataclass(frozen=True, slots=True)
class _SheetParts:
    """The places of the cells of a sheet that show percents, such as (1, 0) for A2, and the texts outside of cells."""

    percents: frozenset[tuple[int, int]] = frozenset()
    texts: tuple[str, ...] = ()


def _read_parts(raw: bytes) -> tuple[str, list[_SheetParts]]:
    """Return the title and the parts of each sheet, in order; none of another file than .xlsx or .ods."""
    try:
        with open_archive(raw) as archive:
            if b'"percentage"' in read_part(archive, _CONTENT):
                tables = parse_part(archive, _CONTENT).iterfind("{*}body/{*}spreadsheet/{*}table")
                return "", [_SheetParts(frozenset(_list_percentages(table))) for table in tables]
            targets = {link.get("Id"): target for link, target in _list_links(archive, _WORKBOOK)}
            sheets = [
                get_attribute(sheet, "id") for sheet in parse_part(archive, _WORKBOOK).iterfind("{*}sheets/{*}sheet")
            ]
            styles = _find_percent_styles(parse_part(archive, _STYLES))
            title = read_title_property(read_part(archive, CORE_PROPERTIES))
            return title, [_read_sheet(archive, targets.get(id, ""), styles) for id in sheets]
    except ARCHIVE_FAULTS:
        return "", []


def _list_percentages(table: Element) -> Iterator[tuple[int, int]]:
    """Yield the places of the cells of a sheet of OpenDocument that show percents."""
    next_row = 0
    for row in table.iterfind(".//{*}table-row"):
        first_row, next_row, next_column = next_row, next_row + get_count(row, "number-rows-repeated"), 0
        for cell in row:
            first, next_column = next_column, next_column + get_count(cell, "number-columns-repeated")
            if get_attribute(cell, "value-type") == "percentage":
                yield from islice(product(range(first_row, next_row), range(first, next_column)), _MOST_REPEATED)


def _read_sheet(archive: zipfile.ZipFile, name: str, styles: Sequence[bytes]) -> _SheetParts:
    sheet = read_part(archive, name)  # may be too large for a tree
    pattern = rb'<(?:[\w.-]++:)?c(?=[^<>]*?\ss="(?:%s)")[^<>]*?\sr="([A-Z]++)(\d++)"' % b"|".join(styles)
    cells = regex.finditer(pattern, sheet) if styles else ()
    places = frozenset((int(cell[2]) - 1, _number_column(cell[1])) for cell in cells)
    margins = (unescape(margin[1].decode(errors="replace")) for margin in _MARGIN.finditer(sheet))
    margins = (_MARGIN_CODE.sub(lambda code: code[1] or " ", margin) for margin in margins)
    texts = [*_list_texts(archive, name, _OF_SHEETS), *(" ".join(text.split()) for text in margins)]
    return _SheetParts(places, tuple(dict.fromkeys(filter(None, texts))))


def _list_texts(archive: zipfile.ZipFile, name: str, kinds: Sequence[str]) -> Iterator[str]:
    """Yield the texts of the parts of these kinds that a sheet or a drawing has."""
    for link, target in _list_links(archive, name):
        kind = link.get("Type", "").rpartition("/")[2]
        if kind in kinds:
            paragraphs = (node for node in parse_part(archive, target).iter() if _PARAGRAPH.search(node.tag))
            lines = ("".join(text.text or "" for text in node.iterfind(".//{*}t")).strip() for node in paragraphs)
            yield "\n".join(filter(None, lines))
        if kind == "drawing" in kinds:
            yield from _list_texts(archive, target, _OF_DRAWINGS)


def _list_links(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[Element, str]]:
    """Yield each relationship of a part, and the name of the part that it leads to."""
    folder, _, file = name.rpartition("/")
    for link in parse_part(archive, f"{folder}/_rels/{file}.rels"):
        yield link, posixpath.normpath(posixpath.join(f"/{folder}", link.get("Target", ""))).lstrip("/")


def _find_percent_styles(styles: Element) -> list[bytes]:
    """Return the numbers of the styles of cells that show percents."""
    formats = styles.iterfind("{*}numFmts/{*}numFmt")
    numbers = _PERCENTS | {code.get("numFmtId") for code in formats if "%" in code.get("formatCode", "")}
    cells = enumerate(styles.iterfind("{*}cellXfs/{*}xf"))
    return [b"%d" % number for number, cell in cells if cell.get("numFmtId") in numbers]


def _number_column(letters: bytes) -> int:
    """Return the number of a column from 0, such as 27 for AB."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number - 1
