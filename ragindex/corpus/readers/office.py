"""Readers of Word and PowerPoint files, of the present formats and the old ones, by office-oxide."""

from pathlib import Path
from typing import Any, Literal

import office_oxide

from ragindex.corpus.readers.content import FileContent
from ragindex.corpus.readers.libraries import FAULTS, describe_fault
from ragindex.corpus.readers.office_elements import build_document, build_slides, read_paragraph
from ragindex.corpus.readers.office_parts import (
    ARCHIVE_FAULTS,
    clean_title,
    find_title_paragraphs,
    read_title_property,
    write_out_phonetic_guides,
)
from ragindex.errors import DataError

_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


def read_word(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a Word file, without deleted text. Raises DataError if it is damaged or encrypted."""
    try:
        kind: Literal["doc", "docx"] = "doc" if raw.startswith(_OLD_OFFICE) else "docx"
        document = office_oxide.Document.from_bytes(write_out_phonetic_guides(raw), kind).to_ir()
        titles = find_title_paragraphs(raw)
        for element in (element for section in document["sections"] for element in section["elements"]):
            if element["type"] == "paragraph" and read_paragraph(element) in titles:
                element |= {"type": "heading", "level": 0}
        return build_document(document["sections"], *_read_properties(raw, document))
    except (office_oxide.OfficeOxideError, *ARCHIVE_FAULTS) as error:
        raise DataError("a Word file", explain_damage(raw, error), path=path) from error


def read_slides(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a PowerPoint file; `page` is the slide. Raises DataError if it is damaged or encrypted."""
    try:
        document = office_oxide.Document.from_bytes(raw, "ppt" if raw.startswith(_OLD_OFFICE) else "pptx").to_ir()
        return build_slides(document["sections"], *_read_properties(raw, document))
    except (office_oxide.OfficeOxideError, *FAULTS) as error:
        raise DataError("a PowerPoint file", explain_damage(raw, error), path=path) from error


def _read_properties(raw: bytes, document: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return title and other metadata. Where the properties have no title, the library gives the first heading."""
    properties, headings = document["metadata"], {section.get("title") for section in document["sections"]}
    title = properties.get("title", "")
    title = read_title_property(raw) or ("" if title in headings else clean_title(title))
    return title, {key: properties[key] for key in ("author", "subject") if properties.get(key)}


def explain_damage(raw: bytes, error: Exception) -> str:
    """Say what is wrong with a file of Office."""
    if not raw:
        return "an empty one"
    if _ENCRYPTED in raw or "encrypted" in str(error):
        return "one that a password protects; save it without one"
    if not raw.startswith((b"PK", _OLD_OFFICE)):
        return "another kind of file"
    if "detect file format" in str(error):  # calamine, for an encrypted .xls file too
        return "a damaged one, or one that a password protects"
    return f"a damaged one ({describe_fault(error)})"
