"""Reading documents, and cutting them into passages."""

from ragindex.corpus.chunking import Cutting, cut, passage_text
from ragindex.corpus.corpus import Corpus, content_id
from ragindex.corpus.formats import FORMATS, read, recognise
from ragindex.corpus.local_files import SUFFIXES

__all__ = ["FORMATS", "SUFFIXES", "Corpus", "Cutting", "content_id", "cut", "passage_text", "read", "recognise"]
