"""Readers of PDF, Word and PowerPoint files."""

import zipfile
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import regex

from ragindex.corpus.readers.content import Blocks, FileContent, clean_text, find_heading_paths, join_pages
from ragindex.distribution import require_module
from ragindex.errors import DataError

# The libraries may raise any of these for a damaged file, in addition to their own errors.
_FAULTS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError)
_LETTERS = ("ff", "fi", "fl", "ffi", "ffl")
_SIGNS = "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06\x1b\x1c\x1d\x1e\x1f"
_LIGATURES = dict(zip(_SIGNS, (*_LETTERS, "st", "st", *_LETTERS), strict=True))
_LIGATURE = regex.compile(r"[\ufb00-\ufb06]|(?<=\p{L})[\x1b-\x1f]|[\x1b-\x1f](?=\p{L})")
_IN_MEMORY = regex.compile(r"'?<_io\.BytesIO object at 0x[0-9a-f]+>'? ?")
_NO_TITLE = regex.compile(
    r"untitled.*|.*\.(?:dvi|tex|e?ps|pdf|docx?|odt|rtf|pptx?|odp|xlsx?|indd|qxd)|\S+\.(?:fm|md|html?|txt)",
    regex.IGNORECASE,
)
"""What programs write for the title of a PDF file where nobody gave one: the name of the file that it was made from."""
_PDFIUM = Lock()  # PDFium must not be called by two threads at once
_BREAKING_HYPHEN = "\ufffe"  # what PDFium writes for a hyphen and the line's end after it
_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")  # the first bytes of .doc, .ppt and of encrypted .docx and .pptx
_MOST_UNPACKED = 500_000_000  # bytes; a file that unpacks to more is refused


