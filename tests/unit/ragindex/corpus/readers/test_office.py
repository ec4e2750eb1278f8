"""Readers of Word, PowerPoint and spreadsheet files: what stands in a file is in the text, at its place."""

import re
from io import BytesIO
from pathlib import Path
from typing import Any

import docx
import pptx
import pytest
from packed import OFFICE, PACKAGE, pack, pack_binary_workbook, pack_workbook, write_relations
from written_documents import write_odf

from ragindex.corpus.readers import READERS, FileContent
from ragindex.errors import DataError
from ragindex.types import Section

KIND = "application/vnd.openxmlformats-officedocument.wordprocessingml"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = {OFFICE: "http://purl.oclc.org/ooxml/officeDocument", WORD: "http://purl.oclc.org/ooxml/wordprocessingml/main"}
_ELEMENTS = {"header1": "hdr"}
OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")


def read_file(name: str, content: bytes) -> FileContent:
    """The content of a file, after a check that sections begin with their heading, and blocks are tables."""
    read = READERS[Path(name).suffix](content, Path(name), None)
    for section in read.sections:
        assert not section.headings or read.text[section.start :].startswith(section.headings[-1])
    assert all(read.text[start:end].startswith("| ") for start, end in read.blocks)
    return read


def saved(document: Any) -> bytes:
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def archive(main: str, content: str, parts: dict[str, str]) -> bytes:
    """A Word file: its main part, which relates to others, whose content is XML by name, such as word/styles.xml."""
    kinds = {name: Path(name).stem.rstrip("123456789") for name in parts}
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{KIND}.{kind}+xml"/>'
        for name, kind in {main: "document.main", **kinds}.items()
    )
    default = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    inside = {name.removeprefix("word/"): kind for name, kind in kinds.items() if name.startswith("word/")}
    return pack(
        {
            "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">{default}{overrides}</Types>',
            "_rels/.rels": write_relations({main: "officeDocument"}),
            f"word/_rels/{Path(main).name}.rels": write_relations(inside),
            main: content,
            **parts,
        }
    )


def word_xml(element: str, content: str) -> str:
    return (
        f'<w:{element} xmlns:w="{WORD}" xmlns:r="{OFFICE}/relationships" xmlns:v="urn:schemas-microsoft-com:vml">'
        f"{content}</w:{element}>"
    )


def word_file(body: str, **parts: str) -> bytes:
    """A Word file of a body; `parts` are the content of elements such as `styles`."""
    others = {f"word/{name}.xml": word_xml(_ELEMENTS.get(name, name), xml) for name, xml in parts.items()}
    return archive("word/document.xml", word_xml("document", f"<w:body>{body}</w:body>"), others)


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def paragraph(content: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}{content}</w:p>"


def table(*rows: list[str]) -> str:
    """A table of cells, which are XML or a text."""
    cells = (
        "".join(f"<w:tc>{cell if cell.startswith('<') else paragraph(run(cell))}</w:tc>" for cell in row)
        for row in rows
    )
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def merged(mark: str, text: str = "") -> str:
    return f"<w:tcPr><w:{mark}/></w:tcPr>{paragraph(run(text))}"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (f"<w:sdt><w:sdtContent>{paragraph(run('Form'))}</w:sdtContent></w:sdt>", "Form"),
        (paragraph(f"{run('On ')}<w:sdt><w:sdtContent>{run('1 May')}</w:sdtContent></w:sdt>{run('.')}"), "On 1 May."),
        (paragraph(f"<w:ins>{run('new')}</w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del>"), "new"),
        (paragraph(f"<w:moveTo>{run('there')}</w:moveTo><w:moveFrom>{run('here')}</w:moveFrom>"), "there"),
        (paragraph(f"<w:smartTag>{run('Lindau')}</w:smartTag>"), "Lindau"),
        (paragraph(f'<w:fldSimple w:instr="DATE">{run("7 June")}</w:fldSimple>'), "7 June"),
        (
            paragraph(
                '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'
                f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{run("9")}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
            ),
            "9",
        ),
        (
            paragraph(
                "<w:r><w:pict><v:shape><v:textbox><w:txbxContent>"
                f"{paragraph(run('Call'))}{paragraph(run('112'))}"
                "</w:txbxContent></v:textbox></v:shape></w:pict></w:r>"
            ),
            "Call\n112",
        ),
        (
            paragraph(
                f"<w:r><w:ruby><w:rubyPr/><w:rt>{run('とう')}</w:rt><w:rubyBase>{run('東')}</w:rubyBase></w:ruby></w:r>"
                + run("へ")
            ),
            "東(とう)へ",
        ),
        (table(["Q1", "Q2", "Q3"], ["10", "10", ""]), "| Q1 | Q2 | Q3 |\n| --- | --- | --- |\n| 10 | 10 |  |"),
        (table(["a", "b"], ["only"]), "| a | b |\n| --- | --- |\n| only |  |"),
        (table(["a", table(["in", "ner"])]), "| a | in ner |\n| --- | --- |"),
        (
            table([merged('gridSpan w:val="2"', "wide"), "c"], ["1", "2", "3"]),
            "| wide |  | c |\n| --- | --- | --- |\n| 1 | 2 | 3 |",
        ),
        (
            table([merged('vMerge w:val="restart"', "tall"), "b"], [merged("vMerge"), "2"], ["3", "4"]),
            "| tall | b |\n| --- | --- |\n|  | 2 |\n| 3 | 4 |",
        ),
        (table([paragraph(run("Framed")) + paragraph(run("text"))]), "Framed\n\ntext"),
    ],
)
def test_all_text_of_a_word_file_is_read(body: str, text: str) -> None:
    assert read_file("a.docx", word_file(body + paragraph(run("End")))).text == f"{text}\n\nEnd"


