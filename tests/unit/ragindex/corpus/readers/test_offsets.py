"""Headings, pages, blocks and passages point at the text that they are of: a property of all readers.

Each word of a generated document stands in it once, so that it is known under which heading, on which page and in which
block it must be found.
"""

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pptx
import pypdf
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from examples import examples
from ragindex.corpus import chunk
from ragindex.corpus.chunking import section_at
from ragindex.corpus.readers import READERS, FileContent
from ragindex.types import Chunking, Document

Kind: TypeAlias = Literal["heading", "paragraph", "list", "table", "code"]
WORD = regex.compile(r"wa\d{3}")
MARKUP = regex.compile(r"(?:[#=*]+ |\\\w+\{)?")
"""What stands before a heading in texts that keep their markup."""


@dataclass(frozen=True)
class Element:
    """A part of a document: its lines, of a heading one, each of some words (of a table: a word a cell)."""

    kind: Kind
    lines: tuple[tuple[str, ...], ...]
    level: int = 0

    @property
    def texts(self) -> list[str]:
        return [" ".join(line) for line in self.lines]


Page: TypeAlias = Sequence[Element]
_SHAPES = st.lists(
    st.lists(
        st.tuples(st.sampled_from(("heading", "paragraph", "list", "table", "code")), st.integers(1, 3)), max_size=5
    ),
    min_size=1,
    max_size=3,
)


def number_words(shape: list[list[tuple[Kind, int]]]) -> list[list[Element]]:
    """Make the elements of pages; a heading is at most one level below the one before it."""
    words = (f"wa{number:03}" for number in count(1))
    pages, last = list[list[Element]](), 0
    for page in shape:
        elements = list[Element]()
        for kind, size in page:
            rows = {"heading": (1, 2), "paragraph": (1, 3 * size), "list": (size, 2), "table": (size + 1, 3)}
            height, width = rows.get(kind, (size, 1))
            lines = tuple(tuple(next(words) for _ in range(width)) for _ in range(height))
            last = min(size, last + 1) if kind == "heading" else last
            elements.append(Element(kind, lines, last if kind == "heading" else 0))
        pages.append(elements)
    return pages


# ---------------------------------------------------------------- texts


def join(pages: Sequence[Page], write: dict[Kind, Callable[[Element], str]]) -> str:
    return "\n\n".join(write[one.kind](one) for page in pages for one in page)


def write_bars(one: Element) -> str:
    rows = [f"| {' | '.join(line)} |" for line in one.lines]
    return "\n".join([rows[0], "|---" * len(one.lines[0]) + "|", *rows[1:]])


def write_items(one: Element) -> str:
    return "\n".join(f"- {text}" for text in one.texts)


def write_lines(one: Element) -> str:
    return "\n".join(one.texts)


MARKDOWN: dict[Kind, Callable[[Element], str]] = {
    "heading": lambda one: f"{'#' * one.level} {one.texts[0]}",
    "paragraph": write_lines,
    "list": write_items,
    "table": write_bars,
    "code": lambda one: f"```\n{write_lines(one)}\n```",
}


def write_grid(one: Element) -> str:
    rule = "  ".join("=====" for _ in one.lines[0])
    rows = ["  ".join(line) for line in one.lines]
    return "\n".join([rule, rows[0], rule, *rows[1:], rule])


def indent(one: Element) -> str:
    return "\n".join(f"   {text}" for text in one.texts)


