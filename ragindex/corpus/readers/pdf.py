"""The reader of PDF files."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import regex

from ragindex.corpus.readers.content import FileContent, join_pages
from ragindex.corpus.readers.libraries import FAULTS, clean_library_text, describe_fault
from ragindex.distribution import require_module
from ragindex.errors import DataError

_LETTERS = ("ff", "fi", "fl", "ffi", "ffl")
_SIGNS = "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06\x1b\x1c\x1d\x1e\x1f"
_LIGATURES = dict(zip(_SIGNS, (*_LETTERS, "st", "st", *_LETTERS), strict=True))
_LIGATURE = regex.compile(r"[\ufb00-\ufb06]|(?<=\p{L})[\x1b-\x1f]|[\x1b-\x1f](?=\p{L})")
_NO_TITLE = regex.compile(
    r"untitled.*|.*\.(?:dvi|tex|e?ps|pdf|docx?|odt|rtf|pptx?|odp|xlsx?|indd|qxd)|\S+\.(?:fm|md|html?|txt)",
    regex.IGNORECASE,
)
"""What programs write for the title of a PDF file where nobody gave one: the name of the file that it was made from."""
_PDFIUM = Lock()  # PDFium must not be called by two threads at once
_BREAKING_HYPHEN = "\ufffe"  # what PDFium writes for a hyphen and the line's end after it
_PAGES = regex.compile(r"(?:\d{1,4}|[ivxlc]{1,7})(?:[,–-]\s?(?:\d{1,4}|[ivxlc]{1,7}))*\Z")
_LEADERS = " \t\N{NO-BREAK SPACE}.…"
_FEWEST_DOTS = 4  # that lead from an entry to its page
_FEWEST_ENTRIES = 4  # of a table of contents on a page
_LONGEST_ENTRY = 500  # characters
_IN_ORDER = 0.7  # of the neighbouring lines: at least so many must be in the order of their pages or of the alphabet


def read_pdf(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read the text of each page of a PDF file. Raises DataError if it is damaged or encrypted."""
    pdfium = require_module("pypdfium2", "pypdfium2", f"Reading {path.name}")
    try:
        with _PDFIUM, closing(pdfium.PdfDocument(raw)) as document:
            title = clean_library_text(document.get_metadata_value("Title")).strip()
            pages = [_read_page(document[number]) for number in range(len(document))]
    except (pdfium.PdfiumError, *FAULTS) as error:
        raise DataError("a PDF file", _explain_pdf(raw, error), path=path) from error
    text, sections, _ = join_pages([(page, (), ()) for page in leave_out_contents(pages)])
    return FileContent("" if _NO_TITLE.fullmatch(title) else title, text, sections, {"pages": len(pages)})


def _read_page(page: Any) -> str:
    """Return the text of a page of a PDF file, with words that a hyphen breaks at the end of a line in one piece."""
    with closing(page), closing(page.get_textpage()) as text:
        found: str = text.get_text_range()
    return _spell_ligatures(clean_library_text(found.replace(_BREAKING_HYPHEN, "")))


def _explain_pdf(raw: bytes, error: Exception) -> str:
    """Say what is wrong with a PDF file in words of its reader, where the library's words are of its inner parts."""
    if not raw:
        return "an empty one"
    if not raw.lstrip().startswith(b"%PDF-"):
        return "another kind of file: it does not begin with %PDF-"
    if b"/Encrypt" in raw:
        return "an encrypted one; save it without a password"
    if b"%%EOF" not in raw[-2048:]:
        return f"one whose end is missing; copy it again ({describe_fault(error)})"
    return f"a damaged one ({describe_fault(error)})"


def _spell_ligatures(text: str) -> str:
    """Return a text with ligatures as letters, as people write them in questions.

    TeX's T1 fonts have them at 27 to 31, and PDF files often do not say which letters these are.
    """
    return _LIGATURE.sub(lambda found: _LIGATURES[found[0]], text)


# ---------------------------------------------------------------- tables of contents and indexes


def leave_out_contents(pages: Sequence[str]) -> list[str]:
    """Return the texts of pages without the entries of tables of contents and indexes, which name everything.

    An entry is a line with dots that lead to a page. It is left out if most lines of its page are entries, if these
    name pages of the file in their order or stand in the order of the alphabet, as a list of prices does not, and if
    what it names stands in the text of other pages too.
    """
    entries = [_find_entries(text, len(pages)) for text in pages]
    if not any(entries):
        return list(pages)
    rest = "\n".join(_normalize(text) for text, found in zip(pages, entries, strict=True) if not found)
    return [_leave_out(text, found, rest) for text, found in zip(pages, entries, strict=True)]


def _find_entries(text: str, pages: int) -> dict[int, str]:
    """Return the names of the entries of a page by the number of their line, if it is a page of contents."""
    lines = text.split("\n")
    found = {number: entry for number, line in enumerate(lines) if (entry := _split_entry(line)) is not None}
    if len(found) < _FEWEST_ENTRIES or 2 * len(found) <= sum(bool(line.strip()) for line in lines):
        return {}
    numbers = [page for _, page in found.values() if page is not None]
    names = {number: name for number, (name, _) in found.items()}
    if max(numbers, default=0) > pages:
        return {}
    in_order = _are_in_order(pairwise(numbers)) or _are_in_order(pairwise(names.values()))
    return names if in_order else {}


def _leave_out(text: str, entries: Mapping[int, str], rest: str) -> str:
    lines = enumerate(text.split("\n"))
    return "\n".join(line for number, line in lines if number not in entries or entries[number] not in rest)


def _split_entry(line: str) -> tuple[str, int | None] | None:
    """Return the name and the first page (None: a Roman numeral) of a line like `Tides . . . . 12`, else None."""
    line = line.strip()
    pages = _PAGES.search(line[-_LONGEST_ENTRY:])
    if pages is None:
        return None
    before = line[: len(line) - len(pages[0])]
    name = before.rstrip(_LEADERS)
    dots = before[len(name) :]
    if dots.count(".") + _FEWEST_DOTS * dots.count("…") < _FEWEST_DOTS:
        return None
    first = regex.match(r"\d+", pages[0])
    return _normalize(name), int(first[0]) if first else None


def _are_in_order(pairs: Iterable[tuple[Any, Any]]) -> bool:
    """Return whether most neighbours are in order."""
    ordered = [bool(one <= other) for one, other in pairs]
    return sum(ordered) >= _IN_ORDER * len(ordered)


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())
