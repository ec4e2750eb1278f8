"""Documents of one's own: text, Markdown, HTML and PDF files, alone or in a folder."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import regex

from ragindex.corpus.corpus import Gathered, RawDocument, gather
from ragindex.corpus.html_reader import read_page
from ragindex.corpus.json_reader import Item, Problems, decode_utf8, read_bytes, unreadable_error
from ragindex.distribution import require_module
from ragindex.errors import DataError
from ragindex.types import MetadataValue

_HEADING = regex.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*")
_UNDERLINE = regex.compile(r" {0,3}=+[ \t]*")
_FENCE = regex.compile(r" {0,3}(```|~~~)")
# A damaged PDF makes pypdf fail in any of these ways, beside its own errors.
_PDF_FAULTS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError)

_Read = tuple[str, str, dict[str, MetadataValue]]  # title (blank: none), text, metadata


def _plain(raw: bytes, path: Path) -> _Read:
    return "", _lines(decode_utf8(raw, path)), {}


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _markdown(raw: bytes, path: Path) -> _Read:
    text = _lines(decode_utf8(raw, path))
    return _first_heading(text), text, {}


def _first_heading(text: str) -> str:
    fence, before = None, ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark is not None and fence in (None, mark[1]):
            fence = mark[1] if fence is None else None
        elif fence is None and (heading := _HEADING.fullmatch(line)) and heading[1].strip():
            return str(heading[1]).strip()
        elif fence is None and before.strip() and _UNDERLINE.fullmatch(line):
            return before.strip()
        before = line
    return ""


def _html(raw: bytes, path: Path) -> _Read:
    found = read_page(decode_utf8(raw, path))
    if not found.text and found.unclosed:
        raise DataError("a page with text in its body", f"none, for {found.unclosed} is never closed", path=path)
    return found.title, found.text, {}


def _pdf(raw: bytes, path: Path) -> _Read:
    pypdf = require_module("pypdf", "pypdf", f"Reading {path.name}")
    try:
        reader = pypdf.PdfReader(BytesIO(raw))
        text = "\n\n".join(page.extract_text() for page in reader.pages)
        title = (reader.metadata.title if reader.metadata else None) or ""
        pages = len(reader.pages)
    except (pypdf.errors.PyPdfError, pypdf.errors.DependencyError, *_PDF_FAULTS) as error:
        raise DataError("a PDF file", str(error) or type(error).__name__, path=path) from error
    return _unicode(str(title)).strip(), _unicode(text), {"pages": pages}


def _unicode(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_READERS: Mapping[str, Callable[[bytes, Path], _Read]] = {
    ".txt": _plain,
    ".md": _markdown,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
}
SUFFIXES = tuple(_READERS)


def read_folder(path: Path, problems: Problems) -> tuple[Gathered, Mapping[str, int]]:
    """The files of a folder, or one file, and the number of files that no reader takes, by suffix.

    Hidden files and folders are passed over. A document's id is its path in the folder, with slashes.
    """
    root = path if path.is_dir() else path.parent
    files = [path] if path.is_file() else list(_walk(path, problems))
    read = [file for file in files if file.suffix.lower() in _READERS]
    ignored = Counter(file.suffix.lower() or file.name for file in files if file.suffix.lower() not in _READERS)
    if not read:
        seen = ", ".join(f"{count} {suffix}" for suffix, count in ignored.most_common(10))
        expected = f"a folder with files ending in {', '.join(SUFFIXES)}"
        raise DataError(expected, f"only {seen}" if seen else "no files", path=path)
    return gather(problems.each(lambda file: _document(file, root), read), problems), ignored


def _walk(top: Path, problems: Problems) -> Iterator[Path]:
    def note(error: OSError) -> None:
        problems.note(unreadable_error(Path(error.filename), error))

    for current, folders, names in os.walk(top, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(current, name) for name in sorted(names) if not name.startswith("."))


def _document(file: Path, root: Path) -> RawDocument:
    item = Item({}, file)
    id = item.unicode(file.relative_to(root).as_posix(), "a file name")
    title, text, metadata = _READERS[file.suffix.lower()](read_bytes(file), file)
    if not text.strip():
        raise item.error("a file with text in it", "none")
    return RawDocument(id, title or file.stem, text, {"source": id, "modified": _modified(file), **metadata}, item)


def _modified(file: Path) -> str:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