RST: dict[Kind, Callable[[Element], str]] = {
    **MARKDOWN,
    "heading": lambda one: f"{one.texts[0]}\n{'=-~'[one.level - 1] * 20}",
    "table": write_grid,
    "code": lambda one: f".. code-block:: text\n\n{indent(one)}",
}
ASCIIDOC: dict[Kind, Callable[[Element], str]] = {
    **MARKDOWN,
    "heading": lambda one: f"{'=' * one.level} {one.texts[0]}",
    "table": lambda one: f"|===\n{write_lines(one)}\n|===",
    "code": lambda one: f"----\n{write_lines(one)}\n----",
}
ORG: dict[Kind, Callable[[Element], str]] = {
    **MARKDOWN,
    "heading": lambda one: f"{'*' * one.level} {one.texts[0]}",
    "code": lambda one: f"#+begin_src\n{write_lines(one)}\n#+end_src",
}
TEX: dict[Kind, Callable[[Element], str]] = {
    **MARKDOWN,
    "heading": lambda one: f"\\{'sub' * (one.level - 1)}section{{{one.texts[0]}}}",
    "table": lambda one: f"\\begin{{tabular}}{{ll}}\n{write_lines(one)}\n\\end{{tabular}}",
    "code": lambda one: f"\\begin{{verbatim}}\n{write_lines(one)}\n\\end{{verbatim}}",
}


def write_html_table(one: Element) -> str:
    rows = [
        "".join(f"<{tag}>{cell}</{tag}>" for cell in line)
        for tag, line in zip(("th", *["td"] * len(one.lines)), one.lines, strict=False)
    ]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


HTML: dict[Kind, Callable[[Element], str]] = {
    "heading": lambda one: f"<h{one.level}>{one.texts[0]}</h{one.level}>",
    "paragraph": lambda one: f"<p>{one.texts[0]}</p>",
    "list": lambda one: "<ul>" + "".join(f"<li>{text}</li>" for text in one.texts) + "</ul>",
    "table": write_html_table,
    "code": lambda one: f"<pre>{write_lines(one)}</pre>",
}


def write_html(pages: Sequence[Page]) -> str:
    return f"<html><body>{join(pages, HTML)}</body></html>"


def write_mail(pages: Sequence[Page]) -> str:
    return f"Subject: s\nMIME-Version: 1.0\nContent-Type: text/html\n\n{write_html(pages)}\n"


def write_saved_page(pages: Sequence[Page]) -> str:
    head = 'MIME-Version: 1.0\nContent-Type: multipart/related; boundary="B"\n\n--B\nContent-Type: text/html\n\n'
    return f"{head}{write_html(pages)}\n--B--\n"


def write_mailbox(pages: Sequence[Page]) -> str:
    return "".join(f"From x@y Tue Feb  3 10:00:00 2026\n{write_mail([page])}\n" for page in pages)


def write_notebook(pages: Sequence[Page]) -> str:
    kinds = {"code": "code"}
    cells = [
        {
            "cell_type": kinds.get(one.kind, "markdown"),
            "source": write_lines(one) if one.kind == "code" else MARKDOWN[one.kind](one),
        }
        for page in pages
        for one in page
    ]
    return json.dumps({"cells": cells})


def write_csv(pages: Sequence[Page], delimiter: str = ",") -> str:
    written = io.StringIO()
    tables = [one for page in pages for one in page]
    csv.writer(written, delimiter=delimiter).writerows(line for one in tables for line in one.lines)
    return written.getvalue()


def write_json(pages: Sequence[Page]) -> str:
    return json.dumps([{"a": one.texts[0]} for page in pages for one in page])


def write_json_lines(pages: Sequence[Page]) -> str:
    return "\n".join(json.dumps({"a": one.texts[0]}) for page in pages for one in page)


# ---------------------------------------------------------------- archives, Office and PDF files


