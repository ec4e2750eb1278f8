"""The reader of spreadsheets, of Excel and OpenDocument, by calamine."""

from collections.abc import Iterable, Iterator, Set
from datetime import date, datetime, time, timedelta
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

from python_calamine import CalamineError, CalamineSheet, SheetTypeEnum, SheetVisibleEnum, load_workbook

from ragindex.corpus.readers.archives import explain_damage, read_parts
from ragindex.corpus.readers.content import ContentBuilder, FileContent
from ragindex.corpus.readers.libraries import FAULTS, describe_fault
from ragindex.corpus.readers.office import CORE_PROPERTIES, read_title_property
from ragindex.corpus.readers.office_elements import note_hidden
from ragindex.corpus.readers.sheet_parts import SheetParts, read_sheet_parts

_Cell: TypeAlias = str | int | float | bool | datetime | date | time | timedelta


def read_spreadsheet(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read each sheet as a page: its name, a table without blank rows and without blank columns around it, and texts.

    Raises DataError for a file that is damaged or encrypted, or of which no sheet can be read.
    """
    builder, notes = ContentBuilder(), list[str]()
    with explain_damage("a spreadsheet", raw, path, CalamineError), load_workbook(BytesIO(raw)) as workbook:
        sheets = workbook.sheets_metadata
        others = read_sheet_parts(raw)
        for place, sheet in enumerate(sheets):
            parts = others[place] if place < len(others) else SheetParts()
            try:
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
    title = read_title_property(*read_parts(raw, CORE_PROPERTIES))
    return builder.build(title, {"pages": len(sheets)}, [*note_hidden("sheet", hidden), *notes])


def _write_percents(sheet: CalamineSheet, places: Set[tuple[int, int]]) -> Iterator[list[_Cell]]:
    """Yield the rows of a sheet, with the numbers at these places (row and column, from 0) as percents."""
    first = (sheet.start or (0, 0))[1]
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