def test_a_cell_that_claims_too_many_columns() -> None:
    read = read_file("a.docx", word_file(table([merged('gridSpan w:val="2147483647"', "wide"), "c"])))
    assert (read.text.startswith("| wide |  | "), len(read.text) < 2000) == (True, True)


def test_headings_notes_and_margins_of_a_word_file() -> None:
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{key}"><w:name w:val="{name}"/></w:style>'
        for key, name in (("Titel", "Title"), ("h1", "heading 1"), ("h2", "heading 2"))
    )
    body = (
        paragraph(run("Tide &amp; port"), "Titel")
        + paragraph(run("Ely"), "h1")
        + paragraph(run("Water") + '<w:r><w:footnoteReference w:id="2"/></w:r>' + run("rises."))
        + paragraph(run("Ebb"), "h2")
        + paragraph(f'<w:hyperlink r:id="x">{run("Map")}</w:hyperlink>' + '<w:r><w:commentReference w:id="0"/></w:r>')
        + paragraph(run("Last."))
        + '<w:sectPr><w:headerReference w:type="default" r:id="header1"/></w:sectPr>'
    )
    parts = {
        "styles": styles,
        "footnotes": f'<w:footnote w:id="2">{paragraph(run("Twice a day."))}</w:footnote>',
        "comments": f'<w:comment w:id="0" w:author="Ann">{paragraph(run("Which?"))}</w:comment>',
        "header1": paragraph(run("Case 77")),
    }
    read = read_file("a.docx", word_file(body, **parts))
    assert read.text.split("\n\n") == [
        *("Tide & port", "Ely", "Waterrises.", "Twice a day.", "Ebb", "Map", "Comment (Ann): Which?", "Last."),
        "Case 77",
    ]
    assert [section.headings for section in read.sections] == [
        ("Tide & port",),
        ("Tide & port", "Ely"),
        ("Tide & port", "Ely", "Ebb"),
    ]
    assert read.title == "Tide & port"


def test_lists_of_a_word_file() -> None:
    document = docx.Document()
    for text, style in (("Pack", "List Number"), ("Go", "List Number"), ("On foot", "List Bullet 2")):
        document.add_paragraph(text, style)
    assert read_file("a.docx", saved(document)).text == "1. Pack\n2. Go\n\n- On foot"


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ("Annual  report", "Annual report"),
        ("Q&amp;A", "Q&A"),
        ("Word Document", ""),
        ("PowerPoint-Präsentation", ""),
        ("Microsoft Word - letter.doc", ""),
        ("letter.docx", ""),
        ("", ""),
    ],
)
def test_the_title_is_that_of_the_properties_unless_a_program_wrote_it(given: str, title: str) -> None:
    core = f'<p:properties xmlns:p="p" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{given}</dc:title></p:properties>'
    body = word_xml("document", f"<w:body>{paragraph(run('Text'))}</w:body>")
    assert read_file("a.docx", archive("word/document.xml", body, {"docProps/core.xml": core})).title == title


def test_a_strict_word_file() -> None:
    content = word_xml("document", f"<w:body>{table(['a', 'a'])}</w:body>")
    for transitional, strict in STRICT.items():
        content = content.replace(transitional, strict)
    assert read_file("a.docx", archive("word/document.xml", content, {})).text == "| a | a |\n| --- | --- |"


