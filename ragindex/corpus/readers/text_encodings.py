"""Decoding of text files: UTF-8, what a byte order mark or an HTML page declares, or the likeliest other encoding.

Binary files, and texts in no encoding that is likely enough, are refused.
"""

import codecs
import shlex
from collections import Counter
from pathlib import Path

import regex
from charset_normalizer import from_bytes

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
_MOST_DISORDER = 0.1  # charset-normalizer's measure: texts in the right encoding have less than 0.05
_MOST_CONTROLS = 0.05  # share of all bytes; of compressed data they are a tenth
_CONTROLS = bytes(set(range(32)) - set(b"\b\t\n\v\f\r\x1b"))
_DAMAGED = "utf-8 with damaged bytes"
_REMEDY = "Save it as UTF-8, or give this file alone, with its encoding: ragindex index"
_GUESSED = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "iso8859_2", "koi8_r"),
    *("shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"),
)


def check_encoding(name: str | None) -> str | None:
    """Return the name of a text encoding as Python writes it. Raises UsageError if there is none of this name."""
    if name is None:
        return None
    try:
        codec = codecs.lookup(name)
        "".encode(codec.name)
    except LookupError as error:
        raise UsageError(f"Unknown encoding {name!r}. Examples: utf-8, cp1252, latin-1, shift_jis, gb18030.") from error
    return codec.name


def name_encoding(encoding: str) -> dict[str, MetadataValue]:
    """Return the metadata that names an encoding other than UTF-8 (""): none for UTF-8."""
    return {ENCODING: encoding} if encoding else {}


def decode_text(raw: bytes, path: Path, encoding: str | None = None) -> tuple[str, str]:
    """Return a text and its encoding, "" for UTF-8; `encoding` is used where no byte order mark says another.

    Raises DataError if the text is not in `encoding`, or, without one, in no encoding that can be detected.
    """
    marked = next((name for mark, name in _MARKS if raw.startswith(mark)), "")
    if marked or encoding is not None:
        return _decode_as(raw, marked or encoding or "", path)
    controls = (len(raw) - len(raw.translate(None, _CONTROLS))) / max(1, len(raw))
    try:
        if controls <= _MOST_CONTROLS:
            return raw.decode("utf-8-sig"), ""
        place = 0
    except UnicodeDecodeError as error:
        place = error.start
    detected = _find_wide(raw)
    if not detected and controls > _MOST_CONTROLS:
        raise DataError("a text", f"binary data: {controls:.0%} of the bytes are control characters", path=path)
    detected = detected or _find_damaged(raw) or _guess(raw)
    if not detected:
        remedy = f"{_REMEDY} {shlex.quote(str(path))} --encoding NAME"
        reason = f"the byte 0x{raw[place]:02x}, and no other encoding is likely. {remedy}"
        raise DataError("text in UTF-8", reason, path=path, line=1 + raw.count(b"\n", 0, place))
    return raw.decode("utf-8-sig" if detected == _DAMAGED else detected, "replace"), detected


def _find_wide(raw: bytes) -> str:
    """Return the encoding of a text in UTF-16 or UTF-32 that has no byte order mark; "" if it is none.

    Each space and ASCII character has a zero byte, which stands at the same place in all of them. Where the bytes could
    be UTF-8 as well, most characters are of one script, whose characters have the same first byte.
    """
    sample = raw[:_GUESSED_FROM]
    zeros = [sample[place::4].count(0) for place in range(4)]
    even, odd = zeros[0] + zeros[2], zeros[1] + zeros[3]
    wider = min(even, odd) * 8 > len(sample)
    big_endian = zeros[0] > zeros[3] if wider else even > odd
    encoding = f"utf-{32 if wider else 16}-{'be' if big_endian else 'le'}"
    text = _try_decoding(raw, encoding) if even + odd else None
    if text is None or "\0" in text:
        return ""
    beginning = text[:_GUESSED_FROM]
    printable = sum(character.isprintable() or character.isspace() for character in beginning)
    first_bytes = Counter(sample[0 if big_endian else 1 :: 2])
    one_script = max(first_bytes.values()) * 4 > len(sample) or _try_decoding(raw, "utf-8") is None
    return encoding if one_script and printable > 0.99 * len(beginning) else ""


def _try_decoding(raw: bytes, encoding: str) -> str | None:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None


def _find_damaged(raw: bytes) -> str:
    """Return _DAMAGED for a text with at least ten sequences of UTF-8 for each byte that is of none, else ""."""
    text = raw.decode("utf-8", "replace")
    damaged = text.count("\N{REPLACEMENT CHARACTER}")
    return _DAMAGED if sum(map(str.isascii, text)) + 11 * damaged <= len(text) else ""


def _decode_as(raw: bytes, encoding: str, path: Path) -> tuple[str, str]:
    try:
        return raw.decode("utf-8-sig" if encoding == "utf-8" else encoding), "" if encoding == "utf-8" else encoding
    except UnicodeDecodeError as error:
        place = f"the byte 0x{raw[error.start]:02x} at position {error.start}"
        raise DataError(f"a text in the encoding {encoding}", place, path=path) from error


def decode_page(raw: bytes, path: Path, encoding: str | None = None) -> tuple[str, str]:
    """Return an HTML page and its encoding as `decode_text` does, in the encoding that it declares if it can be."""
    if encoding is not None:
        return decode_text(raw, path, encoding)
    match = _DECLARED.search(raw[:_DECLARED_WITHIN])
    declared = _find_codec(match[1].decode("ascii", "replace")) if match else ""
    if declared and not any(raw.startswith(mark) for mark, _ in _MARKS):
        text = _try_decoding(raw, declared)
        if text is not None:  # else it declares what it is not
            return text, "" if declared == "utf-8" else declared
    return decode_text(raw, path)


def _find_codec(name: str) -> str:
    """Return the name of a text encoding that extends ASCII, "" if there is none of this name."""
    try:
        codec = codecs.lookup(name)
        return _WINDOWS.get(codec.name, codec.name) if b"<a>".decode(codec.name) == "<a>" else ""
    except (LookupError, UnicodeDecodeError):
        return ""


def _guess(raw: bytes) -> str:
    """Return the likeliest encoding, "" if none is; Windows' Western European one where others are as likely."""
    guesses = from_bytes(raw[:_GUESSED_FROM], threshold=_MOST_DISORDER, cp_isolation=list(_GUESSED))
    best = guesses.best()
    if best is None:
        return ""
    as_likely = (guess for guess in guesses if (guess.chaos, guess.coherence) == (best.chaos, best.coherence))
    return "cp1252" if any("cp1252" in guess.could_be_from_charset for guess in as_likely) else best.encoding
