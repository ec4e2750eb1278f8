"""Documents of all formats, written from pages of headings, paragraphs, lists, tables and code.

Each word stands in a document once, so that it is known under which heading, on which page and in which block it must
be found.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from typing import Any, Literal, TypeAlias, get_args

import docx
import pptx
import pypdf
from packed import pack
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

Kind: TypeAlias = Literal["heading", "paragraph", "list", "table", "code"]


@dataclass(frozen=True)
class Element:
    """A part of a document: its lines, each of some words; of a table a word a cell, of headings and paragraphs one."""

    kind: Kind
    lines: tuple[tuple[str, ...], ...]
    level: int = 0

    @property
    def texts(self) -> list[str]:
        return [" ".join(line) for line in self.lines]

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


Page: TypeAlias = Sequence[Element]
Writers: TypeAlias = Mapping[Kind, Callable[[Element], str]]
KINDS: tuple[Kind, ...] = get_args(Kind)


def number_words(shape: list[list[tuple[Kind, int]]]) -> list[list[Element]]:
    """Make the elements of pages; a heading is at most one level below the one before it, a table has 3 columns."""
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


def join(pages: Sequence[Page], write: Writers) -> str:
    return "\n\n".join(write[element.kind](element) for element in chain.from_iterable(pages))


def enclose(before: str, after: str) -> Callable[[Element], str]:
    return lambda element: f"{before}\n{element.text}\n{after}"


RULE = ("=====",) * 3
MARKDOWN: Writers = {
    "heading": lambda element: f"{'#' * element.level} {element.text}",
    "paragraph": lambda element: element.text,
    "list": lambda element: "\n".join(f"- {text}" for text in element.texts),
    "table": lambda element: "\n".join(
        f"| {' | '.join(line)} |" for line in (element.lines[0], ("---",) * 3, *element.lines[1:])
    ),
    "code": enclose("```", "```"),
}


def mark_up(heading: str, table: Callable[[Element], str], code: Callable[[Element], str]) -> Writers:
    """Return the writers of a language whose headings begin with a mark for each level."""
    return {
        **MARKDOWN,
        "heading": lambda element: f"{heading * element.level} {element.text}",
        "table": table,
        "code": code,
    }


ASCIIDOC = mark_up("=", enclose("|===", "|==="), enclose("----", "----"))
ORG = mark_up("*", MARKDOWN["table"], enclose("#+begin_src", "#+end_src"))
TEX: Writers = {
    **mark_up("", enclose(r"\begin{tabular}{ll}", r"\end{tabular}"), enclose(r"\begin{verbatim}", r"\end{verbatim}")),
    "heading": lambda element: f"\\{'sub' * (element.level - 1)}section{{{element.text}}}",
}
RST: Writers = {
    **MARKDOWN,
    "heading": lambda element: f"{element.text}\n{'=-~'[element.level - 1] * 20}",
    "table": lambda element: "\n".join(
        "  ".join(line) for line in (RULE, element.lines[0], RULE, *element.lines[1:], RULE)
    ),
    "code": lambda element: "\n   ".join([".. code-block:: text\n", *element.texts]),
}
CELLS: Writers = {**MARKDOWN, "code": lambda element: element.text}


def write_notebook(pages: Sequence[Page]) -> str:
    kinds = {"code": "code"}
    cells = [
        {"cell_type": kinds.get(element.kind, "markdown"), "source": CELLS[element.kind](element)}
        for element in chain.from_iterable(pages)
    ]
    return json.dumps({"cells": cells})


def write_csv(pages: Sequence[Page], delimiter: str) -> str:
    return "\n".join(delimiter.join(line) for element in chain.from_iterable(pages) for line in element.lines)


def list_rows(pages: Sequence[Page]) -> list[dict[str, str]]:
    return [{"a": element.text} for element in chain.from_iterable(pages)]


# ---------------------------------------------------------------- XML


def nest(content: str, *tags: str) -> str:
    """Return elements inside of each other, the first of which holds the others; tags may have attributes."""
    for tag in reversed(tags):
        content = f"<{tag}>{content}</{tag.split()[0]}>"
    return content


def write_rows(element: Element, row: str, *cell: str) -> str:
    return "".join(nest("".join(nest(text, *cell) for text in line), row) for line in element.lines)


HTML: Writers = {
    "heading": lambda element: nest(element.text, f"h{element.level}"),
    "paragraph": lambda element: nest(element.text, "p"),
    "list": lambda element: nest("".join(nest(text, "li") for text in element.texts), "ul"),
    "table": lambda element: nest(
        write_rows(element, "tr", "td").replace("td>", "th>", 2 * 3), "table"
    ),  # of the first row
    "code": lambda element: nest(element.text, "pre"),
}
FB2: Writers = {**HTML, "heading": lambda element: nest(element.text, "title", "p")}
ODF_CELL = ("table:table-row", 'table:table-cell office:value-type="string"', "text:p")
ODF: Writers = {
    "heading": lambda element: nest(element.text, f'text:h text:outline-level="{element.level}"'),
    "paragraph": lambda element: nest(element.text, "text:p"),
    "list": lambda element: nest(
        "".join(nest(text, "text:list-item", "text:p") for text in element.texts), "text:list"
    ),
    "table": lambda element: nest(write_rows(element, *ODF_CELL), "table:table"),
}
SLIDE_TITLE = 'draw:frame presentation:class="title" xmlns:presentation="p"'


def write_html(pages: Sequence[Page]) -> str:
    return nest(join(pages, HTML), "html", "body")


MAIL = "Subject: s\nMIME-Version: 1.0\nContent-Type: text/html\n\n{}\n"
MAIL_OF_BOX = f"From x@y Tue Feb  3 10:00:00 2026\n{MAIL}\n"
SAVED_PAGE = (
    'MIME-Version: 1.0\nContent-Type: multipart/related; boundary="B"\n\n--B\nContent-Type: text/html\n\n{}\n--B--\n'
)


def write_fb2(pages: Sequence[Page]) -> str:
    """Write each heading as the title of a section, which holds what is below it."""
    text, depth = "", 0
    for element in chain.from_iterable(pages):
        if element.kind == "heading":
            text += "</section>" * (depth - element.level + 1) + "<section>"
            depth = element.level
        text += FB2[element.kind](element)
    return nest(f"{text}{'</section>' * depth}", "FictionBook", "body")


def write_epub(pages: Sequence[Page]) -> bytes:
    numbers = range(len(pages))
    items = "".join(f'<item id="p{at}" href="{at}.xhtml" media-type="application/xhtml+xml"/>' for at in numbers)
    order = "".join(f'<itemref idref="p{at}"/>' for at in numbers)
    return pack(
        {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>',
            "b.opf": f"<package><manifest>{items}</manifest><spine>{order}</spine></package>",
            **{f"{at}.xhtml": write_html([page]) for at, page in enumerate(pages)},
        }
    )


def write_odf(body: str, kind: str) -> bytes:
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{space}:1.0"'
        for name, space in (("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"))
    )
    content = nest(body, f"office:document-content{names}", "office:body", f"office:{kind}")
    mimetype = f"application/vnd.oasis.opendocument.{kind}"
    return pack({"mimetype": mimetype, "content.xml": content, "META-INF/manifest.xml": "<manifest/>"})


SLIDE: Writers = {
    **{kind: lambda element, kind=kind: nest(ODF[kind](element), "draw:frame", "draw:text-box") for kind in ODF},
    "heading": lambda element: nest(element.text, SLIDE_TITLE, "draw:text-box", "text:p"),
}


def write_odp(pages: Sequence[Page]) -> bytes:
    return write_odf("".join(nest(join([page], SLIDE), "draw:page") for page in pages), "presentation")


def write_sheets(pages: Sequence[Page]) -> bytes:
    """Write each page as a sheet with the name that its heading says."""
    sheets = (
        nest("".join(write_rows(row, *ODF_CELL) for row in rows), f'table:table table:name="{heading.text}"')
        for heading, *rows in filter(None, pages)
    )
    return write_odf("".join(sheets), "spreadsheet")


# ---------------------------------------------------------------- Office and PDF files by their libraries


def fill(table: Any, element: Element) -> None:
    for row, line in enumerate(element.lines):
        for column, text in enumerate(line):
            table.cell(row, column).text = text


def save(write: Callable[[io.BytesIO], object]) -> bytes:
    written = io.BytesIO()
    write(written)
    return written.getvalue()


def write_word(pages: Sequence[Page]) -> bytes:
    document = docx.Document()
    for element in chain.from_iterable(pages):
        if element.kind == "heading":
            document.add_heading(element.text, element.level)
        elif element.kind == "table":
            fill(document.add_table(len(element.lines), 3), element)
        else:
            for text in element.texts:
                document.add_paragraph(text, "List Bullet" if element.kind == "list" else None)
    return save(document.save)


def write_slides(pages: Sequence[Page]) -> bytes:
    presentation: Any = pptx.Presentation()
    for page in pages:
        titled = any(part.kind == "heading" for part in page)
        shapes = presentation.slides.add_slide(presentation.slide_layouts[5 if titled else 6]).shapes
        for place, element in enumerate(page, 1):
            top = 2_000_000 * place
            if element.kind == "heading":
                shapes.title.text_frame.text = element.text
            elif element.kind == "table":
                fill(shapes.add_table(len(element.lines), 3, 0, top, 10, 10).table, element)
            else:
                shapes.add_textbox(0, top, 10, 10).text_frame.text = element.text
    return save(presentation.save)


def write_pdf(pages: Sequence[Page]) -> bytes:
    writer, path = pypdf.PdfWriter(), list[tuple[int, Any]]()
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    named = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    fonts = DictionaryObject({NameObject("/F1"): named})
    for number, elements in enumerate(pages):
        page, stream = writer.add_blank_page(612, 792), DecodedStreamObject()
        lines = " 0 -14 Td ".join(f"({text}) Tj" for element in elements for text in element.texts)
        stream.set_data(f"BT /F1 9 Tf 72 770 Td {lines} ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        for heading in (element for element in elements if element.kind == "heading"):
            path = [(level, item) for level, item in path if level < heading.level]
            parent = path[-1][1] if path else None
            path.append((heading.level, writer.add_outline_item(title=heading.text, page_number=number, parent=parent)))
    return save(writer.write)


# ---------------------------------------------------------------- formats


@dataclass(frozen=True)
class Format:
    """How documents of a format are written, and what it can say.

    `kinds` are its elements, `blocks` those of them that are blocks. Pages have numbers if it is `paged`, also those
    without text if it has `blank_pages`. If it is `titled`, a page has one heading, which ends with it.
    """

    write: Callable[[Sequence[Page]], str | bytes]
    kinds: tuple[Kind, ...] = KINDS
    blocks: tuple[Kind, ...] = ("table", "code")
    paged: bool = False
    titled: bool = False
    blank_pages: bool = False


WITHOUT_CODE = KINDS[:-1]
FORMATS = {
    **dict.fromkeys((".txt", ".py"), Format(partial(join, write=MARKDOWN), ("paragraph", "list"))),
    ".md": Format(partial(join, write=MARKDOWN)),
    ".rst": Format(partial(join, write=RST)),
    ".adoc": Format(partial(join, write=ASCIIDOC)),
    ".org": Format(partial(join, write=ORG)),
    ".tex": Format(partial(join, write=TEX)),
    ".html": Format(write_html),
    ".epub": Format(write_epub, paged=True),
    ".fb2": Format(write_fb2, ("heading", "paragraph", "table")),
    ".ipynb": Format(write_notebook),
    ".csv": Format(partial(write_csv, delimiter=","), ("table",), ()),  # all tables are one
    ".tsv": Format(partial(write_csv, delimiter="\t"), ("table",), ()),
    ".json": Format(lambda pages: json.dumps(list_rows(pages)), ("paragraph",)),
    ".jsonl": Format(lambda pages: "\n".join(map(json.dumps, list_rows(pages))), ("paragraph",)),
    ".eml": Format(lambda pages: MAIL.format(write_html(pages))),
    ".mbox": Format(lambda pages: "".join(MAIL_OF_BOX.format(write_html([page])) for page in pages)),
    ".mht": Format(lambda pages: SAVED_PAGE.format(write_html(pages))),
    ".pdf": Format(write_pdf, ("heading", "paragraph", "list"), paged=True, blank_pages=True),
    ".docx": Format(write_word, WITHOUT_CODE),
    ".pptx": Format(write_slides, WITHOUT_CODE, paged=True, titled=True, blank_pages=True),
    ".odt": Format(lambda pages: write_odf(join(pages, ODF), "text"), WITHOUT_CODE),
    ".odp": Format(write_odp, WITHOUT_CODE, paged=True, titled=True, blank_pages=True),
    ".ods": Format(write_sheets, ("heading", "table"), (), paged=True, titled=True),
}


def limit_pages(pages: list[list[Element]], form: Format) -> list[list[Element]]:
    """Return what a format can say of a document."""
    limited = [[element for element in page if element.kind in form.kinds] for page in pages]
    if form.titled:
        headings = (
            [replace(element, level=1) for element in page if element.kind == "heading"][:1] for page in limited
        )
        others = ([element for element in page if element.kind != "heading"] for page in limited)
        limited = [[*heading, *rest] for heading, rest in zip(headings, others, strict=True)]
        if "paragraph" not in form.kinds:
            limited = [
                page for page in limited if len({element.kind for element in page}) == 2
            ]  # a sheet has a name and rows
    return limited if form.blank_pages else [page for page in limited if page]