def test_a_powerpoint_file() -> None:
    presentation = pptx.Presentation()
    for title, body, note in (("Plan", "First\nSecond", "Say hello."), ("", "Numbers", ""), ("", "", "")):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text_frame.text = title
        slide.placeholders[1].text_frame.text = body
        if note:
            slide.notes_slide.notes_text_frame.text = note
    shapes: Any = presentation.slides[1].shapes
    shapes.add_table(2, 2, 0, 0, 10, 10).table.cell(0, 0).text = "a"
    shapes.add_textbox(0, 10**7, 10, 10).text_frame.text = "Data\nbase"
    presentation.slides[1]._element.set("show", "0")
    read = read_file("a.pptx", saved(presentation))
    assert read.text.split("\n\n") == [
        *("Plan", "- First\n- Second", "Say hello."),
        *("| a |  |\n| --- | --- |", "Data\nbase", "- Numbers"),
    ]
    assert read.sections == (Section(0, ("Plan",), 1), Section(36, (), 2))
    assert [read.text[start:end] for start, end in read.blocks] == ["| a |  |\n| --- | --- |"]
    assert (read.title, read.metadata, read.notes) == ("Plan", {"pages": 3}, ("1 hidden slide is read: 2",))


def cell(place: str, value: str, kind: str = "n", style: int = 0) -> str:
    inside = f"<is><t>{value}</t></is>" if kind == "inlineStr" else f"<v>{value}</v>" if value else ""
    return f'<c r="{place}" t="{kind}" s="{style}">{inside}</c>'


DATES = '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="22" applyNumberFormat="1"/></cellXfs>'


def test_a_workbook() -> None:
    rows = {
        2: [cell("C2", "Port | pier", "inlineStr"), cell("D2", "Day", "inlineStr"), cell("F2", "High", "inlineStr")],
        4: [cell("C4", "Ely", "inlineStr"), cell("D4", "45000", style=1), cell("F4", "1.0"), cell("H4", "")],
        5: [cell("C5", "1", "b"), cell("D5", "45000.25", style=1), cell("F5", "0.30000000000000004")],
        1048576: [cell("XFD1048576", "")],
    }
    ports = "".join(f'<row r="{number}">{"".join(cells)}</row>' for number, cells in rows.items())
    sheets = {"Ports": ports, "Empty": "", "Old": f'<row r="1">{cell("A1", "7")}</row>'}
    written = {name: f"<sheetData>{rows}</sheetData>" for name, rows in sheets.items()}
    read = read_file("a.xlsx", pack_workbook(written, DATES, hidden="Old"))
    table = (
        "| Port \\| pier | Day |  | High |\n| --- | --- | --- | --- |\n"
        "| Ely | 2023-03-15 |  | 1 |\n| TRUE | 2023-03-15 06:00:00 |  | 0.3 |"
    )
    assert read.text == f"Ports\n\n{table}\n\nOld\n\n| 7 |\n| --- |"
    assert [(section.headings, section.page) for section in read.sections] == [(("Ports",), 1), (("Old",), 3)]
    assert [read.text[start:end] for start, end in read.blocks] == [table, "| 7 |\n| --- |"]
    assert (read.title, read.metadata, read.notes) == ("", {"pages": 3}, ("1 hidden sheet is read: Old",))


