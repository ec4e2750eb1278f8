"""Reader of EPUB books: the documents of the spine, by the reader of HTML (EPUB 3.3, sections 5 and 6)."""

import posixpath
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from ragindex.corpus.readers.archives import ARCHIVE_FAULTS, explain_damage, open_archive, read_part
from ragindex.corpus.readers.content import ContentBuilder, FileContent
from ragindex.corpus.readers.html_file import HtmlPage
from ragindex.corpus.readers.text_encodings import decode_page
from ragindex.errors import DataError
from ragindex.types import MetadataValue

_OF_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # which hide fonts, not text
_PAGES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")
_TEXTS = ".//{*}metadata//{http://purl.org/dc/elements/1.1/}"


def read_epub(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a book: a page is a document of its spine that has text. Raises DataError if it is damaged or protected."""
    builder, notes, pages = ContentBuilder(), list[str](), 0
    with explain_damage("an EPUB book", raw, path, ElementTree.ParseError), open_archive(raw) as archive:
        methods = _parse(read_part(archive, "META-INF/encryption.xml")).iterfind(
            ".//{*}EncryptedData/{*}EncryptionMethod"
        )
        if any(method.get("Algorithm") not in _OF_FONTS for method in methods):
            raise DataError("a book without copy protection", "one whose text is encrypted (DRM)", path=path)
        root = _parse(archive.read("META-INF/container.xml")).find(".//{*}rootfile")
        opened = "" if root is None else root.get("full-path", "")
        package = _parse(archive.read(opened))
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
        [text for one in package.iterfind(f"{_TEXTS}{name}") if (text := " ".join("".join(one.itertext()).split()))]
        for name in ("title", "creator")
    )
    metadata: dict[str, MetadataValue] = {"pages": pages, **({"author": ", ".join(authors)} if authors else {})}
    return builder.build(next(iter(titles), ""), metadata, notes)


def _parse(part: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(part or b"<none/>")  # noqa: S314 - expat bounds how entities grow


def _list_documents(package: ElementTree.Element, folder: str) -> Iterator[str]:
    """Yield the names of the documents of the spine, in its order."""
    parts = {item.get("id"): item for item in package.iterfind(".//{*}manifest/{*}item")}
    for reference in package.iterfind(".//{*}spine/{*}itemref"):
        item = parts.get(reference.get("idref"))
        if item is not None and item.get("media-type") in _PAGES and "nav" not in item.get("properties", "").split():
            yield posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
