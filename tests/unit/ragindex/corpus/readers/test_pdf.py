"""The reader of PDF files. Their tables of contents are in test_pdf_contents.py."""

import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pypdf
import pytest

from ragindex._util.distribution import install_line
from ragindex.corpus import read
from ragindex.corpus.readers.content import FileContent
from ragindex.corpus.readers.pdf import _clean, _load_ocr, read_pdf
from ragindex.errors import DataError, MissingExtraError
from ragindex.types import Section

PATH = Path("guide.pdf")
PICTURE = "/Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8"
SCAN = ") Tj ET q 612 0 0 792 0 0 cm /Im1 Do Q BT ("
CHECK = "/Subtype /Widget /FT /Btn /T (n) /TU (Paid) /AP << /N << /Yes 4 0 R >> >>"
LOGO = ") Tj ET q 60 0 0 60 0 0 cm /Im1 Do Q BT ("


def pdf(
    *pages: str,
    title: str | None = None,
    objects: Sequence[str] = (),
    catalog: str = "",
    page: str = "",
    font: str = "",
) -> bytes:
    """A PDF file with one line of text a page, and more objects, which have the numbers from 5 on."""
    first = 5 + len(objects)
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(pages)))
    bodies = [
        f"<< /Type /Catalog /Pages 2 0 R {catalog} >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {font} >>",
        f"<< {PICTURE} /Length 1 >>\nstream\n0\nendstream",
        *objects,
    ]
    for number, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        bodies.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {first + 1 + 2 * number} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> /XObject << /Im1 4 0 R >> >> {page} >>"
        )
        bodies.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    info = ""
    if title is not None:
        bodies.append(f"<< /Title ({title}) >>")
        info = f" /Info {len(bodies)} 0 R"
    written, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    end = f"trailer << /Size {len(bodies) + 1} /Root 1 0 R{info} >>\nstartxref\n{len(written)}\n%%EOF"
    return f"{written}xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}{end}".encode()


def content_of(raw: bytes, ocr: bool = False) -> FileContent:
    return read_pdf(raw, PATH, None, ocr)


def lines(*texts: str) -> str:
    return ") Tj 0 -14 Td (".join(texts)


def test_pages_are_sections_and_properties_are_title_and_metadata(tmp_path: Path) -> None:
    raw = pdf("First page", "Second page", title="A paper").replace(b"/Title", b"/Author (Ann) /Subject () /Title")
    (tmp_path / "guide.pdf").write_bytes(raw)
    (document,) = read(tmp_path).documents
    assert (document.title, document.text) == ("A paper", "First page\n\nSecond page")
    assert document.sections == (Section(0, (), 1), Section(12, (), 2))
    assert {"source": "guide.pdf", "pages": 2, "author": "Ann"}.items() <= document.metadata.items()
    assert "subject" not in document.metadata


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("full.dvi", ""),
        ("Microsoft Word - final report.docx", ""),
        ("Microsoft Word - Document1", ""),
        ("PowerPoint Presentation", ""),
        ("Untitled-1", ""),
        ("index.html", ""),
        (" ", ""),
        ("Changes in robots.txt", "Changes in robots.txt"),
        ("The Guide to Node.js", "The Guide to Node.js"),
        ("Microsoft Word in Schools", "Microsoft Word in Schools"),
    ],
)
def test_the_title_is_not_what_a_program_writes(title: str, expected: str) -> None:
    assert content_of(pdf("A page", title=title)).title == expected


def test_ligatures_are_letters() -> None:
    raw = pdf("con\\034dence, e\\036cient, sti\\033, 7 \\034 8")
    assert content_of(raw).text == "confidence, efficient, stiff, 7 \x1c 8"
    assert _clean("ﬁle ﬂow oﬀ eﬃcient raﬄe ﺳﻼﻡ") == "file flow off efficient raffle سلام"