def test_what_a_sheet_shows_besides_the_values_of_cells() -> None:
    """Percents as a person sees them, and texts in boxes, comments, charts, headers and footers."""

    def relations(*targets: str) -> str:
        return write_relations({target: Path(target).stem.rstrip("1") for target in targets})

    formats = '<xf numFmtId="0"/><xf numFmtId="10"/><xf numFmtId="164"/><xf numFmtId="165"/>'
    codes = '<numFmt numFmtId="164" formatCode="0.0%"/><numFmt formatCode="0.0" numFmtId="165"/>'
    cells = [
        cell("B2", "Share", "inlineStr"),
        *(cell(f"{at}2", "0.6667", style=style) for style, at in enumerate("CDEF")),
    ]
    header = '&amp;L&amp;"Arial,Bold"&amp;12Harbour &amp;&amp; R&amp;&amp;D&amp;P'
    margin = f"<headerFooter><oddHeader>{header}</oddHeader></headerFooter>"
    sheet = f'<sheetData><row r="2">{"".join(cells)}</row></sheetData>{margin}'
    drawing = '<d xmlns:a="a"><a:p><a:r><a:t>Boxed &lt;text</a:t></a:r></a:p><a:p/><a:p><a:t>below</a:t></a:p></d>'
    raw = pack_workbook(
        {"No": "<sheetData/>", "Yes": sheet},
        f'<numFmts>{codes}</numFmts><cellStyleXfs><xf numFmtId="9"/></cellStyleXfs><cellXfs>{formats}</cellXfs>',
        parts={
            "xl/worksheets/_rels/Yes.xml.rels": relations("../drawing1.xml", "/xl/comments1.xml", "../printer1.xml"),
            "xl/_rels/drawing1.xml.rels": relations("chart1.xml", "drawing1.xml"),  # and itself
            "xl/drawing1.xml": drawing,
            "xl/comments1.xml": "<cs><author/><comment><r><t>Ann:\n</t></r><r><t>Why?</t></r></comment></cs>",
            "xl/chart1.xml": '<c xmlns:a="a"><a:p><a:t>By port</a:t></a:p><c:v xmlns:c="c">7</c:v></c>',
            "xl/printer1.xml": "<t>none</t>",
        },
    )
    read = read_file("a.xlsx", raw)
    assert read.text.split("\n\n") == [
        *("Yes", "| Share | 0.6667 | 66.67 % | 66.67 % | 0.6667 |\n| --- | --- | --- | --- | --- |"),
        *("Boxed <text\nbelow", "By port", "Ann:\nWhy?", "Harbour & R&D"),
    ]
    assert [(section.start, section.headings, section.page) for section in read.sections] == [(0, ("Yes",), 2)]


def test_percents_of_opendocument_sheets() -> None:
    def write_cell(kind: str, value: str, count: int) -> str:
        return (
            f'<table:table-cell table:number-columns-repeated="{count}" office:value-type="{kind}"'
            f' office:value="{value}"/>'
        )

    cells = [write_cell("float", "0.5", 2), write_cell("percentage", "0.6667", 2), write_cell("float", "0.25", 1)]
    body = (
        '<table:table-row table:number-rows-repeated="3"><table:table-cell/></table:table-row><table:table-rows>'
        f'<table:table-row table:number-rows-repeated="2"><table:table-cell/>{"".join(cells)}</table:table-row>'
        "</table:table-rows>"
    )
    sheets = [f'<table:table table:name="{name}">{rows}</table:table>' for name, rows in (("No", ""), ("Yes", body))]
    row = "| 0.5 | 0.5 | 66.67 % | 66.67 % | 0.25 |"
    read = read_file("a.ods", write_odf("".join(sheets), "spreadsheet"))
    assert read.text == f"Yes\n\n{row}\n|{' --- |' * 5}\n{row}"


# ---------------------------------------------------------------- OpenDocument


def open_document(body: str, prolog: str = "", manifest: str = "") -> bytes:
    spaces = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{kind}:1.0"'
        for name, kind in (
            *((name, name) for name in ("office", "text", "table", "style", "presentation")),
            *(("draw", "drawing"), ("svg", "svg-compatible")),
        )
    )
    part = '<office:part xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xlink="http://www.w3.org/1999/xlink"'
    parts = {
        "content": body,
        "styles": "<style:header><text:p>Case 77</text:p></style:header>",
        "meta": "<dc:title>untitled</dc:title>",
    }
    written = {f"{name}.xml": f"{part}{spaces}>{xml}</office:part>" for name, xml in parts.items()}
    return pack({**written, "content.xml": f"{prolog}{written['content.xml']}", "META-INF/manifest.xml": manifest})


def test_an_opendocument_text() -> None:
    read = read_file(
        "a.odt",
        open_document(
            '<style:style style:name="P1" style:parent-style-name="Title"/><office:body><office:text>'
            "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
            '<text:p text:style-name="P1">Tides</text:p><text:h text:outline-level="2">Ely</text:h>'
            '<text:p>High<text:s text:c="2"/>\n   tide<text:note><text:note-citation>1</text:note-citation>'
            "<text:note-body><text:p>Twice a day.</text:p></text:note-body></text:note>, <text:a xlink:href='b.odt'>see"
            "</text:a><office:annotation><dc:creator>Ann</dc:creator><text:p>Where?</text:p></office:annotation></text:p>"
            "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>inner</text:p>"
            "</text:list-item></text:list></text:list-item></text:list>"
            '<table:table><table:table-header-rows><table:table-row><table:table-cell table:number-columns-spanned="2">'
            "<text:p>wide</text:p></table:table-cell><table:covered-table-cell/></table:table-row>"
            '</table:table-header-rows><table:table-row><table:table-cell table:number-columns-repeated="2">'
            "<text:p>7</text:p></table:table-cell></table:table-row></table:table>"
            "<text:p><draw:frame><draw:image/><svg:desc>A pier</svg:desc></draw:frame></text:p>"
            "<text:p><draw:frame><draw:text-box><text:p>Boxed</text:p></draw:text-box></draw:frame></text:p>"
            "<text:p><text:a xlink:href='https://ely.example/'>site</text:a> <text:a xlink:href='#Ely'>above</text:a>"
            "</text:p></office:text></office:body>"
        ),
    )
    assert read.text.split("\n\n") == [
        *("Tides", "Ely", "High   tide, see", "Twice a day.", "Comment (Ann): Where?", "- one\n  - inner"),
        *("| wide |  |\n| --- | --- |\n| 7 | 7 |", "A pier", "Boxed", "site above", "Case 77"),
    ]
    assert [section.headings for section in read.sections] == [("Tides",), ("Tides", "Ely")]
    assert (read.title, read.metadata) == ("Tides", {"hyperlinks": [["see", "b.odt"]]})


