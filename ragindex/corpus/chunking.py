"""Chunking documents into passages."""

from collections.abc import Iterator
from dataclasses import dataclass

from semantic_text_splitter import TextSplitter

from ragindex.errors import DataError, UsageError
from ragindex.types import Document, Passage

# The splitter takes quadratic time on text without sentence ends, so it only gets about this many passages at a time.
_PASSAGES_PER_WINDOW = 16
_MIN_WINDOW = 4096


@dataclass(frozen=True, slots=True)
class Chunking:
    """Split documents into passages of at most `size` characters, up to `overlap` of them shared with the one before.

    Example:
        index = ragindex.open("another-index", chunking=ragindex.Chunking(size=800, overlap=100), create=True)

    Raises UsageError unless 0 < size and 0 <= overlap < size.
    """

    size: int = 1200
    overlap: int = 200

    def __post_init__(self) -> None:
        if type(self.size) is not int or self.size < 1:
            raise UsageError(f"The 'size' of a passage must be an int of at least 1. Got {self.size!r} instead.")
        if type(self.overlap) is not int or not 0 <= self.overlap < self.size:
            raise UsageError(
                f"The 'overlap' of passages must be an int in the range [0, {self.size}), the size of a passage "
                f"excluded. Got {self.overlap!r} instead."
            )


def passage_text(title: str, text: str) -> str:
    """Return the text to index and embed: title, newline, text; if one of them is blank, the other alone."""
    if not title.strip():
        return text
    return f"{title}\n{text}" if text.strip() else title


def chunk(document: Document, chunking: Chunking | None) -> list[Passage]:
    """Split a document into passages, in order; `document.text[p.start:p.end] == p.text` for each passage `p`.

    Without `chunking` the document is one passage with the document's id. Otherwise the ids are `ID#0`, `ID#1`, …, and
    passages end at the end of a paragraph, sentence or word if possible. Only white space is left out. A blank text
    gives one empty passage, which is indexed by its title. Raises DataError if UTF-8 cannot encode the document.
    """
    _require_unicode(document)
    if chunking is None:
        return [_make_passage(document, document.id, 0, len(document.text))]
    spans = list(_find_spans(document.text, chunking)) or [(0, 0)]
    return [_make_passage(document, f"{document.id}#{number}", *span) for number, span in enumerate(spans)]


def _require_unicode(document: Document) -> None:
    for name, value in (("id", document.id), ("title", document.title), ("text", document.text)):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                "text that UTF-8 can hold",
                f"a lone surrogate at character {error.start + 1} of the {name} of document {document.id!r}",
            ) from error


def _make_passage(document: Document, id: str, start: int, end: int) -> Passage:
    return Passage(id, document.id, document.title, document.text[start:end], start, end, document.metadata)


def _find_spans(text: str, chunking: Chunking) -> Iterator[tuple[int, int]]:
    splitter = TextSplitter(chunking.size, overlap=chunking.overlap)
    window = max(_PASSAGES_PER_WINDOW * chunking.size, _MIN_WINDOW)
    at = end = 0
    while at < len(text):
        found = splitter.chunk_indices(text[at : at + window])
        following = at + window
        if following < len(text) and found and found[-1][0] > 0:
            following = at + found.pop()[0]  # the window may have cut its last passage, so it is split again
        for start, passage in found:
            if at + start + len(passage) > end:  # else it lies wholly inside the one before
                end = at + start + len(passage)
                yield at + start, end
        at = following
