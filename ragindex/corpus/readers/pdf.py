"""The reader of PDF files."""

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from ctypes import c_double, c_ushort
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import accumulate, groupby, islice, pairwise
from pathlib import Path
from threading import Lock
from typing import Any
from unicodedata import normalize

import regex

from ragindex._util.distribution import install_line, require_module
from ragindex._util.text import first_names, many
from ragindex.corpus.readers.archives import FAULTS, describe_fault
from ragindex.corpus.readers.content import ContentBuilder, FileContent, clean_text, clean_title
from ragindex.errors import DataError

PASSWORD_VARIABLE = "RAGINDEX_PDF_PASSWORD"  # noqa: S105  # the name of a variable
_SIGNS = dict(zip("\x1b\x1c\x1d\x1e\x1f", ("ff", "fi", "fl", "ffi", "ffl"), strict=True))
_LIGATURE = regex.compile(r"[\ufb00-\ufdff\ufe70-\ufefc]|(?<=\p{L})[\x1b-\x1f]|[\x1b-\x1f](?=\p{L})")
_ALEF_LAM = regex.compile("[\u0622\u0623\u0625\u0627\u0671]\u0644")
OCR_PACKAGES = ("rapidocr", "onnxruntime")
_PROPERTIES = ("Title", "Author", "Subject", "Keywords")
_DEFAULTS, _MOST_PROPERTY = ("anonymous", "unspecified"), 500  # of ReportLab, and characters
_FAULTS = (RuntimeError, *FAULTS)  # the first is the kind of PDFium's error
_PDFIUM = Lock()  # PDFium must not be called by two threads at once
_BREAKING_HYPHEN = "\ufffe"  # what PDFium writes for a hyphen and the line's end after it
_NEEDS_PASSWORD, _FULL_XFA, _IMAGE = 4, 2, 3  # PDFium's numbers of an error, a kind of form and a kind of object
_LINK, _POPUP, _WIDGET = 2, 16, 20  # of kinds of annotations
_CHECKS, _CHOICES, _TEXT_FIELD, _PASSWORD_FIELD = (2, 3), (4, 5), 6, 1 << 13  # of kinds and flags of form fields
_FEW_WORDS, _MOST_OBJECTS = 20, 10_000  # of a stamp on a scanned page, and of a page that are looked at
_MOST_HEADINGS, _MOST_LINES = 20_000, 6  # of an outline, and of a heading
_OCR_DPI, _MOST_PIXELS = 200, 3000
_ENTRY = regex.compile(  # of a table of contents or an index: dots, and the pages that they lead to
    r"""(?<![ \t\xa0.…])(?=[ \t\xa0.]*+…|(?:[ \t\xa0]*+\.){4})[ \t\xa0.…]++
        (?<first>\d{1,4}|[ivxlc]{1,7})(?:[,–-]\s?(?:\d{1,4}|[ivxlc]{1,7}))*+\Z""",
    regex.VERBOSE,
)
_FEWEST_ENTRIES, _IN_ORDER = 4, 0.7  # of a page of contents, and the share of its neighbours that are in order


@dataclass(frozen=True, slots=True)
class _Page:
    """Text and form fields of a page, whether it is a picture and OCR found text in it, and what is damaged."""

    text: str
    fields: str = ""
    picture: bool = False
    recognised: bool = False
    fault: str = ""


def read_pdf(raw: bytes, path: Path, encoding: str | None, ocr: bool = False) -> FileContent:
    """Read the text, form fields and annotations of each page, under the headings of the file's outline.

    With `ocr` the text of scanned pages is recognised. Raises DataError if the file is damaged or encrypted, or has
    scanned pages alone, and MissingExtraError.
    """
    import pypdfium2 as pdfium

    try:
        with _PDFIUM, closing(pdfium.PdfDocument(raw, os.environ.get(PASSWORD_VARIABLE) or None)) as document:
            document.init_forms()
            properties = {
                name.lower(): " ".join(_clean_newlines(document.get_metadata_value(name)).split())[:_MOST_PROPERTY]
                for name in _PROPERTIES
            }
            outline, notes = _read_outline(document), _list_rest(document)
            pages = [_read_page(document, number, ocr) for number in range(len(document))]
    except _FAULTS as error:
        raise DataError("a PDF file", _explain_pdf(raw, error), path=path) from error
    notes += _describe_pages(pages, ocr)
    if notes and not any(page.text or page.fields for page in pages):
        raise DataError("a PDF file with text", f"none: {'; '.join(notes)}", path=path)
    builder = ContentBuilder()
    for number, text in enumerate(leave_out_contents([page.text for page in pages])):
        builder.start_page(number + 1)
        start = builder.add_paragraph(text)
        for place, level, heading in _place_headings(text.strip(), outline.get(number, ()), first=number == 0):
            builder.place_heading(start + place, heading, level)
        builder.add_paragraph(pages[number].fields)
    own_properties = {name: value for name, value in properties.items() if value and value not in _DEFAULTS}
    title = clean_title(own_properties.pop("title", ""))
    return builder.build(title, {"pages": len(pages), **own_properties}, notes)