def read_pdf(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read the text of each page of a PDF file. Raises DataError if it is damaged or encrypted."""
    pdfium = require_module("pypdfium2", "pypdfium2", f"Reading {path.name}")
    try:
        with _PDFIUM, closing(pdfium.PdfDocument(raw)) as document:
            title = _clean(document.get_metadata_value("Title")).strip()
            pages = [_read_page(document[number]) for number in range(len(document))]
    except (pdfium.PdfiumError, *_FAULTS) as error:
        raise DataError("a PDF file", _explain_pdf(raw, error), path=path) from error
    text, sections, _ = join_pages([(page, (), ()) for page in pages])
    return FileContent("" if _NO_TITLE.fullmatch(title) else title, text, sections, {"pages": len(pages)})


def _read_page(page: Any) -> str:
    """Return the text of a page of a PDF file, with words that a hyphen breaks at the end of a line in one piece."""
    with closing(page), closing(page.get_textpage()) as text:
        found: str = text.get_text_range()
    return _spell_ligatures(_clean(found.replace(_BREAKING_HYPHEN, "")))


def _explain_pdf(raw: bytes, error: Exception) -> str:
    """Say what is wrong with a PDF file in words of its reader, where the library's words are of its inner parts."""
    if not raw:
        return "an empty one"
    if not raw.lstrip().startswith(b"%PDF-"):
        return "another kind of file: it does not begin with %PDF-"
    if b"/Encrypt" in raw:
        return "an encrypted one; save it without a password"
    if b"%%EOF" not in raw[-2048:]:
        return f"one whose end is missing; copy it again ({_describe(error)})"
    return f"a damaged one ({_describe(error)})"


def _explain_archive(raw: bytes, error: Exception) -> str:
    """Say what is wrong with an Office file."""
    if not raw:
        return "an empty one"
    if raw.startswith(_OLD_OFFICE):
        return "one of an old Office or an encrypted one; save it anew, without a password"
    if not raw.startswith(b"PK"):
        return "another kind of file: it is no ZIP archive"
    return f"a damaged one ({_describe(error)})"


def _describe(error: Exception) -> str:
    """Return a library's message on one line, without the address of the file in memory, which differs each time."""
    return " ".join(_IN_MEMORY.sub("", str(error)).split())[:200].rstrip(".") or type(error).__name__


def _spell_ligatures(text: str) -> str:
    """Return a text with ligatures as letters, as people write them in questions.

    TeX's T1 fonts have them at 27 to 31, and PDF files often do not say which letters these are.
    """
    return _LIGATURE.sub(lambda found: _LIGATURES[found[0]], text)


def read_word(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read paragraphs, headings and tables of a .docx file. Raises DataError if it is damaged."""
    docx = require_module("docx", "python-docx", f"Reading {path.name}")
    _check_archive(raw, path)
    try:
        document = docx.Document(BytesIO(raw))
        pieces = list(_read_pieces(document.iter_inner_content()))
        title = document.core_properties.title or ""
    except (docx.exceptions.PythonDocxError, zipfile.BadZipFile, SyntaxError, *_FAULTS) as error:
        raise DataError("a Word file", _explain_archive(raw, error), path=path) from error
    headings, blocks, texts, start = list[tuple[int, int, str]](), list[tuple[int, int]](), list[str](), 0
    for level, piece in pieces:
        text = _clean(piece).strip()
        if not text:
            continue
        if level == "table":
            blocks.append((start, start + len(text)))
        elif level is not None:
            headings.append((start, level, " ".join(text.split())))
        texts.append(text)
        start += len(text) + 2
    named = _clean(title).strip() or (headings[0][2] if headings else "")
    return FileContent(named, "\n\n".join(texts), find_heading_paths(headings), blocks=tuple(blocks))


def _read_pieces(blocks: Any) -> Iterator[tuple[int | Literal["table"] | None, str]]:
    """Yield the text of each paragraph and table, and the level of a heading (0: the title) or "table"."""
    for block in blocks:
        if hasattr(block, "rows"):
            yield "table", _format_table([[cell.text for cell in row.cells] for row in block.rows])
        else:
            yield _find_level(str(block.style.name if block.style is not None else "")), block.text


def _find_level(style: str) -> int | None:
    name, _, number = style.partition(" ")
    if style == "Title":
        return 0
    return int(number) if name == "Heading" and number.isdecimal() else None


def read_slides(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read text, tables and notes of each slide of a .pptx file; `page` is the slide's number. Raises DataError."""
    pptx = require_module("pptx", "python-pptx", f"Reading {path.name}")
    _check_archive(raw, path)
    try:
        presentation = pptx.Presentation(BytesIO(raw))
        slides = [_read_slide(slide) for slide in presentation.slides]
        title = presentation.core_properties.title or ""
    except (pptx.exc.PythonPptxError, zipfile.BadZipFile, SyntaxError, *_FAULTS) as error:
        raise DataError("a PowerPoint file", _explain_archive(raw, error), path=path) from error
    text, sections, blocks = join_pages(slides)
    first = next((headings[0] for _, headings, _ in slides if headings), "")
    return FileContent(_clean(title).strip() or first, text, sections, {"pages": len(slides)}, blocks)


def _read_slide(slide: Any) -> tuple[str, tuple[str, ...], Blocks]:
    """Return the text of a slide, its title if it has one, and its tables."""
    pieces = list(_read_shapes(slide.shapes))
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        pieces.append((False, slide.notes_slide.notes_text_frame.text))
    texts, blocks, start = list[str](), list[tuple[int, int]](), 0
    for is_table, piece in pieces:
        if text := _clean(piece).strip():
            blocks += [(start, start + len(text))] if is_table else []
            texts.append(text)
            start += len(text) + 2
    title = slide.shapes.title
    heading = "" if title is None else " ".join(_clean(title.text_frame.text).split())
    return "\n\n".join(texts), (heading,) if heading else (), tuple(blocks)


def _read_shapes(shapes: Any) -> Iterator[tuple[bool, str]]:
    """Yield whether a shape is a table, and its text."""
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _read_shapes(shape.shapes)
        elif shape.has_text_frame:
            yield False, shape.text_frame.text
        elif shape.has_table:
            yield True, _format_table([[cell.text for cell in row.cells] for row in shape.table.rows])


def _format_table(rows: list[list[str]]) -> str:
    """Return a line per row, with its cells between bars. A merged cell, which the library repeats, is written once."""
    lines = []
    for row in rows:
        cells = [" ".join(cell.split()) for place, cell in enumerate(row) if not place or cell != row[place - 1]]
        lines.append(" | ".join(cells))
    return "\n".join(line for line in lines if line.strip(" |"))


def _check_archive(raw: bytes, path: Path) -> None:
    """Raise DataError for a file that is no ZIP archive, or unpacks to more than what is allowed."""
    try:
        unpacked = sum(one.file_size for one in zipfile.ZipFile(BytesIO(raw)).infolist())
    except (zipfile.BadZipFile, *_FAULTS) as error:
        raise DataError(f"a {path.suffix} file", _explain_archive(raw, error), path=path) from error
    if unpacked > _MOST_UNPACKED:
        raise DataError(f"a file that unpacks to at most {_MOST_UNPACKED:,} bytes", f"{unpacked:,}", path=path)


def _clean(text: str) -> str:
    r"""Return a text with \n as newline, as UTF-8 can hold it."""
    return clean_text(text).replace("\v", "\n").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
