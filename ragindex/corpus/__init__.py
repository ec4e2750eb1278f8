"""Readers for documents, and chunking into passages."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragindex.corpus.chunking import chunk, passage_text
    from ragindex.corpus.corpus import (
        Corpus,
        content_id,
        describe_encodings,
        describe_ignored,
        describe_left_out,
    )
    from ragindex.corpus.file_selection import FileSelection
    from ragindex.corpus.formats import FORMATS, read, read_selected, recognise_format
    from ragindex.corpus.json_reader import LeftOut
    from ragindex.corpus.local_files import SUFFIXES
    from ragindex.corpus.readers.rows import Rows
    from ragindex.types import Chunking

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "Chunking",
    "Corpus",
    "FileSelection",
    "LeftOut",
    "Rows",
    "chunk",
    "content_id",
    "describe_encodings",
    "describe_ignored",
    "describe_left_out",
    "passage_text",
    "read",
    "read_selected",
    "recognise_format",
]

_LAZY = {
    **dict.fromkeys(("chunk", "passage_text"), "ragindex.corpus.chunking"),
    **dict.fromkeys(
        ("Corpus", "content_id", "describe_encodings", "describe_ignored", "describe_left_out"),
        "ragindex.corpus.corpus",
    ),
    **dict.fromkeys(("FORMATS", "read", "read_selected", "recognise_format"), "ragindex.corpus.formats"),
    "LeftOut": "ragindex.corpus.json_reader",
    "FileSelection": "ragindex.corpus.file_selection",
    "SUFFIXES": "ragindex.corpus.local_files",
    "Chunking": "ragindex.types",
    "Rows": "ragindex.corpus.readers.rows",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a name on first use: the process that reads files starts in a third of the time."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LAZY[name]), name)