def pack(**parts: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return written.getvalue()


def write_epub(pages: Sequence[Page]) -> bytes:
    numbers = range(len(pages))
    items = "".join(f'<item id="p{at}" href="{at}.xhtml" media-type="application/xhtml+xml"/>' for at in numbers)
    order = "".join(f'<itemref idref="p{at}"/>' for at in numbers)
    return pack(
        **{
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>',
            "b.opf": f"<package><manifest>{items}</manifest><spine>{order}</spine></package>",
            **{f"{at}.xhtml": write_html([page]) for at, page in enumerate(pages)},
        }
    )


WORD_MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
OFFICE_LINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def write_runs(texts: Sequence[str], properties: str = "") -> str:
    return "".join(f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>" for text in texts)


def write_word_table(one: Element) -> str:
    rows = ("".join(f"<w:tc>{write_runs([cell])}</w:tc>" for cell in line) for line in one.lines)
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"


WORD_XML: dict[Kind, Callable[[Element], str]] = {
    "heading": lambda one: write_runs(one.texts, f'<w:outlineLvl w:val="{one.level - 1}"/>'),
    "paragraph": lambda one: write_runs(one.texts),
    "table": write_word_table,
}


FB2: dict[Kind, Callable[[Element], str]] = {
    "heading": lambda one: f"<title><p>{one.texts[0]}</p></title>",
    "paragraph": HTML["paragraph"],
    "table": HTML["table"],
}


def write_fb2(pages: Sequence[Page]) -> str:
    """Write each heading as the title of a section, which holds what is below it."""
    text, depth = "", 0
    for one in (one for page in pages for one in page):
        if one.kind == "heading":
            text += "</section>" * (depth - one.level + 1) + "<section>"
            depth = one.level
        text += FB2[one.kind](one)
    return f"<FictionBook><body>{text}{'</section>' * depth}</body></FictionBook>"


def write_word(pages: Sequence[Page]) -> bytes:
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    packages = "http://schemas.openxmlformats.org/package/2006"
    return pack(
        **{
            "[Content_Types].xml": f'<Types xmlns="{packages}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/d.xml" ContentType="{kind}"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{packages}/relationships"><Relationship Id="r" '
            f'Type="{OFFICE_LINK}/officeDocument" Target="d.xml"/></Relationships>',
            "d.xml": f'<w:document xmlns:w="{WORD_MAIN}"><w:body>{join(pages, WORD_XML)}</w:body></w:document>',
        }
    )


def write_slides(pages: Sequence[Page]) -> bytes:
    made: Any = pptx.Presentation()
    for page in pages:
        titled = any(one.kind == "heading" for one in page)
        shapes = made.slides.add_slide(made.slide_layouts[5 if titled else 6]).shapes
        for place, one in enumerate(page, 1):
            top = 2_000_000 * place
            if one.kind == "heading":
                shapes.title.text_frame.text = one.texts[0]
            elif one.kind == "table":
                table = shapes.add_table(len(one.lines), len(one.lines[0]), 0, top, 10, 10).table
                for row, line in enumerate(one.lines):
                    for column, text in enumerate(line):
                        table.cell(row, column).text = text
            else:
                shapes.add_textbox(0, top, 10, 10).text_frame.text = write_lines(one)
    written = io.BytesIO()
    made.save(written)
    return written.getvalue()


NAMES = "".join(
    f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{kind}:1.0"'
    for name, kind in (("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"))
)


def write_rows(one: Element) -> str:
    rows = (
        "".join(
            f'<table:table-cell office:value-type="string"><text:p>{cell}</text:p></table:table-cell>' for cell in line
        )
        for line in one.lines
    )
    return "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)


ODF: dict[Kind, Callable[[Element], str]] = {
    "heading": lambda one: f'<text:h text:outline-level="{one.level}">{one.texts[0]}</text:h>',
    "paragraph": lambda one: f"<text:p>{one.texts[0]}</text:p>",
    "list": lambda one: (
        "<text:list>"
        + "".join(f"<text:list-item><text:p>{text}</text:p></text:list-item>" for text in one.texts)
        + "</text:list>"
    ),
    "table": lambda one: f"<table:table>{write_rows(one)}</table:table>",
}
SLIDE: dict[Kind, Callable[[Element], str]] = {
    **{
        kind: lambda one, kind=kind: f"<draw:frame><draw:text-box>{ODF[kind](one)}</draw:text-box></draw:frame>"
        for kind in ODF
    },
    "heading": lambda one: (
        '<draw:frame presentation:class="title" xmlns:presentation="p"><draw:text-box>'
        f"<text:p>{one.texts[0]}</text:p></draw:text-box></draw:frame>"
    ),
}


def write_odf(body: str, kind: str) -> bytes:
    content = f"<office:document-content{NAMES}><office:body><office:{kind}>{body}</office:{kind}></office:body>"
    mimetype = f"application/vnd.oasis.opendocument.{kind}"
    return pack(
        **{
            "mimetype": mimetype,
            "content.xml": f"{content}</office:document-content>",
            "META-INF/manifest.xml": "<manifest/>",
        }
    )


def write_sheets(pages: Sequence[Page]) -> bytes:
    """Write each page as a sheet with the name that its heading says."""
    sheets = (
        f'<table:table table:name="{page[0].texts[0]}">{"".join(write_rows(one) for one in page[1:])}</table:table>'
        for page in pages
        if page
    )
    return write_odf("".join(sheets), "spreadsheet")


def write_pdf(pages: Sequence[Page]) -> bytes:
    writer, path = pypdf.PdfWriter(), list[tuple[int, Any]]()
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    fonts = DictionaryObject(
        {NameObject("/F1"): DictionaryObject({NameObject(k): NameObject(v) for k, v in font.items()})}
    )
    for number, elements in enumerate(pages):
        page, stream = writer.add_blank_page(612, 792), DecodedStreamObject()
        lines = [text for one in elements for text in one.texts]
        stream.set_data(f"BT /F1 9 Tf 72 770 Td {' 0 -14 Td '.join(f'({line}) Tj' for line in lines)} ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        for one in elements:
            if one.kind == "heading":
                path = [(level, item) for level, item in path if level < one.level]
                parent = path[-1][1] if path else None
                path.append((one.level, writer.add_outline_item(title=one.texts[0], page_number=number, parent=parent)))
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


# ---------------------------------------------------------------- formats


@dataclass(frozen=True)
class Format:
    """How documents of a format are written, and what it can say.

    `kinds` are its elements, `blocks` those of them that are blocks. Pages have numbers if it is `paged`, also those
    without text if it has `blank_pages`. If it is `titled`, a page has one heading, which ends with it.
    """

    write: Callable[[Sequence[Page]], str | bytes]
    kinds: tuple[Kind, ...] = ("heading", "paragraph", "list", "table", "code")
    blocks: tuple[Kind, ...] = ("table", "code")
    paged: bool = False
    titled: bool = False
    blank_pages: bool = False


PLAIN = Format(lambda pages: join(pages, MARKDOWN), ("paragraph", "list"))
OFFICE: tuple[Kind, ...] = ("heading", "paragraph", "list", "table")
FORMATS = {
    ".txt": PLAIN,
    ".py": PLAIN,
    ".md": Format(lambda pages: join(pages, MARKDOWN)),
    ".rst": Format(lambda pages: join(pages, RST)),
    ".adoc": Format(lambda pages: join(pages, ASCIIDOC)),
    ".org": Format(lambda pages: join(pages, ORG)),
    ".tex": Format(lambda pages: join(pages, TEX)),
    ".html": Format(write_html),
    ".epub": Format(write_epub, paged=True),
    ".fb2": Format(write_fb2, ("heading", "paragraph", "table")),
    ".ipynb": Format(write_notebook),
    ".csv": Format(write_csv, ("table",), ()),  # all tables are one
    ".tsv": Format(lambda pages: write_csv(pages, "\t"), ("table",), ()),
    ".json": Format(write_json, ("paragraph",)),
    ".jsonl": Format(write_json_lines, ("paragraph",)),
    ".eml": Format(write_mail),
    ".mbox": Format(write_mailbox),
    ".mht": Format(write_saved_page),
    ".pdf": Format(write_pdf, ("heading", "paragraph", "list"), paged=True, blank_pages=True),
    ".docx": Format(write_word, ("heading", "paragraph", "table")),
    ".pptx": Format(write_slides, OFFICE, paged=True, titled=True, blank_pages=True),
    ".odt": Format(lambda pages: write_odf(join(pages, ODF), "text"), OFFICE),
    ".odp": Format(
        lambda pages: write_odf(
            "".join(f"<draw:page>{join([page], SLIDE)}</draw:page>" for page in pages), "presentation"
        ),
        *(OFFICE, ("table",), True, True, True),
    ),
    ".ods": Format(write_sheets, ("heading", "table"), (), paged=True, titled=True),
}


def test_all_readers_are_covered() -> None:
    """Only messages of Outlook cannot be written here; their text is that of other mail."""
    assert {READERS[suffix] for suffix in FORMATS} == {*READERS.values()} - {READERS[".msg"]}


def limit_pages(pages: list[list[Element]], form: Format) -> list[list[Element]]:
    """Return what a format can say of a document."""
    limited = [[one for one in page if one.kind in form.kinds] for page in pages]
    if form.titled:
        limited = [
            [replace(one, level=1) for one in page if one.kind == "heading"][:1]
            + [one for one in page if one.kind != "heading"]
            for page in limited
        ]
    if form.titled and "paragraph" not in form.kinds:
        limited = [page for page in limited if len({one.kind for one in page}) == 2]  # a sheet has a name and rows
    return limited if form.blank_pages else [page for page in limited if page]


def list_places(pages: Sequence[Page], form: Format) -> Iterator[tuple[str, tuple[str, ...], int | None]]:
    """Yield each word with its headings and its page."""
    path = list[tuple[int, str]]()
    for number, page in enumerate(pages, 1):
        path = [] if form.titled else path
        for one in page:
            if one.kind == "heading":
                path = [*(above for above in path if above[0] < one.level), (one.level, one.texts[0])]
            for word in (word for line in one.lines for word in line):
                yield word, tuple(text for _, text in path), number if form.paged else None


def check(content: FileContent, pages: Sequence[Page], form: Format) -> None:
    places = {word: (headings, page) for word, headings, page in list_places(pages, form)}
    assert WORD.findall(content.text) == list(places)
    for section in content.sections:
        heading, place = section.headings[-1:], MARKUP.match(content.text, section.start)
        assert place is not None
        begun = heading and not content.text.startswith(heading[0], place.end())
        assert not begun or form.paged  # a page begins below the heading of the one before
    assert [one.start for one in content.sections] == sorted(one.start for one in content.sections)
    for word in WORD.finditer(content.text):
        section = section_at(content.sections, word.start())
        assert (section.headings, section.page) == places[word[0]]
    numbers = [one.page or 0 for one in content.sections]
    assert numbers == sorted(numbers)
    assert all(end <= start for (_, end), (start, _) in pairwise(content.blocks))
    blocks = [content.text[start:end] for start, end in content.blocks]
    assert blocks == [text.strip() for text in blocks]
    expected = [one for page in pages for one in page if one.kind in form.blocks]
    if form.blocks:
        assert [WORD.findall(text) for text in blocks] == [
            [word for line in one.lines for word in line] for one in expected
        ]
    document = Document("d", "t", content.text, {}, content.sections, content.blocks)
    for chunking in (Chunking(4, 0, "headings"), Chunking(40, 10, "characters"), Chunking(5, 1, "words")):
        for passage in chunk(document, chunking):
            own = content.text[passage.start : passage.end]
            assert passage.text == content.text[slice(*passage.header)] + own
            word, page = WORD.search(own), section_at(content.sections, passage.start).page
            if word is not None and "\n" not in own[: word.start()]:  # where it begins with the end of other markup
                assert (passage.headings, page) == places[word[0]]


@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=examples(6))
@given(shape=_SHAPES)
def test_headings_pages_blocks_and_passages_stand_where_they_say(
    suffix: str, shape: list[list[tuple[Kind, int]]]
) -> None:
    form = FORMATS[suffix]
    pages = limit_pages(number_words(shape), form)
    if not any(pages):
        return
    written = form.write(pages)
    raw = written if isinstance(written, bytes) else written.encode()
    content = READERS[suffix](raw, Path(f"a{suffix}"), None)
    if content.inner:  # a mailbox
        for (_, mail), page in zip(content.inner, pages, strict=True):
            check(mail, [page], form)
    else:
        check(content, pages, form)
