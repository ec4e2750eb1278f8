"""Reader of EPUB books: the documents of the spine, by the reader of HTML (EPUB 3.3, sections 5 and 6)."""

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from ragindex.corpus.readers.content import ContentBuilder, FileContent
from ragindex.corpus.readers.html_file import HtmlPage
from ragindex.corpus.readers.text_encodings import decode_page
from ragindex.errors import DataError

_MOST_UNPACKED = 1_000_000_000  # bytes
_OF_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # which hide fonts, not text
_PAGES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")
_FAULTS = (zipfile.BadZipFile, zlib.error, ElementTree.ParseError, LookupError, ValueError, RuntimeError, EOFError)


def read_epub(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a book: a page is a document of its spine that has text. Raises DataError if it is damaged or protected."""
    try:
        archive = zipfile.ZipFile(BytesIO(raw))
        _check(archive, path)
        root = _parse(archive, "META-INF/container.xml").find(".//{*}rootfile")
        opened = "" if root is None else root.get("full-path", "")
        package = _parse(archive, opened)
    except _FAULTS as error:
        raise DataError("an EPUB book", f"a damaged file or another kind of file ({error})", path=path) from error
    builder, notes, pages = ContentBuilder(), list[str](), 0
    for name in dict.fromkeys(_list_documents(package, posixpath.dirname(opened))):
        try:
            page = HtmlPage(decode_page(archive.read(name), path, encoding)[0], is_xml=True)
        except (*_FAULTS, DataError) as error:
            notes.append(f"the chapter {name} cannot be read: {error}")
            continue
        notes += [f"{name}: {note}" for note in page.notes]
        if not page.is_blank():
            pages += 1
            builder.start_page(pages)
            page.write(builder)
    title, authors = next(_list_texts(package, "title"), ""), ", ".join(_list_texts(package, "creator"))
    return builder.build(title, {"pages": pages, **({"author": authors} if authors else {})}, notes)


def _check(archive: zipfile.ZipFile, path: Path) -> None:
    """Raise DataError for a book that unpacks to too much, or that only the programs of its seller can open."""
    unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > _MOST_UNPACKED:
        raise DataError(f"a book that unpacks to at most {_MOST_UNPACKED:,} bytes", f"{unpacked:,}", path=path)
    if "META-INF/encryption.xml" in archive.namelist():
        methods = _parse(archive, "META-INF/encryption.xml").iterfind(".//{*}EncryptedData/{*}EncryptionMethod")
        if any(method.get("Algorithm") not in _OF_FONTS for method in methods):
            raise DataError("a book without copy protection", "one whose text is encrypted (DRM)", path=path)


def _parse(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(name))  # noqa: S314 - expat bounds how entities grow


def _list_documents(package: ElementTree.Element, folder: str) -> Iterator[str]:
    """Yield the names of the documents of the spine, in its order."""
    parts = {item.get("id"): item for item in package.iterfind(".//{*}manifest/{*}item")}
    for reference in package.iterfind(".//{*}spine/{*}itemref"):
        item = parts.get(reference.get("idref"))
        if item is not None and item.get("media-type") in _PAGES and "nav" not in item.get("properties", "").split():
            yield posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))


def _list_texts(package: ElementTree.Element, name: str) -> Iterator[str]:
    """Yield the texts of the metadata of a name."""
    for element in package.iterfind(f".//{{*}}metadata//{{http://purl.org/dc/elements/1.1/}}{name}"):
        text = " ".join("".join(element.itertext()).split())
        if text:
            yield text
