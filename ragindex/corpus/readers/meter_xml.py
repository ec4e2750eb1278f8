"""The pieces of Office files, OpenDocument files and books that the meter counts: the text in the XML of the archive.

XML is read as a stream by expat, without a tree, and an XML file that declares entities is refused.
"""

import io
import posixpath
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote
from xml.parsers.expat import ParserCreate

import regex

from ragindex.corpus.readers.content import FileContent
from ragindex.corpus.readers.meter_html import list_html_pieces
from ragindex.corpus.readers.meter_pieces import ON_PURPOSE, MeterStoppedError, Piece

_MOST_BYTES, _MOST_SECONDS = 200_000_000, 8.0  # of unpacking one file
_CHUNK = 1 << 16
_OFFICE_PARTS = (  # name in the archive, kind of what is in it
    (regex.compile(r"word/document\d*\.xml"), ""),
    (regex.compile(r"word/(?:footnotes|endnotes)\.xml"), ""),
    (regex.compile(r"word/comments\.xml"), ""),
    (regex.compile(r"word/(?:header|footer)\d*\.xml"), "header or footer"),
    (regex.compile(r"ppt/slides/slide\d+\.xml"), ""),
    (regex.compile(r"ppt/notesSlides/notesSlide\d+\.xml"), "page of speaker notes"),
    (regex.compile(r"(?:ppt|xl)/comments/?[\w-]*\.xml"), "comment"),
    (regex.compile(r"xl/drawings/drawing\d+\.xml"), "text box"),
    (regex.compile(r"(?:word|ppt|xl)/diagrams/data\d*\.xml"), "diagram"),
    (regex.compile(r"(?:word|ppt|xl)/charts/chart\d*\.xml"), "chart"),
)
_OFFICE_KINDS = {
    "txbxContent": "text box",
    "footnote": "footnote",
    "endnote": "footnote",
    "comment": "comment",
    "ins": "tracked insertion",
    "moveTo": "tracked insertion",
    "moveFrom": "deleted text",
    "rt": "phonetic guide",
    "sdtContent": "content control",
}
_OFFICE_TEXTS = frozenset(("t", "text"))
_OFFICE_SILENT = frozenset(("Fallback", "instrText", "delText", "delInstrText", "rPh", "sectPr", "tblPr", "rPr"))
_OFFICE_SPACES = frozenset(("tab", "br", "cr", "tc", "tr", "si", "is", "pt"))
_ODF_KINDS = {
    "text-box": "text box",
    "custom-shape": "shape",
    "note": "footnote",
    "annotation": "comment",
    "notes": "page of speaker notes",
    "table-of-content": "contents",
}
_ODF_SILENT = frozenset(
    ("tracked-changes", "ruby-text", "note-citation", "styles", "automatic-styles", "page-number", "date", "creator")
)
_ODF_SPACES = frozenset(("s", "tab", "line-break", "table-cell", "table-row"))


def list_office_pieces(raw: bytes, content: FileContent) -> Iterator[Piece]:
    """Yield the text in an archive of XML: Word, PowerPoint, Excel, OpenDocument or a book."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        names = set(archive.namelist())
        unpack = _Unpacking(archive)
        if "META-INF/container.xml" in names:
            yield from _list_book(unpack, names)
        elif "content.xml" in names:
            yield from _list_odf(unpack)
        else:
            yield from _list_ooxml(unpack, names)


@dataclass(slots=True)
class _Unpacking:
    """Unpacks members of an archive, all together up to a limit of bytes and seconds."""

    archive: zipfile.ZipFile
    left: int = _MOST_BYTES
    deadline: float = field(default_factory=lambda: time.monotonic() + _MOST_SECONDS)

    def read(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a member. Raises MeterStoppedError."""
        with self.archive.open(name) as member:
            while part := member.read(_CHUNK):
                self.left -= len(part)
                if self.left < 0 or time.monotonic() > self.deadline:
                    raise MeterStoppedError
                yield part


