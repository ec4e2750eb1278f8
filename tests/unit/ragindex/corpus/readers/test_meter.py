"""Which share of a file's words was read, against files of which the lost words are known."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import office_oxide
import pypdfium2
import pytest
from packed import pack

from ragindex.corpus.readers import READERS
from ragindex.corpus.readers.content import FileContent, ReadWords
from ragindex.corpus.readers.meter import describe_reading, measure
from ragindex.corpus.readers.process import ReadingLimits, dump_json, load_json, parse_file
from ragindex.corpus.reading_processes import load_answer
from ragindex.types import Section


def word(body: str) -> str:
    return f'<w:document xmlns:w="w" xmlns:mc="m"><w:body>{body}</w:body></w:document>'


def paragraph(*runs: str) -> str:
    return "<w:p>" + "".join(f"<w:r><w:t>{run}</w:t></w:r>" for run in runs) + "</w:p>"


BOX = f"<w:p><mc:Choice><w:txbxContent>{paragraph('Low water')}</w:txbxContent></mc:Choice>"
TWICE = f"{BOX}<mc:Fallback><w:txbxContent>{paragraph('Low water')}</w:txbxContent></mc:Fallback></w:p>"
NOTE = f'<w:footnotes xmlns:w="w"><w:footnote>{paragraph("See Ely")}</w:footnote></w:footnotes>'
MOVED = f"<w:moveFrom>{paragraph('gone')}</w:moveFrom><w:del><w:r><w:delText>struck</w:delText></w:r></w:del>"
TOC = f'<w:p><w:pPr><w:pStyle w:val="TOC1"/></w:pPr>{paragraph("Tides ... 4")}</w:p>'
CELLS = "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in ("12", "12", "12"))
STRINGS = "<sst><si/><si><t>port</t><rPh><t>x</t></rPh></si><si><r><t>se</t></r><r><t>cret</t></r></si></sst>"
SHEET = {
    "xl/sharedStrings.xml": STRINGS,
    "xl/worksheets/a.xml": '<worksheet><c t="s"><v>1</v></c><c><v>7.25</v></c></worksheet>',
    "xl/worksheets/b.xml": '<w><c r="A1" t="s"><v>2</v></c><c t="inlineStr"><is><t>plan</t></is></c></w>',
}
ODT = (
    '<o:d xmlns:o="o" xmlns:t="t" xmlns:d="d" xmlns:c="c"><t:tracked-changes><t:p>old</t:p></t:tracked-changes>'
    "<t:p>high<t:s/>tide<t:note><t:note-citation>1</t:note-citation><t:p>at noon</t:p></t:note>"
    "</t:p><d:text-box><t:p>ebb</t:p></d:text-box></o:d>"
)
EPUB = {"b/one.xhtml": "<nav>Contents</nav><p>tide</p>", "b/two.html": "<p>tables</p>", "b/p.opf": "<p>title</p>"}
PAGE = (
    "<title>x</title><script>if (a<b) tide()</script><style>p{}</style><!-- ebb --><nav>home <b>news</b></nav>"
    '<p title="a > b">high&nbsp;<b>ti</b>de</p><table><tr><td>Ely<td>7</table><div role=tabpanel hidden>macOS app</div>'
    '<section id="navigation"><p>by stars</p></section><div class="site nav">about</div>'
)
DRAFT = (
    "---\ntitle: Neap\n---\n# Tides\n\n[rise](https://example.org/a_(b)) ![moon](data:image/png;base64,AAAA)\n"
    "<b>fall</b>\n<!-- draft -->"
)
SLIDE = '<p xmlns:a="a"><a:p><a:t>High</a:t><a:fld type="slidenum"><a:t>1</a:t></a:fld></a:p></p>'

CASES = {  # file, its suffix, what was read; the share, the lost words, where they stood, words left out on purpose
    "all of a .docx": (
        pack({"word/document.xml": word(paragraph("Hi", "gh tide"))}),
        *(".docx", "High tide", 1, "", "", 0),
    ),
    "pictures in Markdown": (
        b"![a boat](data:image/png;base64,iVBORw0KGgo+/AA=) sails ![][1]\n\n[1]: <data:image/png;base64,iVBORw0=>\n",
        *(".md", "a boat sails", 1, "", "", 0),
    ),
    "text boxes": (
        pack({"word/document.xml": word(paragraph("High tide") + TWICE + TWICE)}),
        *(".docx", "High tide", 2 / 6, "low water", "2 text boxes", 0),
    ),
    "footnotes": (
        pack({"word/document.xml": word(paragraph("High tide")), "word/footnotes.xml": NOTE}),
        *(".docx", "High tide", 2 / 4, "see ely", "1 footnote", 0),
    ),
    "deleted text and contents": (
        pack({"word/document.xml": word(MOVED + TOC + paragraph("High tide"))}),
        *(".docx", "High tide", 1, "", "", 3),
    ),
    "equal cells": (pack({"word/document.xml": word(CELLS)}), *(".docx", "12", 1 / 3, "12", "3 paragraphs", 0)),
    "speaker notes": (
        pack(
            {
                "ppt/slides/slide1.xml": SLIDE,
                "ppt/notesSlides/notesSlide1.xml": '<p xmlns:a="a"><a:p><a:t>wait here</a:t></a:p></p>',
            }
        ),
        *(".pptx", "High", 1 / 3, "wait here", "1 page of speaker notes", 1),
    ),
    "cells of sheets": (pack(SHEET), ".xlsx", "| port | 7.25 |", 1 / 3, "secret plan", "2 cells", 0),
    "notes of OpenDocument": (
        pack({"content.xml": ODT}),
        *(".odt", "high tide", 2 / 5, "at noon ebb", "1 footnote, 1 text box", 0),
    ),
    "a page of a book": (pack(EPUB), ".epub", "tide", 1 / 2, "tables", "1 paragraph", 1),
    "tables and tabs": (
        PAGE.encode(),
        *(".html", "high tide by stars", 4 / 8, "ely 7 macos app", "1 table, 1 hidden part", 3),
    ),
    "all of a page": (PAGE.encode(), ".html", "high tide Ely 7 macOS app by stars", 1, "", "", 3),
    "elements without content": (b"<title/><input hidden><p>ebb", ".html", "", 0, "ebb", "1 paragraph", 0),
    "cells of a table": (b"sep=;\nport;hour\nEly;7;low\n", ".csv", "port: Ely\nhour: 7", 4 / 5, "low", "", 0),
    "Markdown": (DRAFT.encode(), ".md", "# Tides\n\nrise moon", 3 / 4, "fall", "1 paragraph", 0),
    "rows": (b'{"a": "x\\u00e9", "b": [1, "low"]}\n', ".jsonl", "a: x\xe9\nb: 1", 4 / 5, "low", "", 0),
    "cells of a notebook": (
        json.dumps(
            {"cells": [{"cell_type": "code", "source": ["tide", " = 7"]}, {"source": "[a](http://b)"}]}
        ).encode(),
        *(".ipynb", "a", 1 / 3, "tide 7", "1 cell of code", 0),
    ),
    "scripts in Markdown": (b"<script>\nlet a;\n</script>\n\ntide\n<style>p {}</style>", ".md", "tide", 1, "", "", 0),
    "words broken by a mark": (b"| neap-tide | spring |", ".md", "neaptide spring", 1, "", "", 0),
    "ligatures and soft hyphens": ("\ufb01nd the e\u00adbb".encode(), ".md", "find the ebb", 1, "", "", 0),
    "a language without spaces": ("\u6f6e\u6c50\u8868".encode(), ".md", "\u6f6e\u8868", 2 / 3, "\u6c50", "", 0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_share_that_was_read_is_that_of_the_words(name: str) -> None:
    raw, suffix, text, share, lost, places, left_out = CASES[name]
    reading = measure(raw, suffix, FileContent("", text))
    assert reading is not None
    assert (round(reading.share, 3), sorted(reading.lost)) == (round(share, 3), sorted(lost.split()))
    assert (", ".join(reading.places), reading.left_out) == (places, left_out)


def test_a_page_that_is_a_picture_counts_like_the_others() -> None:
    document = pypdfium2.PdfDocument.new()
    for number in range(3):
        page = document.new_page(100, 100)
        if number:
            picture = pypdfium2.PdfImage.new(document)
            picture.set_bitmap(pypdfium2.PdfBitmap.new_native(1, 1, pypdfium2.raw.FPDFBitmap_BGR))
            page.insert_obj(picture)
            page.gen_content()
    file = io.BytesIO()
    document.save(file)
    sections = tuple(Section(start, (), page) for start, page in ((0, 1), (17, 2), (17, 3)))
    content = FileContent("", "four words a page", sections)
    reading = measure(file.getvalue(), ".pdf", content)
    assert reading == ReadWords(8, 0, (), ("pages 2 to 3 are pictures",))


@pytest.mark.parametrize(
    ("raw", "suffix"),
    [
        (b"PK\x03\x04 no archive", ".docx"),
        (pack({"word/document.xml": "<w:t>never closed"}), ".docx"),
        (pack({"word/document.xml": '<!DOCTYPE a [<!ENTITY b "c">]><w:t>&b;</w:t>'}), ".docx"),
        (pack({"xl/worksheets/a.xml": SHEET["xl/worksheets/a.xml"]}), ".xlsx"),  # without its strings
        (b"[1, 2]", ".ipynb"),
        (b"no PDF", ".pdf"),
        (b"a,b", ".unknown"),
        (b"", ".md"),
    ],
)
def test_a_file_that_cannot_be_counted_is_not_measured(raw: bytes, suffix: str) -> None:
    assert measure(raw, suffix, FileContent("", "text")) is None


def test_the_count_ends_with_its_time() -> None:
    assert measure(b"tide\n" * 1000, ".md", FileContent("", ""), seconds=-1.0) is None


def test_what_is_lost_is_a_note_that_passes_between_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"<p>high tide at noon</p><div hidden>ebb</div>"
    monkeypatch.setitem(READERS, ".html", lambda raw, path, encoding: FileContent("", "high tide at noon"))
    answer = load_json(dump_json(parse_file(raw, "a.html", ".html", None, ReadingLimits())))
    content = load_answer(answer, Path("a.html"), ReadingLimits())
    assert content.reading == ReadWords(5, 4, ("ebb",), ("1 hidden part",))
    assert content.notes == ("80 % of its words were read; lost: ebb (1 hidden part)",)
    assert parse_file(raw, "a.html", ".html", None, ReadingLimits(), measured=False)["notes"] == ()
    assert describe_reading(ReadWords(4, 0, (), ("page 1 is a picture",))) == (
        "0 % of its words were read; not read (page 1 is a picture)"
    )


def test_texts_of_old_workbook_are_compared_with_those_of_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment is lost; names of sheets and numbers, which are written otherwise, are not compared."""
    workbook = SimpleNamespace(
        to_ir=lambda: {"sections": [{"title": "Tides"}, {"title": "Empty"}]},
        plain_text=lambda: "Tides\nPort\tHigh water\nEly\t1,000.50\nA1 (Ann): Why?\nlow by spring tide\nEmpty\n",
    )
    monkeypatch.setattr(office_oxide, "Document", SimpleNamespace(from_bytes=lambda raw, kind: workbook))
    reading = measure(b"", ".xls", FileContent("", "Tides\n\n| Port | High water |\n| --- | --- |\n| Ely | 1000.5 |"))
    assert reading == ReadWords(8, 4, ("low", "by", "spring", "tide"), ("1 text",))