def _read_outline(document: Any) -> Mapping[int, Sequence[tuple[int, str]]]:
    """Return level and title of the entries of the outline (bookmarks) by the page, from 0, that they lead to."""
    outline, waiting = defaultdict[int, list[tuple[int, str]]](list), list[tuple[int, str]]()
    for entry in islice(document.get_toc(), _MOST_HEADINGS):
        waiting.append((entry.level + 1, " ".join(_clean_newlines(entry.get_title()).split())))
        target = entry.get_dest()
        page = None if target is None else target.get_index()
        if page is not None:  # one that leads nowhere is that of the entries below it
            outline[page] += [(level, title) for level, title in waiting if title]
            waiting.clear()
    return outline


def _list_rest(document: Any) -> list[str]:
    """Return notes on what a file holds beside its pages."""
    names = [document.get_attachment(number).get_name() for number in range(document.count_attachments())]
    notes = [f"{many(len(names), 'file')} inside of it {_are(names)} not read: {first_names(names)}"] if names else []
    if document.get_formtype() == _FULL_XFA:
        notes.append("it is a form in XFA, of which only what stands on its pages is read")
    return notes


def _read_page(document: Any, number: int, ocr: bool) -> _Page:
    try:
        with closing(document[number]) as page, closing(page.get_textpage()) as inner:
            text = _clean(_order_ligatures(inner, inner.get_text_range()).replace(_BREAKING_HYPHEN, "")).strip()
            fields = "\n".join(dict.fromkeys(filter(None, _read_annotations(page, document.formenv, text))))
            picture, recognised = is_picture(page, text), ""
            if picture and ocr:
                scale = min(_OCR_DPI / 72, _MOST_PIXELS / max(page.get_size()))
                recognised = "\n".join(_load_ocr()(page.render(scale=scale).to_numpy()).txts or ())
                others = [line for line in text.split("\n") if _normalize(line) not in _normalize(recognised)]
                text = "\n".join([*others, recognised])
            return _Page(text.strip(), _clean(fields), picture, bool(recognised))
    except _FAULTS as error:
        return _Page("", fault=describe_fault(error))


def _clean_newlines(text: str) -> str:
    r"""Return a text with \n as newline, as UTF-8 can hold it."""
    return clean_text(text).replace("\v", "\n").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _clean(text: str) -> str:
    """Return a text with newlines as newlines and ligatures as letters, as people write them in questions.

    TeX's T1 fonts have them at 27 to 31, and PDF files often do not say which letters these are.
    """
    text = _clean_newlines(text)
    return _LIGATURE.sub(lambda sign: _SIGNS.get(sign[0]) or normalize("NFKC", sign[0]), text)


def _order_ligatures(inner: Any, text: str) -> str:
    """Return the text of a page with lam before alef where both are one sign, which PDFium reads from left to right."""
    if not _ALEF_LAM.search(text):
        return text
    import pypdfium2.raw as raw

    letters, previous = list(text), None
    for number in range(inner.count_chars()):
        x, y = c_double(), c_double()
        raw.FPDFText_GetCharOrigin(inner, number, x, y)
        place = raw.FPDFText_GetTextIndexFromCharIndex(inner, number)
        if previous == (x.value, y.value, place - 1) and _ALEF_LAM.fullmatch(text[place - 1 : place + 1]):
            letters[place - 1 : place + 1] = letters[place], letters[place - 1]
        previous = (x.value, y.value, place)
    return "".join(letters)


