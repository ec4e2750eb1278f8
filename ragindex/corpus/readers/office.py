"""Readers of Word and PowerPoint files."""

import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from ragindex.corpus.readers.content import Blocks, FileContent, find_heading_paths, join_pages
from ragindex.corpus.readers.libraries import FAULTS, clean_library_text, describe_fault
from ragindex.distribution import require_module
from ragindex.errors import DataError

_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")  # the first bytes of .doc, .ppt and of encrypted .docx and .pptx
_MOST_UNPACKED = 500_000_000  # bytes; a file that unpacks to more is refused


def _explain_archive(raw: bytes, error: Exception) -> str:
    """Say what is wrong with an Office file."""
    if not raw:
        return "an empty one"
    if raw.startswith(_OLD_OFFICE):
        return "one of an old Office or an encrypted one; save it anew, without a password"
    if not raw.startswith(b"PK"):
        return "another kind of file: it is no ZIP archive"
    return f"a damaged one ({describe_fault(error)})"


def read_word(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read paragraphs, headings and tables of a .docx file. Raises DataError if it is damaged."""
    docx = require_module("docx", "python-docx", f"Reading {path.name}")
    _check_archive(raw, path)
    try:
        document = docx.Document(BytesIO(raw))
        pieces = list(_read_pieces(document.iter_inner_content()))
        title = document.core_properties.title or ""
    except (docx.exceptions.PythonDocxError, zipfile.BadZipFile, SyntaxError, *FAULTS) as error:
        raise DataError("a Word file", _explain_archive(raw, error), path=path) from error
    headings, blocks, texts, start = list[tuple[int, int, str]](), list[tuple[int, int]](), list[str](), 0
    for level, piece in pieces:
        text = clean_library_text(piece).strip()
        if not text:
            continue
        if level == "table":
            blocks.append((start, start + len(text)))
        elif level is not None:
            headings.append((start, level, " ".join(text.split())))
        texts.append(text)
        start += len(text) + 2
    named = clean_library_text(title).strip() or (headings[0][2] if headings else "")
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
    except (pptx.exc.PythonPptxError, zipfile.BadZipFile, SyntaxError, *FAULTS) as error:
        raise DataError("a PowerPoint file", _explain_archive(raw, error), path=path) from error
    text, sections, blocks = join_pages(slides)
    first = next((headings[0] for _, headings, _ in slides if headings), "")
    return FileContent(clean_library_text(title).strip() or first, text, sections, {"pages": len(slides)}, blocks)


def _read_slide(slide: Any) -> tuple[str, tuple[str, ...], Blocks]:
    """Return the text of a slide, its title if it has one, and its tables."""
    pieces = list(_read_shapes(slide.shapes))
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        pieces.append((False, slide.notes_slide.notes_text_frame.text))
    texts, blocks, start = list[str](), list[tuple[int, int]](), 0
    for is_table, piece in pieces:
        if text := clean_library_text(piece).strip():
            blocks += [(start, start + len(text))] if is_table else []
            texts.append(text)
            start += len(text) + 2
    title = slide.shapes.title
    heading = "" if title is None else " ".join(clean_library_text(title.text_frame.text).split())
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
    except (zipfile.BadZipFile, *FAULTS) as error:
        raise DataError(f"a {path.suffix} file", _explain_archive(raw, error), path=path) from error
    if unpacked > _MOST_UNPACKED:
        raise DataError(f"a file that unpacks to at most {_MOST_UNPACKED:,} bytes", f"{unpacked:,}", path=path)