@pytest.mark.parametrize(
    ("signs", "expected"),
    [
        ({"a": "م", "b": "لا", "c": "س"}, "سلام"),  # one sign for lam and alef, as most programs write it
        ({"a": "م", "b": "ﻻ", "c": "س"}, "سلام"),
        ({"a": "ن", "b": "ل", "c": "ا"}, "الن"),  # two signs: the article
    ],
)
def test_arabic_stands_in_the_order_of_reading(signs: dict[str, str], expected: str) -> None:
    pairs = "".join(f"<{ord(sign):02x}> <{text.encode('utf-16-be').hex()}>\n" for sign, text in signs.items())
    mapping = f"begincmap 1 begincodespacerange <00> <FF> endcodespacerange 3 beginbfchar\n{pairs}endbfchar endcmap"
    stream = f"<< /Length {len(mapping)} >>\nstream\n{mapping}\nendstream"
    assert content_of(pdf("abc", objects=[stream], font="/ToUnicode 5 0 R")).text == expected


def test_gaps_between_words_are_spaces_and_broken_words_are_whole() -> None:
    """As TeX writes lines: no spaces, but a gap, and a hyphen where a line breaks a word."""
    drawn = "A) Tj [( stanza) -300 (con) 10 (tains) -260 (docu-)] TJ 0 -14 Td (mentation) Tj 0 -14 Td (of Debian"
    assert content_of(pdf(drawn)).text == "A stanza contains documentation\nof Debian"


def test_a_table_of_contents_is_left_out_and_pages_keep_their_numbers() -> None:
    names = ["Tides", "Currents", "Lamps", "Lenses"]
    entries = [f"{name} . . . . . {page}" for page, name in enumerate(names, start=2)]
    content = content_of(pdf(lines("Contents", *entries), *names))
    assert content.text == "Contents\n\nTides\n\nCurrents\n\nLamps\n\nLenses"
    assert [(section.page, content.text[section.start :].split("\n")[0]) for section in content.sections] == [
        (1, "Contents"),
        *enumerate(names, start=2),
    ]


def test_files_are_read_by_many_threads_as_by_one() -> None:
    files = [pdf(f"page {number}", "two") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        texts = [document.text for document in pool.map(content_of, files)]
    assert texts == [f"page {number}\n\ntwo" for number in range(40)]


# ---------------------------------------------------------------- outlines


def outlined(*entries: tuple[int, str], pages: Sequence[str]) -> bytes:
    """A PDF file with an outline of two levels: the first entry, and the others below it, by page from 1."""
    first_page = 5 + 1 + len(entries)
    objects = ["<< /Type /Outlines /First 6 0 R /Last 6 0 R >>"]
    for number, (page, title) in enumerate(entries):
        links = f"/Parent 6 0 R /Next {7 + number} 0 R" if 0 < number < len(entries) - 1 else "/Parent 6 0 R"
        below = f"/Parent 5 0 R /First 7 0 R /Last {5 + len(entries)} 0 R" if len(entries) > 1 else "/Parent 5 0 R"
        target = f"/Dest [{first_page + 2 * (page - 1)} 0 R /Fit]" if page else ""
        objects.append(f"<< /Title ({title}) {links if number else below} {target} >>")
    return pdf(*pages, objects=objects, catalog="/Outlines 5 0 R")


BOOK = ("A cover", lines("1 Tides", "They come.", "1.1 Spring", "tides", "High."), lines("Neap", "Low."), "More.")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (
            [(2, "Tides"), (2, "1.1 Spring tides"), (3, "NEAP")],
            [
                ("A cover", (), 1),
                ("1 Tides", ("Tides",), 2),
                ("1.1 Spring\ntides", ("Tides", "1.1 Spring tides"), 2),
                ("Neap", ("Tides", "NEAP"), 3),
                ("More.", ("Tides", "NEAP"), 4),
            ],
        ),
        ([(1, "Cover")], [("A cover", (), 1), ("1 Tides", (), 2), ("Neap", (), 3), ("More.", (), 4)]),
        (  # no line of its page: from the page's start; one that leads nowhere is above those below it
            [(0, "Book"), (4, "The rest"), (4, "Unknown")],
            [("A cover", (), 1), ("1 Tides", (), 2), ("Neap", (), 3), ("More.", ("Book", "The rest"), 4)],
        ),
    ],
)
def test_the_outline_gives_headings_where_their_lines_stand(
    entries: list[tuple[int, str]], expected: list[tuple[str, tuple[str, ...], int]]
) -> None:
    content = content_of(outlined(*entries, pages=BOOK))
    assert [(section.headings, section.page) for section in content.sections] == [entry[1:] for entry in expected]
    texts = [text for text, *_ in expected]
    assert all(content.text.startswith(text, entry.start) for text, entry in zip(texts, content.sections, strict=True))


