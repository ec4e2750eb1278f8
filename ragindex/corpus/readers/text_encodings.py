"""Decoding of text files: UTF-8, what a byte order mark or an HTML page declares, or the likeliest other encoding."""

import codecs
from pathlib import Path

import regex
from charset_normalizer import from_bytes

from ragindex.corpus.json_reader import decode_utf8
from ragindex.errors import DataError, UsageError
from ragindex.types import MetadataValue

ENCODING = "text_encoding"
"""Metadata key of a document's encoding, where it is not UTF-8."""
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED_WITHIN = 1_024  # bytes; html.spec.whatwg.org, section 13.2.3.2
_DECLARED = regex.compile(rb"<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]+)", regex.IGNORECASE)
_WINDOWS = {"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254"}  # what browsers take these names for
_GUESSED_FROM = 100_000  # bytes
_GUESSED = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "iso8859_2", "koi8_r"),
    *("shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"),
)


def check_encoding(name: str | None) -> str | None:
    """Return the name of a text encoding as Python writes it. Raises UsageError if there is none of this name."""
    if name is None:
        return None
    try:
        found = codecs.lookup(name)
        "".encode(found.name)
    except LookupError as error:
        raise UsageError(f"Unknown encoding {name!r}. Examples: utf-8, cp1252, latin-1, shift_jis, gb18030.") from error
    return found.name


def name_encoding(encoding: str) -> dict[str, MetadataValue]:
    """Return the metadata that names an encoding other than UTF-8 (""): none for UTF-8."""
    return {ENCODING: encoding} if encoding else {}


def decode_text(raw: bytes, path: Path, encoding: str | None = None) -> tuple[str, str]:
    """Return a text and its encoding, "" for UTF-8; `encoding` is used where no byte order mark says another.

    Raises DataError if the text is not in `encoding`, or, without one, in no encoding that can be detected.
    """
    marked = next((name for mark, name in _MARKS if raw.startswith(mark)), "")
    try:
        if marked:
            return raw.decode(marked), marked
        if encoding is not None:
            return _decode_as(raw, encoding, path)
        return raw.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        guessed = "" if marked or b"\0" in raw else _guess(raw)
    return (raw.decode(guessed, "replace"), guessed) if guessed else (decode_utf8(raw, path), "")


def _decode_as(raw: bytes, encoding: str, path: Path) -> tuple[str, str]:
    try:
        return raw.decode("utf-8-sig" if encoding == "utf-8" else encoding), "" if encoding == "utf-8" else encoding
    except UnicodeDecodeError as error:
        found = f"the byte 0x{raw[error.start]:02x} at position {error.start}"
        raise DataError(f"a text in the encoding {encoding}", found, path=path) from error


def decode_page(raw: bytes, path: Path, encoding: str | None = None) -> tuple[str, str]:
    """Return an HTML page and its encoding as `decode_text` does, in the encoding that it declares if it can be."""
    if encoding is not None:
        return decode_text(raw, path, encoding)
    found = _DECLARED.search(raw[:_DECLARED_WITHIN])
    declared = _find_codec(found[1].decode("ascii", "replace")) if found else ""
    if declared and not any(raw.startswith(mark) for mark, _ in _MARKS):
        try:
            return raw.decode(declared), "" if declared == "utf-8" else declared
        except UnicodeDecodeError:
            pass  # it declares what it is not
    return decode_text(raw, path)


def _find_codec(name: str) -> str:
    """Return the name of a text encoding that extends ASCII, "" if there is none of this name."""
    try:
        found = codecs.lookup(name)
        return _WINDOWS.get(found.name, found.name) if b"<a>".decode(found.name) == "<a>" else ""
    except (LookupError, UnicodeDecodeError):
        return ""


def _guess(raw: bytes) -> str:
    """Return the likeliest encoding, "" if none is; Windows' Western European one where others are as likely."""
    found = from_bytes(raw[:_GUESSED_FROM], cp_isolation=list(_GUESSED))
    best = found.best()
    if best is None:
        return ""
    as_likely = (one for one in found if (one.chaos, one.coherence) == (best.chaos, best.coherence))
    return "cp1252" if any("cp1252" in one.could_be_from_charset for one in as_likely) else best.encoding
