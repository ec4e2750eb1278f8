"""Fields of TREC files, which white space ends: ids and labels are percent-encoded where they contain some."""

from urllib.parse import unquote

import regex

_ENDS_FIELDS = regex.compile(r"[\s\x1c-\x1f%]")  # what str.split() splits at, and the mark of an encoded byte


def escape_field(text: str) -> str:
    """Percent-encode white space, which ends a TREC field, and percent signs."""
    return _ENDS_FIELDS.sub(lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode()), text)


def unescape_field(field: str) -> str:
    """Return the text that `escape_field` encoded; signs that no two digits follow stay. Raises UnicodeDecodeError."""
    return unquote(field, errors="strict")