# ---------------------------------------------------------------- forms and notes


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("/Subtype /Text /Contents (Replace pump 7)", "Body\n\nReplace pump 7"),
        ("/Subtype /FreeText /Contents (Approved)", "Body\n\nApproved"),
        ("/Subtype /Highlight /Contents (Body)", "Body"),  # the marked text
        ("/Subtype /Link /Contents (a link)", "Body"),
        ("/Subtype /Popup /Contents (Replace pump 7)", "Body"),
        ("/Subtype /Widget /FT /Tx /T (n) /V (Philomena Quist)", "Body\n\nPhilomena Quist"),
        ("/Subtype /Widget /FT /Tx /T (n) /TU (Full name) /V (Philomena)", "Body\n\nFull name: Philomena"),
        ("/Subtype /Widget /FT /Tx /T (n) /TU (Full name)", "Body"),
        ("/Subtype /Widget /FT /Tx /T (n) /Ff 8192 /V (secret)", "Body"),  # a password
        ("/Subtype /Widget /FT /Ch /T (n) /Ff 131072 /Opt [[(a) (Red)] [(b) (Blue)]] /V (b)", "Body\n\nBlue"),
        (
            "/Subtype /Widget /FT /Btn /T (n) /TU (Paid) /V /Yes /AS /Yes /AP << /N << /Yes 4 0 R >> >>",
            "Body\n\nPaid: Yes",
        ),
        ("/Subtype /Widget /FT /Btn /T (n) /TU (Paid) /V /Off /AS /Off /AP << /N << /Yes 4 0 R >> >>", "Body"),
    ],
)
def test_what_is_filled_into_forms_and_notes_are_read(annotation: str, expected: str) -> None:
    objects = [f"<< /Type /Annot /Rect [0 0 99 20] {annotation} >>"]
    raw = pdf("Body", objects=objects, catalog="/AcroForm << /Fields [5 0 R] >>", page="/Annots [5 0 R]")
    assert content_of(raw).text == expected


# ---------------------------------------------------------------- what is not read


ADVICE = f"to read it: {install_line('rapidocr')}, then --ocr"


@pytest.mark.parametrize(
    ("pages", "note"),
    [
        (["Cover", *[SCAN] * 9], f"pages 2 to 10 are pictures, the text of which is not read; {ADVICE}"),
        (["Cover", SCAN, "Text", SCAN, SCAN], f"pages 2, 4 to 5 are pictures, the text of which is not read; {ADVICE}"),
        ([f"Case 7{SCAN}"], f"page 1 is a picture, the text of which is not read; {ADVICE}"),
        ([f"Case 7{LOGO}"], None),
        ([f"{'many words ' * 10}{SCAN}"], None),
        (["Cover", ""], None),  # a blank page
    ],
)
def test_pages_that_are_pictures_are_named(pages: list[str], note: str | None) -> None:
    content = content_of(pdf(*pages))
    assert content.notes == (() if note is None else (note,))
    assert content.metadata["pages"] == len(pages)