@dataclass(slots=True)
class _Grammar:
    """What the elements of a kind of XML mean, by their names without prefix."""

    kinds: Mapping[str, str]
    texts: frozenset[str]  # elements whose characters are text
    silent: frozenset[str]
    spaces: frozenset[str]
    blocks: frozenset[str]


_OFFICE = _Grammar(_OFFICE_KINDS, _OFFICE_TEXTS, _OFFICE_SILENT, _OFFICE_SPACES, frozenset(("p", "si", "is", "pt")))
_CHART = _Grammar({}, frozenset(("t", "v")), _OFFICE_SILENT | {"numCache", "numLit"}, _OFFICE_SPACES, frozenset("p"))
_ODF = _Grammar(_ODF_KINDS, frozenset("ph"), _ODF_SILENT, _ODF_SPACES, frozenset("ph"))


@dataclass(slots=True)
class _Collector:
    """Collects the text of one XML file by paragraphs."""

    grammar: _Grammar
    kind: str = ""
    group: int = 0
    pieces: list[Piece] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    _places: list[tuple[str, str, int]] = field(default_factory=list)
    _silent: int = 0
    _open: int = 0  # elements of text around

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take a start tag."""
        if self._silent:
            self._silent += 1
            return
        name = name[name.find(":") + 1 :]
        grammar = self.grammar
        if name in grammar.texts:
            self._open += 1
        if name in grammar.kinds:
            self.flush()
            self.group += 1
            around = self._places[-1][1] if self._places else self.kind
            self._places.append((name, around if around in ON_PURPOSE else grammar.kinds[name], self.group))
        elif name in grammar.spaces:
            self._text.append(" ")
        elif name in grammar.silent or (name == "fld" and attributes.get("type") == "slidenum"):
            self._silent = 1
        elif name == "noBreakHyphen":
            self._text.append("-")
        elif name == "pStyle" and any(value[:3].upper() == "TOC" for value in attributes.values()):
            self._places.append(("p", "contents", 0))

    def end(self, name: str) -> None:
        """Take an end tag."""
        if self._silent:
            self._silent -= 1
            return
        name = name[name.find(":") + 1 :]
        if name in self.grammar.texts:
            self._open -= 1
        if name in self.grammar.blocks:
            self.flush()
        if self._places and self._places[-1][0] == name:
            self.flush()
            self._places.pop()

    def data(self, text: str) -> None:
        """Take characters."""
        if self._open and not self._silent:
            self._text.append(text)

    def flush(self) -> None:
        """End a paragraph."""
        text = "".join(self._text)
        self._text.clear()
        if text and not text.isspace():
            _, kind, group = self._places[-1] if self._places else ("", self.kind, self.group)
            self.pieces.append(Piece(kind, group, text))


def _feed(unpack: _Unpacking, name: str, collector: Any) -> None:
    """Give the tags and characters of an XML file to a collector. Raises MeterStoppedError, ExpatError."""
    parser = ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = collector.start, collector.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = collector.data, _refuse_entity
    for part in unpack.read(name):
        parser.Parse(part, False)
    parser.Parse(b"", True)


def _refuse_entity(*declared: object) -> None:
    raise MeterStoppedError


def _list_paragraphs(unpack: _Unpacking, name: str, grammar: _Grammar, kind: str, group: int) -> list[Piece]:
    collector = _Collector(grammar, kind, group)
    _feed(unpack, name, collector)
    collector.flush()
    return collector.pieces


def _list_ooxml(unpack: _Unpacking, names: set[str]) -> Iterator[Piece]:
    for number, name in enumerate(sorted(names)):
        for pattern, kind in _OFFICE_PARTS:
            if pattern.fullmatch(name):
                grammar = _CHART if kind == "chart" and not name.startswith("xl/") else _OFFICE  # its cells are counted
                yield from _list_paragraphs(unpack, name, grammar, kind, number * 1_000_000)
    if "xl/workbook.xml" in names:
        yield from _list_sheets(unpack, names)


def _list_odf(unpack: _Unpacking) -> Iterator[Piece]:
    yield from _list_paragraphs(unpack, "content.xml", _ODF, "", 0)


# ---------------------------------------------------------------- sheets


@dataclass(slots=True)
class _Elements:
    """Collects the attributes of all elements of some names."""

    wanted: frozenset[str]
    found: list[dict[str, str]] = field(default_factory=list)

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take a start tag."""
        if name.rpartition(":")[2] in self.wanted:
            self.found.append({key.rpartition(":")[2]: value for key, value in attributes.items()})

    def end(self, name: str) -> None:
        """Take an end tag."""

    def data(self, text: str) -> None:
        """Take characters."""


