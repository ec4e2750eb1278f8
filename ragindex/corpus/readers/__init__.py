"""Readers of local files, by suffix."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragindex.corpus.readers.by_suffix import DATA_SUFFIXES, DOCUMENT_SUFFIXES, OCR_READERS, READERS, name_reader
    from ragindex.corpus.readers.content import FileContent

__all__ = ["DATA_SUFFIXES", "DOCUMENT_SUFFIXES", "OCR_READERS", "READERS", "FileContent", "name_reader"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a name on first use: a program that reads no file starts sooner."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = "content" if name == "FileContent" else "by_suffix"
        return getattr(import_module(f"{__name__}.{module}"), name)
