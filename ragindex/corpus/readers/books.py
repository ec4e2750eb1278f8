"""Readers of books: EPUB 3.3 and FB2 (FictionBook 2.1).

Of an EPUB book the documents of the spine (sections 5 and 6 of the standard) are read by the reader of HTML; FB2 is one
XML file.
"""

import posixpath
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from ragindex.corpus.readers.archives import ARCHIVE_FAULTS, FAULTS, explain_damage, open_archive, parse_xml, read_part
from ragindex.corpus.readers.content import ContentBuilder, FileContent
from ragindex.corpus.readers.html_file import HtmlPage
from ragindex.corpus.readers.text_encodings import decode_page
from ragindex.errors import DataError
from ragindex.types import MetadataValue

_OF_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # which hide fonts, not text
_PAGES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")
_TEXTS = ".//{*}metadata//{http://purl.org/dc/elements/1.1/}"
_PARAGRAPHS = ("p", "v", "subtitle", "text-author", "date")
_WITHOUT_TEXT = ("image", "empty-line")


def read_epub(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a book: a page is a document of its spine that has text. Raises DataError if it is damaged or protected."""
    builder, notes, pages = ContentBuilder(), list[str](), 0
    with explain_damage("an EPUB book", raw, path, ElementTree.ParseError), open_archive(raw) as archive:
        encryption = parse_xml(read_part(archive, "META-INF/encryption.xml"))
        methods = encryption.iterfind(".//{*}EncryptedData/{*}EncryptionMethod")
        if any(method.get("Algorithm") not in _OF_FONTS for method in methods):
            raise DataError("a book without copy protection", "one whose text is encrypted (DRM)", path=path)
        root = parse_xml(archive.read("META-INF/container.xml")).find(".//{*}rootfile")
        opened = "" if root is None else root.get("full-path", "")
        package = parse_xml(archive.read(opened))
        for name in dict.fromkeys(_list_documents(package, posixpath.dirname(opened))):
            try:
                page = HtmlPage(decode_page(archive.read(name), path, encoding)[0], is_xml=True)
            except (*ARCHIVE_FAULTS, DataError) as error:
                notes.append(f"the chapter {name} cannot be read: {error}")
                continue
            notes += [f"{name}: {note}" for note in page.notes]
            if not page.is_blank():
                pages += 1
                builder.start_page(pages)
                page.write(builder)
    titles, authors = (
        [text for node in package.iterfind(f"{_TEXTS}{name}") if (text := _read_text(node))]
        for name in ("title", "creator")
    )
    metadata: dict[str, MetadataValue] = {"pages": pages, **({"author": ", ".join(authors)} if authors else {})}
    return builder.build(next(iter(titles), ""), metadata, notes)


def _list_documents(package: ElementTree.Element, folder: str) -> Iterator[str]:
    """Yield the names of the documents of the spine, in its order."""
    parts = {item.get("id"): item for item in package.iterfind(".//{*}manifest/{*}item")}
    for reference in package.iterfind(".//{*}spine/{*}itemref"):
        item = parts.get(reference.get("idref"))
        if item is not None and item.get("media-type") in _PAGES and "nav" not in item.get("properties", "").split():
            yield posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))


def read_fb2(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read annotation, text and notes of a book; titles of sections are headings. Raises DataError if it is damaged."""
    try:
        book = ElementTree.fromstring(raw)  # noqa: S314 - expat bounds how entities grow
        builder, about = ContentBuilder(), "{*}description/{*}title-info"
        for part in (*book.iterfind(f"{about}/{{*}}annotation"), *book.iterfind("{*}body")):
            _add(builder, part, 0)
    except (ElementTree.ParseError, *FAULTS) as error:
        raise DataError("an FB2 book", f"a damaged file or another kind of file ({error})", path=path) from error
    title = next((_read_text(node) for node in book.iterfind(f"{about}/{{*}}book-title")), "")
    authors = [" ".join(filter(None, map(_read_text, node))) for node in book.iterfind(f"{about}/{{*}}author")]
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