def test_a_file_of_pictures_alone_is_one_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(SCAN, SCAN, title="Scanned"))
    expected = "expected a PDF file with text; found none: pages 1 to 2 are pictures, the text of which is not read; "
    with pytest.raises(DataError, match=re.escape(expected + ADVICE)):
        read(tmp_path / "scan.pdf")
    (tmp_path / "blank.pdf").write_bytes(pdf(""))
    with pytest.raises(DataError, match=r"blank\.pdf: expected a file with text in it; found none"):
        read(tmp_path / "blank.pdf")


def test_ocr_reads_pictures_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([("Lease of 1998", "CASE 7"), None])

    class Engine:
        def __init__(self, params: dict[str, str]) -> None:
            assert params == {"Global.log_level": "critical"}

        def __call__(self, image: object) -> SimpleNamespace:
            return SimpleNamespace(txts=next(answers))

    _load_ocr.cache_clear()
    monkeypatch.setitem(sys.modules, "rapidocr", SimpleNamespace(RapidOCR=Engine))
    content = content_of(pdf("Cover", f"{lines('Case 7', 'Page 2')}{SCAN}", SCAN), ocr=True)
    assert content.text == "Cover\n\nPage 2\nLease of 1998\nCASE 7"
    assert content.notes == ("page 2 was read by OCR", "page 3 is a picture in which OCR found no text")
    _load_ocr.cache_clear()
    (tmp_path / "a.pdf").write_bytes(pdf("Cover"))
    monkeypatch.delitem(sys.modules, "rapidocr")
    with pytest.raises(MissingExtraError, match=r"^--ocr needs the package rapidocr, .* Run: pip install"):
        read(tmp_path, ocr=True)


def test_a_damaged_page_costs_itself_alone() -> None:
    raw = pdf("One", "Two", "Three").replace(b"7 0 obj\n<< /Type /Page ", b"7 0 obj\n<< /Type /Font ")
    content = content_of(raw)
    assert content.text == "One\n\nThree"
    assert [(section.start, section.page) for section in content.sections] == [(0, 1), (5, 2), (5, 3)]
    (note,) = content.notes
    assert note.startswith("page 2 is damaged and left out (Failed to ")  # the rest is in the words of pdfium's version


def test_files_inside_of_a_file_are_named() -> None:
    objects = ["<< /Names [(a.txt) 6 0 R] >>", "<< /Type /Filespec /F (a.txt) /EF << /F 4 0 R >> >>"]
    raw = pdf("Body", objects=objects, catalog="/Names << /EmbeddedFiles 5 0 R >>")
    assert content_of(raw).notes == ("1 file inside of it is not read: a.txt",)


def encrypted_pdf(password: str = "secret") -> bytes:
    writer, written = pypdf.PdfWriter(clone_from=BytesIO(pdf("Hidden"))), BytesIO()
    writer.encrypt(password)
    writer.write(written)
    return written.getvalue()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "an empty one."),
        (b"not a PDF", "another kind of file: it does not begin with %PDF-."),
        (b"%PDF-1.4\n%%EOF", "a damaged one ("),
        (pdf("x")[:200], "one whose end is missing; copy it again ("),
        (encrypted_pdf(), "an encrypted one; set the environment variable RAGINDEX_PDF_PASSWORD to its password."),
    ],
    ids=["empty", "text", "damaged", "cut off", "encrypted"],
)
def test_a_broken_file_is_one_error(content: bytes, expected: str) -> None:
    with pytest.raises(DataError, match=r"guide\.pdf: expected a PDF file; found " + re.escape(expected)):
        content_of(content)


@pytest.mark.parametrize("password", ["secret", "pässwörd"])
def test_a_password_opens_a_file_and_stands_nowhere(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_PDF_PASSWORD", password)
    content = content_of(encrypted_pdf(password))
    assert content.text == "Hidden"
    assert password not in repr(content)
    monkeypatch.setenv("RAGINDEX_PDF_PASSWORD", "wrong")
    with pytest.raises(DataError, match="the password in RAGINDEX_PDF_PASSWORD does not open") as raised:
        content_of(encrypted_pdf(password))
    assert "wrong" not in str(raised.value)