def _read_annotations(page: Any, forms: Any, text: str) -> Iterator[str]:
    """Yield what is filled into the form of a page, with the label that the field has for readers, and its notes."""
    import pypdfium2.raw as raw

    stands = " ".join(text.split())
    for number in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        if not annotation:
            continue
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        if kind == _WIDGET and forms:
            yield _read_field(raw, forms, annotation)
        elif kind not in (_WIDGET, _LINK, _POPUP):
            note = _get_string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents").strip()
            if " ".join(note.split()) not in stands:  # that of a mark may be the marked text
                yield note
        raw.FPDFPage_CloseAnnot(annotation)


def _read_field(raw: Any, forms: Any, annotation: Any) -> str:
    kind = raw.FPDFAnnot_GetFormFieldType(forms, annotation)
    label = _get_string(raw.FPDFAnnot_GetFormFieldAlternateName, forms, annotation).strip()
    value = ""
    if kind in _CHECKS and label and raw.FPDFAnnot_IsChecked(forms, annotation):
        value = _get_string(raw.FPDFAnnot_GetFormFieldExportValue, forms, annotation)
    elif kind in _CHOICES:
        options = range(max(0, raw.FPDFAnnot_GetOptionCount(forms, annotation)))
        chosen = [option for option in options if raw.FPDFAnnot_IsOptionSelected(forms, annotation, option)]
        value = ", ".join(_get_string(raw.FPDFAnnot_GetOptionLabel, forms, annotation, option) for option in chosen)
    hidden = raw.FPDFAnnot_GetFormFieldFlags(forms, annotation) & _PASSWORD_FIELD
    if kind in (*_CHOICES, _TEXT_FIELD) and not value and not hidden:
        value = _get_string(raw.FPDFAnnot_GetFormFieldValue, forms, annotation)
    return f"{label}: {value.strip()}" if label and value.strip() else value.strip()