def test_an_opendocument_presentation() -> None:
    slides = (
        '<draw:frame presentation:class="title"><draw:text-box><text:p>Plan</text:p></draw:text-box></draw:frame>',
        "<draw:custom-shape><text:p>Numbers</text:p></draw:custom-shape>"
        "<presentation:notes><draw:frame><draw:text-box><text:p>Say hello.</text:p></draw:text-box></draw:frame>"
        "</presentation:notes>",
    )
    pages = "".join(f"<draw:page>{slide}</draw:page>" for slide in slides)
    read = read_file("a.odp", open_document(f"<office:body>{pages}</office:body>"))
    assert (read.text, read.title) == ("Plan\n\nNumbers\n\nSay hello.", "Plan")
    assert read.sections == (Section(0, ("Plan",), 1), Section(6, (), 2))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (open_document("", '<!DOCTYPE d [<!ENTITY e "x">]>'), "a damaged one (it declares a document type)"),
        (open_document("", manifest="<x:encryption-data/>"), "one that a password protects; save it without one"),
    ],
)
def test_an_opendocument_file_that_is_refused(content: bytes, expected: str) -> None:
    with pytest.raises(DataError, match=f"^a.odt: expected an OpenDocument file; found {re.escape(expected)}"):
        read_file("a.odt", content)


@pytest.mark.parametrize(("name", "element"), [("a.odt", "text:section"), ("a.odp", "draw:page")])
def test_nesting_beyond_limit_is_refused(name: str, element: str) -> None:
    nested = f"{'<draw:g>' * 5_000}<text:p>a</text:p>{'</draw:g>' * 5_000}"
    content = open_document(f"<office:body><{element}>{nested}</{element}></office:body>")
    with pytest.raises(DataError, match=f"^{name}: expected an OpenDocument file; found one that is nested too deeply"):
        read_file(name, content)


# ---------------------------------------------------------------- damaged files


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "an empty one"),
        (b"no archive", "another kind of file"),
        (OLD_OFFICE + "EncryptedPackage".encode("utf-16-le"), "one that a password protects; save it without one"),
        (OLD_OFFICE, "a damaged one"),
        (word_file(paragraph(run("x" * 9)))[:600], "a damaged one"),
        (archive("word/none.xml", "", {}), "a damaged one"),
    ],
)
@pytest.mark.parametrize("name", ["a.docx", "a.doc", "a.pptx", "a.ppt", "a.xlsx", "a.xls", "a.ods", "a.odt", "a.odp"])
def test_a_broken_office_file_is_one_error(name: str, content: bytes, expected: str) -> None:
    kinds = {".d": "a Word file", ".p": "a PowerPoint file", "dt": "an OpenDocument file", "dp": "an OpenDocument file"}
    kind = kinds.get(name[1:3]) or kinds.get(name[-2:]) or "a spreadsheet"
    with pytest.raises(DataError, match=f"^{name}: expected {kind}; found {expected}"):
        read_file(name, content)


def test_panic_of_library_is_one_error() -> None:
    """The errors of libraries in Rust that panic are no exceptions for Python."""
    with pytest.raises(DataError, match=r"^a.xlsb: expected a spreadsheet; found a damaged one \(no entry found"):
        read_file("a.xlsb", pack_binary_workbook("Ports"))


def test_archives_of_the_tests_are_the_same_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bytes stand in the ids of tests, which all processes must collect alike."""
    at_once = pack({"word/document.xml": "<p/>"})
    with monkeypatch.context() as patch:
        patch.setattr("time.time", lambda: 1e9)
        assert pack({"word/document.xml": "<p/>"}) == at_once
