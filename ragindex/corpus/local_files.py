"""Readers for local documents: text, Markdown, HTML and PDF files, alone or in a folder."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import regex

from ragindex.corpus.corpus import Gathered, RawDocument, gather
from ragindex.corpus.front_matter import split_front_matter
from ragindex.corpus.html_reader import read_page
from ragindex.corpus.json_reader import Item, Problems, read_bytes, unreadable_error
from ragindex.corpus.text_encodings import ENCODING, decode_page, decode_text
from ragindex.distribution import require_module
from ragindex.errors import DataError
from ragindex.types import MetadataValue
from ragindex.workers import map_in_processes

HYPERLINKS = "hyperlinks"
"""Metadata key of the hyperlinks of an HTML page to other files: pairs of visible text and address, in its order."""
_MOST_HYPERLINKS = 200

_HEADING = regex.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*")
_UNDERLINE = regex.compile(r" {0,3}(?:=+|-+)[ \t]*")
_ITEM = regex.compile(r"\s*(?:[-*+>]|\d+[.)])(?:\s|$)")  # a line below is no underline of it
_FENCE = regex.compile(r" {0,3}(`{3,}|~{3,})")
_ANCHOR = regex.compile(r"\s*\{#[^{}]*\}\s*$")
# pypdf may raise any of these for a damaged PDF, in addition to its own errors.
_PDF_FAULTS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError)

_FileContent = tuple[str, str, dict[str, MetadataValue]]  # title (blank: none), text, metadata


def _read_text(raw: bytes, path: Path) -> _FileContent:
    text, encoding = decode_text(raw, path)
    return "", _normalize_newlines(text), _name_encoding(encoding)


def _name_encoding(encoding: str) -> dict[str, MetadataValue]:
    return {ENCODING: encoding} if encoding else {}


def _normalize_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_markdown(raw: bytes, path: Path) -> _FileContent:
    decoded, encoding = decode_text(raw, path)
    front, text = split_front_matter(_normalize_newlines(decoded))
    title = front.pop("title", None)
    heading = title.strip() if isinstance(title, str) and title.strip() else _find_heading(text)
    own = {key: value for key, value in front.items() if key not in (HYPERLINKS, ENCODING)}
    return heading, text, {**own, **_name_encoding(encoding)}


def _find_heading(text: str) -> str:
    fence, before = None, ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark is not None and (fence is None or _closes(mark, fence)):
            fence = mark[1] if fence is None else None
        elif fence is None and (heading := _HEADING.fullmatch(line)) and heading[1].strip():
            return _ANCHOR.sub("", str(heading[1])).strip()
        elif fence is None and before.strip() and not _ITEM.match(before) and _UNDERLINE.fullmatch(line):
            return _ANCHOR.sub("", before).strip()
        before = line
    return ""


def _closes(mark: "regex.Match[str]", fence: str) -> bool:
    """Return whether a line closes a fence: at least as many of the same marks, and nothing after them."""
    return bool(mark[1].startswith(fence) and not mark.string[mark.end() :].strip())


def _read_html(raw: bytes, path: Path) -> _FileContent:
    page, encoding = decode_page(raw, path)
    found = read_page(page)
    if not found.text and found.unclosed:
        raise DataError("a page with text in its body", f"none, for {found.unclosed} is never closed", path=path)
    pairs = [list(pair) for pair in dict.fromkeys(found.hyperlinks) if _is_relative(pair[1])][:_MOST_HYPERLINKS]
    return found.title, found.text, {**({HYPERLINKS: pairs} if pairs else {}), **_name_encoding(encoding)}


def _is_relative(address: str) -> bool:
    """Return whether an address leads to another file of the same corpus, if to any."""
    try:
        parts = urlsplit(address)
    except ValueError:  # a malformed address, such as an open IPv6 bracket
        return False
    return bool(parts.path) and not parts.scheme and not parts.netloc


def _read_pdf(raw: bytes, path: Path) -> _FileContent:
    pypdf = require_module("pypdf", "pypdf", f"Reading {path.name}")
    try:
        reader = pypdf.PdfReader(BytesIO(raw))
        text = "\n\n".join(page.extract_text() for page in reader.pages)
        title = (reader.metadata.title if reader.metadata else None) or ""
        pages = len(reader.pages)
    except (pypdf.errors.PyPdfError, pypdf.errors.DependencyError, *_PDF_FAULTS) as error:
        raise DataError("a PDF file", str(error) or type(error).__name__, path=path) from error
    return _replace_surrogates(str(title)).strip(), _replace_surrogates(text), {"pages": pages}


def _replace_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_READERS: Mapping[str, Callable[[bytes, Path], _FileContent]] = {
    ".txt": _read_text,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".rst": _read_markdown,  # its titles are underlined alike
    ".html": _read_html,
    ".htm": _read_html,
    ".pdf": _read_pdf,
}
SUFFIXES = tuple(_READERS)


def read_folder(path: Path, problems: Problems) -> tuple[Gathered, Mapping[str, int]]:
    """Read the documents of a folder or of one file; also return the number of unsupported files by suffix.

    Hidden files and folders are skipped. A document's id is its path relative to the folder, with slashes.
    Raises DataError if the folder has no supported file.
    """
    root = path if path.is_dir() else path.parent
    files = [path] if path.is_file() else list(walk_files(path, problems))
    read = [file for file in files if file.suffix.lower() in _READERS]
    ignored = Counter(file.suffix.lower() or file.name for file in files if file.suffix.lower() not in _READERS)
    if not read:
        seen = ", ".join(f"{count} {suffix}" for suffix, count in ignored.most_common(10))
        expected = f"a folder with files ending in {', '.join(SUFFIXES)}"
        raise DataError(expected, f"only {seen}" if seen else "no files", path=path)
    found = map_in_processes(_try_to_read, ((file, root) for file in read))
    return gather(problems.each(_raise_error, found), problems), ignored


def walk_files(top: Path, problems: Problems) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, sorted by name; hidden ones are skipped."""

    def note(error: OSError) -> None:
        problems.note(unreadable_error(Path(error.filename), error))

    for current, folders, names in os.walk(top, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(current, name) for name in sorted(names) if not name.startswith("."))


def _try_to_read(given: tuple[Path, Path]) -> RawDocument | DataError:
    """Return the document of a file in a folder, or why there is none."""
    try:
        return _read_document(*given)
    except DataError as error:
        return error


def _raise_error(found: RawDocument | DataError) -> RawDocument:
    if isinstance(found, DataError):
        raise found
    return found


def _read_document(file: Path, root: Path) -> RawDocument:
    item = Item({}, file)
    id = item.unicode(file.relative_to(root).as_posix(), "a file name")
    title, text, metadata = _READERS[file.suffix.lower()](read_bytes(file), file)
    if not text.strip():
        raise item.error("a file with text in it", "none")
    return RawDocument(
        id, title or file.stem, text, {**metadata, "source": id, "modified": _get_modification_date(file)}, item
    )


def _get_modification_date(file: Path) -> str:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
