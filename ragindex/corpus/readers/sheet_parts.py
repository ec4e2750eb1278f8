"""Parts of an .xlsx file that calamine does not read: text boxes, comments, charts, margins and percents.

office-oxide joins words of text boxes and comments, does not say to which sheet a chart belongs and reads no SmartArt.
"""

import posixpath
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape

import regex

from ragindex.corpus.readers.archives import ARCHIVE_FAULTS, open_archive, read_part

_WORKBOOK, _STYLES = "xl/workbook.xml", "xl/styles.xml"
_ELEMENT = rb"<(?:[\w.-]++:)?%s((?:\s[^<>]*+)?)>"
_SHEET, _LINK, _FORMAT, _CELL_FORMAT = (
    regex.compile(_ELEMENT % name) for name in (b"sheet", b"Relationship", b"numFmt", b"xf")
)
_CELL_FORMATS = regex.compile(rb"<(?:[\w.-]++:)?cellXfs\b.*?</(?:[\w.-]++:)?cellXfs>", regex.DOTALL)
_TEXT = regex.compile(rb"<(?:[\w.-]++:)?t(?:\s[^<>]*+)?>([^<]*+)<")
_END = regex.compile(rb"</(?:[\w.-]++:)?(?:p|comment)>")
_MARGIN = regex.compile(rb"<(?:[\w.-]++:)?(?:odd|even|first)(?:Header|Footer)>([^<]++)<")
_MARGIN_CODE = regex.compile(r'&(?:(&)|"[^"]*+"|\d++|K[\dA-F]{6}|[A-Z])', regex.IGNORECASE)
_PERCENTS = {b"9", b"10"}
"""The numbers of formats of percents that every file has."""
_OF_SHEETS, _OF_DRAWINGS = ("drawing", "comments"), ("chart", "diagramData")


@dataclass(frozen=True, slots=True)
class SheetParts:
    """The places of the cells of a sheet that show percents, such as (1, 0) for A2, and the texts outside of cells."""

    percents: frozenset[tuple[int, int]] = frozenset()
    texts: tuple[str, ...] = ()


def read_sheet_parts(raw: bytes) -> list[SheetParts]:
    """Return the parts of each sheet, in order; none of a file that is no .xlsx file or is damaged."""
    try:
        with open_archive(raw) as archive:
            targets = {id: target for id, _, target in _list_links(archive, _WORKBOOK)}
            sheets = [_read_attribute(found[1], b"id") for found in _SHEET.finditer(read_part(archive, _WORKBOOK))]
            styles = _find_percent_styles(read_part(archive, _STYLES))
            return [_read_sheet(archive, targets.get(id, ""), styles) for id in sheets]
    except ARCHIVE_FAULTS:
        return []


def _read_sheet(archive: zipfile.ZipFile, name: str, styles: set[bytes]) -> SheetParts:
    sheet = read_part(archive, name)
    cell = rb'<(?:[\w.-]++:)?c(?=[^<>]*?\ss="(?:%s)")[^<>]*?\sr="([A-Z]++)(\d++)"' % b"|".join(styles)
    cells = regex.finditer(cell, sheet) if styles else ()
    places = frozenset((int(found[2]) - 1, _number_column(found[1])) for found in cells)
    margins = (unescape(found[1].decode(errors="replace")) for found in _MARGIN.finditer(sheet))
    margins = (_MARGIN_CODE.sub(lambda code: code[1] or " ", margin) for margin in margins)
    texts = [*_list_texts(archive, name, _OF_SHEETS), *(" ".join(text.split()) for text in margins)]
    return SheetParts(places, tuple(dict.fromkeys(filter(None, texts))))


def _list_texts(archive: zipfile.ZipFile, name: str, kinds: Sequence[str]) -> Iterator[str]:
    """Yield the texts of the parts of these kinds that a sheet or a drawing has."""
    for _, kind, target in _list_links(archive, name):
        if kind in kinds:
            lines = (
                b"".join(_TEXT.findall(part)).decode(errors="replace")
                for part in _END.split(read_part(archive, target))
            )
            yield "\n".join(text for line in lines if (text := unescape(line).strip()))
        if kind == "drawing" in kinds:
            yield from _list_texts(archive, target, _OF_DRAWINGS)


def _list_links(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[bytes, str, str]]:
    """Yield id, kind and target of each relationship of a part."""
    folder, _, file = name.rpartition("/")
    for found in _LINK.finditer(read_part(archive, f"{folder}/_rels/{file}.rels")):
        id, kind, target = (_read_attribute(found[1], key) for key in (b"Id", b"Type", b"Target"))
        path = posixpath.join(f"/{folder}", target.decode(errors="replace"))
        yield id, kind.rpartition(b"/")[2].decode(errors="replace"), posixpath.normpath(path).lstrip("/")


def _find_percent_styles(styles: bytes) -> set[bytes]:
    """Return the numbers of the styles of cells that show percents."""
    codes = {
        _read_attribute(one[1], b"numFmtId"): _read_attribute(one[1], b"formatCode") for one in _FORMAT.finditer(styles)
    }
    numbers = _PERCENTS | {number for number, code in codes.items() if b"%" in code}
    listed = _CELL_FORMATS.search(styles)
    formats = _CELL_FORMAT.finditer(listed[0]) if listed else ()
    return {b"%d" % at for at, one in enumerate(formats) if _read_attribute(one[1], b"numFmtId") in numbers}


def _read_attribute(attributes: bytes, name: bytes) -> bytes:
    found = regex.search(rb'[\s:]%s="([^"]*+)"' % name, attributes)
    return bytes(found[1]) if found else b""


def _number_column(letters: bytes) -> int:
    """Return the number of a column from 0, such as 27 for AB."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number - 1
