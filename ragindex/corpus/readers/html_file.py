"""Reader of HTML files."""

from pathlib import Path
from urllib.parse import urlsplit

from ragindex.corpus.readers.content import FileContent, find_heading_paths
from ragindex.corpus.readers.html_page import read_page
from ragindex.corpus.readers.text_encodings import decode_page, name_encoding
from ragindex.errors import DataError
from ragindex.types import HYPERLINKS

_MOST_HYPERLINKS = 200


def read_html(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read the visible text of a page. Raises DataError if markup that is never closed hides all of it."""
    page, found = decode_page(raw, path, encoding)
    read = read_page(page)
    if not read.text and read.unclosed:
        raise DataError("a page with text in its body", f"none, for {read.unclosed} is never closed", path=path)
    pairs = [list(pair) for pair in dict.fromkeys(read.hyperlinks) if _is_relative(pair[1])][:_MOST_HYPERLINKS]
    metadata = {**({HYPERLINKS: pairs} if pairs else {}), **name_encoding(found)}
    return FileContent(read.title, read.text, find_heading_paths(read.headings), metadata, read.blocks)


def _is_relative(address: str) -> bool:
    """Return whether an address leads to another file of the same corpus, if to any."""
    try:
        parts = urlsplit(address)
    except ValueError:  # a malformed address, such as an open IPv6 bracket
        return False
    return bool(parts.path) and not parts.scheme and not parts.netloc
