"""Which documents have equal texts.

Texts are equal where they differ in white space and Unicode normal form (NFC) at most. Titles must be equal too, for a
text can speak of its title; a title that is only the name of the document's file, as of a .txt, does not count.
"""

import unicodedata
from pathlib import PurePosixPath

from ragindex.corpus import SUFFIXES
from ragindex.types import Document


def content(document: Document) -> tuple[str, str]:
    """Title and text by which documents are compared: equal for documents of equal text."""
    text = _normalised(document.text)
    return ("" if text and _is_file_name(document) else _normalised(document.title), text)


def _normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _is_file_name(document: Document) -> bool:
    path = PurePosixPath(document.id)
    return path.suffix.lower() in SUFFIXES and path.stem == document.title