def _get_string(function: Callable[..., int], *arguments: Any) -> str:
    """Return the string that a function of PDFium writes."""
    buffer = (c_ushort * (function(*arguments, None, 0) // 2))()
    function(*arguments, buffer, 2 * len(buffer))
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\0")


def is_picture(page: Any, text: str) -> bool:
    """Return whether a page with no or few words shows pictures, and with few words on at least half of it."""
    if len(text.split()) >= _FEW_WORDS:
        return False
    objects = islice(page.get_objects(max_depth=5), _MOST_OBJECTS)
    images = [item for item in objects if item.type == _IMAGE]
    width, height = page.get_size()
    bounds = [image.get_bounds() for image in images if text and not image.level]
    covered = sum((right - left) * (top - bottom) for left, bottom, right, top in bounds)
    return bool(images) and (not text or covered >= width * height / 2)


@cache
def _load_ocr() -> Any:
    rapidocr = require_module("rapidocr", "rapidocr", "OCR")
    return rapidocr.RapidOCR(params={"Global.log_level": "critical"})


def _describe_pages(pages: Sequence[_Page], ocr: bool) -> list[str]:
    """Return notes on the pages that are not, or not simply, read."""
    notes, numbered = list[str](), list(enumerate(pages, start=1))
    if recognised := [number for number, page in numbered if page.recognised]:
        notes.append(f"{name_pages(recognised)} {'was' if len(recognised) == 1 else 'were'} read by OCR")
    if pictures := [number for number, page in numbered if page.picture and not page.recognised]:
        missing = [name for name in OCR_PACKAGES if not ocr and find_spec(name) is None]
        command = f"{install_line(*missing)}, then --ocr" if missing else "--ocr"
        rest = " in which OCR found no text" if ocr else f", the text of which is not read; to read it: {command}"
        what = "a picture" if len(pictures) == 1 else "pictures"
        notes.append(f"{name_pages(pictures)} {_are(pictures)} {what}{rest}")
    if faults := {number: page.fault for number, page in numbered if page.fault}:
        reason = next(iter(faults.values()))
        notes.append(f"{name_pages([*faults])} {_are(faults)} damaged and left out ({reason})")
    return notes


def _are(items: Collection[object]) -> str:
    return "is" if len(items) == 1 else "are"


def name_pages(numbers: Sequence[int]) -> str:
    """Name pages in their order: `page 3`, `pages 2 to 10, 12`."""
    runs = groupby(enumerate(numbers), lambda place_and_number: place_and_number[1] - place_and_number[0])
    ranges = ([number for _, number in run] for _, run in runs)
    names = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in ranges]
    return f"{'page' if len(numbers) == 1 else 'pages'} {first_names(names)}"


def _explain_pdf(raw: bytes, error: Exception) -> str:
    """Return what is wrong with a PDF file in plain words, where the library's words are of its inner parts."""
    password = f"; set the environment variable {PASSWORD_VARIABLE} to its password"
    if os.environ.get(PASSWORD_VARIABLE):
        password = f" that the password in {PASSWORD_VARIABLE} does not open"
    faults = {
        "an empty one": not raw,
        "another kind of file: it does not begin with %PDF-": not raw.lstrip().startswith(b"%PDF-"),
        f"an encrypted one{password}": getattr(error, "err_code", None) == _NEEDS_PASSWORD,
        "an encrypted one; save it without a password": b"/Encrypt" in raw,
        f"one whose end is missing; copy it again ({describe_fault(error)})": b"%%EOF" not in raw[-2048:],
    }
    return next((fault for fault, applies in faults.items() if applies), f"a damaged one ({describe_fault(error)})")


def _place_headings(text: str, headings: Sequence[tuple[int, str]], first: bool) -> Iterator[tuple[int, int, str]]:
    """Yield place, level and text of the headings that lead to a page with this text, in its order.

    A heading is one to six whole lines, apart from white space, signs and numbers, in which outlines and pages
    differ. The topmost that is no line begins with the page, unless this is the first one: its heading is "Cover" or
    the like. Others that are no lines are left out, as nobody knows where they begin.
    """
    lines = text.split("\n") if headings else []
    letters = ["".join(filter(str.isalnum, line.casefold())) for line in lines]
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    there = defaultdict[str, list[int]](list)
    for count in range(1, _MOST_LINES + 1):
        for number in range(len(lines) - count + 1):
            there[_strip_number("".join(letters[number : number + count]))].append(number)
    after, top = 0, 0
    for level, heading in headings:
        key = _strip_number("".join(filter(str.isalnum, heading.casefold())))
        number = next((line for line in there.get(key, ()) if line >= after and letters[line]), -1)
        if number >= 0:
            yield starts[number] + len(lines[number]) - len(lines[number].lstrip()), level, heading
            after = number + 1
        elif not after and level > top and not first:
            yield 0, level, heading
            top = level


def _strip_number(letters: str) -> str:
    return letters.strip("0123456789") or letters


def leave_out_contents(pages: Sequence[str]) -> list[str]:
    """Return the texts of pages without the entries of tables of contents and indexes, which name everything.

    An entry is a line with dots that lead to a page. It is left out if most lines of its page are entries, if these
    name pages of the file in their order or stand in the order of the alphabet, as a list of prices does not, and if
    what it names stands in the text of other pages too.
    """
    entries = [_find_entries(text, len(pages)) for text in pages]
    rest = "\n".join(_normalize(text) for text, names in zip(pages, entries, strict=True) if not names)
    lines = (enumerate(text.split("\n")) for text in pages)
    return [
        "\n".join(line for number, line in numbered if number not in names or names[number] not in rest)
        for numbered, names in zip(lines, entries, strict=True)
    ]


def _find_entries(text: str, pages: int) -> dict[int, str]:
    """Return the names of the entries of a page by the number of their line, if it is a page of contents."""
    lines = text.split("\n")
    entries = {number: entry for number, line in enumerate(lines) if (entry := _ENTRY.search(line.rstrip()))}
    names = {number: _normalize(entry.string[: entry.start()]) for number, entry in entries.items()}
    numbers = [int(entry["first"]) for entry in entries.values() if entry["first"].isdecimal()]
    mostly = len(entries) >= _FEWEST_ENTRIES and 2 * len(entries) > sum(bool(line.strip()) for line in lines)
    in_order = _are_in_order(numbers) or _are_in_order([*names.values()])
    return names if mostly and in_order and max(numbers, default=0) <= pages else {}


def _are_in_order(values: Sequence[Any]) -> bool:
    """Return whether most neighbours are in order."""
    ordered = [bool(value <= following) for value, following in pairwise(values)]
    return sum(ordered) >= _IN_ORDER * len(ordered)


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())
