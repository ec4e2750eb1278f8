"""Ids of documents: the forms in which Unicode writes them, and the characters that they may not have.

An accented letter is one character in normal form C (NFC), as keyboards type it, or a letter and its accent (NFD), as
macOS names files. Both name the same document; what is shown stays as it was written.
"""

import unicodedata
from collections.abc import Container
from urllib.parse import unquote

import regex

ROW_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".xlsx", ".xls", ".ods", ".parquet")
"""Suffixes of files whose rows can be documents, with the ids FILE/ROW."""
_ROW = regex.compile(rf"(?:{'|'.join(map(regex.escape, ROW_SUFFIXES))})/", regex.IGNORECASE)


def spellings(name: str) -> tuple[str, ...]:
    """Return a name as it is written, and in NFC and NFD where these differ from it.

    >>> [len(one) for one in spellings("café.md")], spellings("tea.md")
    ([7, 8], ('tea.md',))
    """
    if name.isascii():
        return (name,)
    return tuple(dict.fromkeys((name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD")))))


def is_row(id: str) -> bool:
    """Return whether an id is that of a row of a table.

    >>> is_row("faq.csv/17"), is_row("faq.csv"), is_row("mail.eml/faq.csv")
    (True, False, False)
    """
    return _ROW.search(id) is not None


def find_spelling(name: str, known: Container[str]) -> str | None:
    """Return which of the spellings of a name is known, as it is written if possible; None if none is."""
    return next((spelling for spelling in spellings(name) if spelling in known), None)


def describe_control(id: str) -> str | None:
    """Return what is wrong with an id that has a control character, such as a line break or NUL; else None.

    Addresses, TREC files and file names do not carry them.
    """
    control = next((letter for letter in id if unicodedata.category(letter) == "Cc"), None)
    return control and f"the control character {control!r} in {id[:80]!r}"


def list_places(id: str) -> list[str]:
    """Return the id of a document with those of the files and folders around it."""
    parts = id.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


_ENDS_FIELDS = regex.compile(r"[\s\x1c-\x1f%]")  # what str.split() splits at, and the mark of an encoded byte


def escape_field(text: str) -> str:
    """Percent-encode white space, which ends a TREC field, and percent signs."""
    return _ENDS_FIELDS.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), text)


def unescape_field(field: str) -> str:
    """Return the text that `escape_field` encoded; signs that no two digits follow stay. Raises UnicodeDecodeError."""
    return unquote(field, errors="strict")