def _find_elements(unpack: _Unpacking, name: str, *wanted: str) -> list[dict[str, str]]:
    collector = _Elements(frozenset(wanted))
    _feed(unpack, name, collector)
    return collector.found


@dataclass(slots=True)
class _SharedStrings:
    """Collects the strings that the cells of a workbook point to."""

    strings: list[str] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    _silent: bool = False
    _open: bool = False

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take a start tag."""
        name = name.rpartition(":")[2]
        self._silent = self._silent or name == "rPh"
        self._open = name == "t" and not self._silent

    def end(self, name: str) -> None:
        """Take an end tag."""
        name = name.rpartition(":")[2]
        self._open = False
        if name == "rPh":
            self._silent = False
        elif name == "si":
            self.strings.append("".join(self._text))
            self._text.clear()

    def data(self, text: str) -> None:
        """Take characters."""
        if self._open:
            self._text.append(text)


@dataclass(slots=True)
class _Cells:
    """Collects the texts in the cells of a sheet; numbers and dates are shown in other forms, and are not counted."""

    shared: list[str]
    texts: list[str] = field(default_factory=list)
    _type: str = ""
    _text: list[str] = field(default_factory=list)
    _open: bool = False

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take a start tag."""
        name = name.rpartition(":")[2]
        if name == "c":
            self._type = attributes.get("t", "n")
        self._open = name in ("v", "t") and self._type in ("s", "str", "inlineStr")

    def end(self, name: str) -> None:
        """Take an end tag."""
        self._open = False
        if name.rpartition(":")[2] == "c" and self._text:
            text = "".join(self._text)
            self._text.clear()
            self.texts.append(self.shared[int(text)] if self._type == "s" else text)

    def data(self, text: str) -> None:
        """Take characters."""
        if self._open:
            self._text.append(text)


def _list_sheets(unpack: _Unpacking, names: set[str]) -> Iterator[Piece]:
    targets = {
        one["Id"]: posixpath.normpath(posixpath.join("xl", one["Target"])).lstrip("/")
        for one in _find_elements(unpack, "xl/_rels/workbook.xml.rels", "Relationship")
    }
    strings = _SharedStrings()
    if "xl/sharedStrings.xml" in names:
        _feed(unpack, "xl/sharedStrings.xml", strings)
    for number, sheet in enumerate(_find_elements(unpack, "xl/workbook.xml", "sheet")):
        target = targets.get(sheet.get("id", ""), "").replace("xl/xl/", "xl/")
        if target in names:
            cells = _Cells(strings.strings)
            _feed(unpack, target, cells)
            hidden = sheet.get("state", "visible") != "visible"
            for place, text in enumerate(cells.texts):
                yield Piece("hidden sheet", number, text) if hidden else Piece("cell", number << 32 | place, text)


# ---------------------------------------------------------------- books


def _list_book(unpack: _Unpacking, names: set[str]) -> Iterator[Piece]:
    """Yield the text of the pages that a book consists of, in their order."""
    (package, *_) = _find_elements(unpack, "META-INF/container.xml", "rootfile")
    opened = package["full-path"]
    elements = _find_elements(unpack, opened, "item", "itemref")
    addresses = {one["id"]: one["href"] for one in elements if "href" in one and "id" in one}
    for one in elements:
        if "idref" in one and one["idref"] in addresses:
            name = posixpath.normpath(posixpath.join(posixpath.dirname(opened), unquote(addresses[one["idref"]])))
            if name in names:
                page = b"".join(unpack.read(name)).decode("utf-8", "replace")
                yield from list_html_pieces(page)
