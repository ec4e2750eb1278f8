"""Reader of FB2 books (FictionBook 2.1), which are one XML file."""

from pathlib import Path
from xml.etree import ElementTree

from ragindex.corpus.readers.content import ContentBuilder, FileContent
from ragindex.corpus.readers.libraries import FAULTS
from ragindex.errors import DataError

_PARAGRAPHS = ("p", "v", "subtitle", "text-author", "date")
_WITHOUT_TEXT = ("image", "empty-line")


def read_fb2(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read annotation, text and notes of a book; titles of sections are headings. Raises DataError if it is damaged."""
    try:
        book = ElementTree.fromstring(raw)  # noqa: S314 - expat bounds how entities grow
        builder, about = ContentBuilder(), "{*}description/{*}title-info"
        for part in (*book.iterfind(f"{about}/{{*}}annotation"), *book.iterfind("{*}body")):
            _add(builder, part, 0)
    except (ElementTree.ParseError, *FAULTS) as error:
        raise DataError("an FB2 book", f"a damaged file or another kind of file ({error})", path=path) from error
    title = next((_read_text(one) for one in book.iterfind(f"{about}/{{*}}book-title")), "")
    authors = [" ".join(filter(None, map(_read_text, one))) for one in book.iterfind(f"{about}/{{*}}author")]
    return builder.build(title, {"author": ", ".join(authors)} if any(authors) else {})


def _add(builder: ContentBuilder, node: ElementTree.Element, level: int) -> None:
    for child in node:
        name = child.tag.rpartition("}")[2]
        if name == "title":
            builder.add_heading(" ".join(map(_read_text, child)), level)
        elif name in _PARAGRAPHS:
            builder.add_paragraph(_read_text(child))
        elif name == "table":
            builder.add_table([[_read_text(cell) for cell in row] for row in child])
        elif name not in _WITHOUT_TEXT:
            _add(builder, child, level + 1)


def _read_text(node: ElementTree.Element) -> str:
    return " ".join("".join(node.itertext()).split())
