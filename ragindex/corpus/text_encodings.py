"""Decoding of text files: UTF-8, what a byte order mark or an HTML page declares, or the likeliest other encoding."""

import codecs
from pathlib import Path

import regex
from charset_normalizer import from_bytes

from ragindex.corpus.json_reader import decode_utf8

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


def decode_text(raw: bytes, path: Path) -> tuple[str, str]:
    """Return a text and its encoding, "" for UTF-8. Raises DataError if it is in no encoding that can be told."""
    marked = next((name for mark, name in _MARKS if raw.startswith(mark)), "")
    try:
        if marked:
            return raw.decode(marked), marked
        return raw.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        guessed = "" if marked or b"\0" in raw else _guess(raw)
    return (raw.decode(guessed, "replace"), guessed) if guessed else (decode_utf8(raw, path), "")


def decode_page(raw: bytes, path: Path) -> tuple[str, str]:
    """Return an HTML page and its encoding as `decode_text` does, in the encoding that it declares if it can be."""
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
