"""The archives of XML that files of Office, OpenDocument files and books are, and what is wrong with damaged files."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import regex

from ragindex.errors import DataError

FAULTS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError)
"""What libraries may raise for a damaged file, in addition to their own errors."""
ARCHIVE_FAULTS = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, RuntimeError, *FAULTS)
"""What reading a damaged archive may raise."""
OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")
"""What the files of Office before 2007 begin with."""
_IN_MEMORY = regex.compile(r"'?<_io\.BytesIO object at 0x[0-9a-f]+>'? ?")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_MOST_BYTES, _MOST_UNPACKED = 200_000_000, 1_000_000_000  # of a part, and of all


def open_archive(raw: bytes) -> zipfile.ZipFile:
    """Open an archive. Raises one of ARCHIVE_FAULTS."""
    archive = zipfile.ZipFile(BytesIO(raw))
    unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > _MOST_UNPACKED:
        raise ValueError(f"it unpacks to {unpacked:,} bytes, which is more than {_MOST_UNPACKED:,}")
    return archive


def read_part(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a part of an archive; empty if it is missing, damaged or too large."""
    try:
        return archive.read(name) if archive.getinfo(name).file_size <= _MOST_BYTES else b""
    except ARCHIVE_FAULTS:
        return b""


def read_parts(raw: bytes, *names: str) -> list[bytes]:
    """Return parts of a file as `read_part` does; all are empty if it is no archive."""
    try:
        with open_archive(raw) as archive:
            return [read_part(archive, name) for name in names]
    except ARCHIVE_FAULTS:
        return [b""] * len(names)


def parse_xml(part: bytes) -> ElementTree.Element:
    """Return the tree of a part; of an empty or missing one an element without content. Raises ParseError."""
    return ElementTree.fromstring(part or b"<none/>")  # noqa: S314 - expat bounds how entities grow


def parse_part(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    """Return the tree of a part of an archive; an element without content if it is missing, damaged or too large."""
    try:
        return parse_xml(read_part(archive, name))
    except ElementTree.ParseError:
        return parse_xml(b"")


def get_attribute(node: ElementTree.Element, name: str) -> str:
    """Return an attribute by its name without prefix; empty if there is none."""
    return next((value for key, value in node.items() if key.rpartition("}")[2] == name), "")


def get_count(node: ElementTree.Element, name: str) -> int:
    """Return an attribute that is a number; 1 if there is none."""
    number = get_attribute(node, name)
    return int(number) if number.isdecimal() else 1


@contextmanager
def name_panics() -> Iterator[None]:
    """Raise ValueError where a library in Rust panics: its own error is no Exception, and would end the process."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(str(error)) from error


@contextmanager
def explain_damage(expected: str, raw: bytes, path: Path, *faults: type[Exception]) -> Iterator[None]:
    """Raise DataError for what a library raises for a damaged file: `faults`, or what is raised for an archive."""
    expected_faults: tuple[type[Exception], ...] = (*faults, *ARCHIVE_FAULTS)
    try:
        with name_panics():
            yield
    except expected_faults as error:
        raise DataError(expected, _describe_damage(raw, error), path=path) from error


def _describe_damage(raw: bytes, error: Exception) -> str:
    if not raw:
        return "an empty one"
    if _ENCRYPTED in raw or "encrypted" in str(error):
        return "one that a password protects; save it without one"
    if not raw.startswith((b"PK", OLD_OFFICE, b"PAR1")):
        return "another kind of file"
    if isinstance(error, RecursionError):
        return "one that is nested too deeply"
    if "detect file format" in str(error):  # calamine, for an encrypted .xls file too
        return "a damaged one, or one that a password protects"
    return f"a damaged one ({describe_fault(error)})"


def describe_fault(error: Exception) -> str:
    """Return a library's message on one line, without the address of the file in memory, which differs each time."""
    return " ".join(_IN_MEMORY.sub("", str(error)).split())[:200].rstrip(".") or type(error).__name__
