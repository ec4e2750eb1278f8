"""Readers of Word and PowerPoint files, of the present formats and the old ones, by office-oxide."""

import zipfile
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, TypeAlias

import office_oxide
import regex

from ragindex.corpus.readers.archives import OLD_OFFICE, explain_damage, open_archive, read_parts
from ragindex.corpus.readers.content import FileContent, clean_title
from ragindex.corpus.readers.office_elements import build_document, build_slides, read_paragraph

_Kind: TypeAlias = Literal["doc", "docx", "ppt", "pptx"]
CORE_PROPERTIES = "docProps/core.xml"
"""The part of a file of Office that has its title."""
_STYLES, _TEXT = "word/styles.xml", "word/document.xml"
_TITLE_PROPERTY = regex.compile(rb"<(?:[\w.-]++:)?title(?:\s[^<>]*+)?>([^<]*+)<")
_TITLE_STYLE = regex.compile(rb'w:styleId="([^"]*+)"[^>]*+>\s*+<w:name w:val="title"', regex.IGNORECASE)
_WORDS = regex.compile(rb"<w:t(?:\s[^<>]*+)?>([^<]*+)</w:t>")


def read_word(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a Word file, without deleted text. Raises DataError if it is damaged or encrypted."""
    with explain_damage("a Word file", raw, path, office_oxide.OfficeOxideError):
        properties, styles, text = read_parts(raw, CORE_PROPERTIES, _STYLES, _TEXT)
        written = _write_out_phonetic_guides(raw, text) if b"<w:ruby>" in text else raw
        document = _convert(written, "doc", "docx")
        titles = _find_title_paragraphs(styles, text)
        for element in (element for section in document["sections"] for element in section["elements"]):
            if element["type"] == "paragraph" and read_paragraph(element) in titles:
                element |= {"type": "heading", "level": 0}
        return build_document(document["sections"], *_read_properties(properties, document))


def read_slides(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a PowerPoint file; `page` is the slide. Raises DataError if it is damaged or encrypted."""
    with explain_damage("a PowerPoint file", raw, path, office_oxide.OfficeOxideError):
        (properties,) = read_parts(raw, CORE_PROPERTIES)
        document = _convert(raw, "ppt", "pptx")
        return build_slides(document["sections"], *_read_properties(properties, document))


def _convert(raw: bytes, old: _Kind, present: _Kind) -> dict[str, Any]:
    kind = old if raw.startswith(OLD_OFFICE) else present
    document: dict[str, Any] = office_oxide.Document.from_bytes(raw, kind).to_ir()
    return document


def _read_properties(part: bytes, document: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return title and other metadata. Where the properties have no title, the library gives the first heading."""
    properties, headings = document["metadata"], {section.get("title") for section in document["sections"]}
    title = properties.get("title", "")
    title = read_title_property(part) or ("" if title in headings else clean_title(title))
    return title, {key: properties[key] for key in ("author", "subject") if properties.get(key)}


def read_title_property(part: bytes) -> str:
    """Return the title in the part with a file's properties; empty if it has none that a person wrote."""
    match = _TITLE_PROPERTY.search(part)
    return clean_title(_decode(match[1])) if match else ""


def _find_title_paragraphs(styles: bytes, text: bytes) -> frozenset[str]:
    """Return the paragraphs of a .docx file in the style "Title", which office-oxide does not tell from others."""
    style = _TITLE_STYLE.search(styles)
    if style is None:
        return frozenset()
    mark = b'<w:pStyle w:val="%s"' % style[1]
    paragraphs = (part.rpartition(mark) for part in text.split(b"</w:p>"))
    return frozenset(
        " ".join(_decode(b"".join(_WORDS.findall(after))).split()) for _, found, after in paragraphs if found
    )


def _write_out_phonetic_guides(raw: bytes, text: bytes) -> bytes:
    """Return a .docx file with phonetic guides in brackets behind their words; office-oxide drops both."""
    before, *pieces = text.split(b"<w:ruby>")
    parts, written = [before], BytesIO()
    for piece in pieces:
        ruby, _, after = piece.partition(b"</w:ruby>")
        guide, _, base = (b"".join(_WORDS.findall(part)) for part in ruby.partition(b"<w:rubyBase>"))
        parts += [b"<w:t>%s(%s)</w:t>" % (base, guide), after]
    with open_archive(raw) as given, zipfile.ZipFile(written, "w") as archive:
        for part in given.infolist():
            archive.writestr(part.filename, b"".join(parts) if part.filename == _TEXT else given.read(part))
    return written.getvalue()


def _decode(xml: bytes) -> str:
    return unescape(xml.decode(errors="replace"))
