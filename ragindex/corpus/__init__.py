"""Reading documents, and cutting them into passages."""

from ragindex.corpus.collecting import Corpus, content_id
from ragindex.corpus.cutting import Cutting, cut, passage_text
from ragindex.corpus.formats import FORMATS, read, recognise
from ragindex.corpus.own_documents import SUFFIXES

__all__ = ["FORMATS", "SUFFIXES", "Corpus", "Cutting", "content_id", "cut", "passage_text", "read", "recognise"]
