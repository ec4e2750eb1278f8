"""Readers for documents, and chunking into passages."""

from ragindex.corpus.chunking import chunk, passage_text
from ragindex.corpus.corpus import Corpus, content_id
from ragindex.corpus.formats import FORMATS, read, read_selected, recognise_format
from ragindex.corpus.left_out import LeftOut, describe_encodings, describe_ignored, describe_left_out
from ragindex.corpus.local_files import SUFFIXES, FileSelection
from ragindex.types import Chunking

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "Chunking",
    "Corpus",
    "FileSelection",
    "LeftOut",
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
