"""Comparison of documents by text.

Texts are equal if they differ at most in white space and Unicode normal form (NFC). Titles must be equal too,
since a text can refer to its title. A title that is only the name of the document's file, as of a .txt, does
not count.
"""

import unicodedata
from pathlib import PurePosixPath

from ragindex.corpus import SUFFIXES
from ragindex.types import Document


def content(document: Document) -> tuple[str, str]:
    """Return the title and text by which documents are compared: equal for documents of equal text."""
    text = _normalise(document.text)
    return ("" if text and _is_file_name(document) else _normalise(document.title), text)


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _is_file_name(document: Document) -> bool:
    path = PurePosixPath(document.id)
    return path.suffix.lower() in SUFFIXES and path.stem == document.title
