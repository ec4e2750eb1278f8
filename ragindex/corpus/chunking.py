"""Chunking documents into passages."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

import regex
from semantic_text_splitter import TextSplitter

from ragindex.corpus import chunk_spans
from ragindex.corpus.chunk_spans import TokenSpans, by_tokens
from ragindex.errors import DataError, UsageError
from ragindex.types import Chunking, Document, Passage, Section, Span

# The splitter takes quadratic time on text without sentence ends, so it only gets about this many passages at a time.
_PASSAGES_PER_WINDOW = 16
_MIN_WINDOW = 4096
_MARK_AND_NUMBER = regex.compile(r"((?:[a-z]+[0-9]*(?:\+[0-9]+)?\.)?)([0-9]{1,18})")


def passage_text(title: str, text: str) -> str:
    """Return the text to index and embed: title, newline, text; if one of them is blank, the other alone."""
    if not title.strip():
        return text
    return f"{title}\n{text}" if text.strip() else title


def id_mark(chunking: Chunking | None, *, of_index: bool = True) -> str:
    """Return what stands between a document's id and the number of a passage; "" if a document is one passage.

    Passages of the index's own chunking are `ID#0`, `ID#1`, …; those of others, such as 128 words with 16 of them
    shared, `ID#words128+16.0`, so that no two passages of an index have the same id.
    """
    if of_index:
        return "" if chunking is None else "#"
    if chunking is None:
        raise UsageError("A part's chunking must be given.")
    overlap = f"+{chunking.overlap}" if chunking.overlap else ""
    return f"#{chunking.by}{chunking.size or ''}{overlap}."


def split_passage_id(id: str) -> tuple[str, str, int] | None:
    """Return the document, what stands before the number ("#", "#words128+16."), and the number of a passage's id.

    None if the id has no number: a document that is one passage. A document's own id may look like that of a passage.
    """
    document, hash_sign, rest = id.rpartition("#")
    match = _MARK_AND_NUMBER.fullmatch(rest) if hash_sign else None
    return (document, f"#{match[1]}", int(match[2])) if match else None


def chunk(
    document: Document, chunking: Chunking | None, mark: str | None = None, tokens: TokenSpans | None = None
) -> list[Passage]:
    """Split a document into passages, in order; the text of each passage ends with `document.text[p.start:p.end]`.

    A passage that starts inside a table has its header before that, `document.text[p.header[0]:p.header[1]]`, unless
    the header has more than half of the size of a passage. Sizes are those without it.

    Without `chunking` the document is one passage with the document's id. Otherwise the ids are `ID#0`, `ID#1`, …, or
    with another `mark` than "#". Only white space is left out. A blank text gives one empty passage, which is indexed
    by its title. `tokens` is needed by `tokens`. Raises DataError if UTF-8 cannot encode the document.
    """
    for name, value in (("id", document.id), ("title", document.title), ("text", document.text)):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                "text that UTF-8 can hold",
                f"a lone surrogate at character {error.start + 1} of the {name} of document {document.id!r}",
            ) from error
    if chunking is None:
        return [_make_passage(document, document.id, 0, len(document.text))]
    spans = list(_find_spans(document, chunking, tokens)) or [(0, 0)]
    tables = _find_tables(document, chunking, tokens)
    mark = "#" if mark is None else mark
    return [
        _make_passage(document, f"{document.id}{mark}{number}", *span, _find_header(tables, span[0]))
        for number, span in enumerate(spans)
    ]


def section_at(sections: Sequence[Section], start: int) -> Section:
    """Return the section that the character `start` is in; one without headings before the first."""
    at = bisect_right(sections, start, key=lambda section: section.start) - 1
    return sections[at] if at >= 0 else Section(0)


def pages_within(sections: Sequence[Section], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return where each page begins that begins after the character `start` and before `end`, with its number."""
    page, pages = section_at(sections, start).page, list[tuple[int, int]]()
    for section in sections[bisect_right(sections, start, key=lambda section: section.start) :]:
        if section.start >= end:
            break
        if section.page is not None and section.page != page:
            page = section.page
            pages.append((section.start, page))
    return tuple(pages)


def headings_within(sections: Sequence[Section], start: int, end: int) -> tuple[str, ...]:
    """Return the innermost heading of each section that begins in the characters `start` to `end`.

    A page that begins under the same headings as the section before it has none of its own.
    """
    before = ((), *(section.headings for section in sections))
    return tuple(
        section.headings[-1]
        for section, previous in zip(sections, before, strict=False)
        if start <= section.start < end and section.headings and section.headings != previous
    )


def _make_passage(document: Document, id: str, start: int, end: int, header: Span = (0, 0)) -> Passage:
    headings = section_at(document.sections, start).headings
    text = document.text[slice(*header)] + document.text[start:end]
    return Passage(id, document.id, document.title, text, start, end, document.metadata, headings, header)


def _find_tables(document: Document, chunking: Chunking, tokens: TokenSpans | None) -> list[tuple[Span, int]]:
    """Return the tables whose headers are short enough to be repeated, and where the rows of each begin."""
    text, size = document.text, chunking.size
    tables = [(block, rows) for block in document.blocks if (rows := chunk_spans.find_rows(text, block))]
    if size is None:
        return tables
    units: Callable[[str], Sequence[object]] = chunk_spans.word_spans
    if chunking.by == "characters":
        units = str
    elif chunking.by == "tokens" and tokens is not None:
        units = tokens
    return [(block, rows) for block, rows in tables if 2 * len(units(text[block[0] : rows])) <= size]


def _find_header(tables: Sequence[tuple[Span, int]], start: int) -> Span:
    """Return the header, or what of it stands before, of the table that the character `start` is in; (0, 0) if none."""
    at = bisect_left(tables, start, key=lambda table: table[0][0]) - 1
    if at < 0 or start >= tables[at][0][1]:
        return 0, 0
    (first, _), rows = tables[at]
    return first, min(start, rows)


def _find_spans(document: Document, chunking: Chunking, tokens: TokenSpans | None) -> Iterator[Span]:
    text, size = document.text, chunking.size or 0
    if chunking.by == "characters":
        yield from _split_by_characters(text, size, chunking.overlap)
    elif chunking.by == "tokens":
        if tokens is None:
            raise UsageError("Passages by tokens need an encoder, so they cannot be an index's own. Use: by=words")
        yield from by_tokens(text, tokens, size, chunking.overlap)
    elif chunking.by == "words":
        yield from chunk_spans.windows(text, chunk_spans.word_spans(text), size, chunking.overlap)
    elif chunking.by == "sentences":
        yield from chunk_spans.by_sentences(text, size, chunking.overlap, document.blocks)
    elif chunking.by == "headings":
        yield from chunk_spans.by_headings(text, document.sections, document.blocks, size)
    elif chunking.by == "sections":
        yield from chunk_spans.by_sections(text, document.sections)
    else:
        yield from chunk_spans.strip([(0, len(text))], text)


def _split_by_characters(text: str, size: int, overlap: int) -> Iterator[Span]:
    splitter = TextSplitter(size, overlap=overlap)
    window = max(_PASSAGES_PER_WINDOW * size, _MIN_WINDOW)
    at = end = 0
    while at < len(text):
        passages = splitter.chunk_indices(text[at : at + window])
        following = at + window
        if following < len(text) and passages and passages[-1][0] > 0:
            following = at + passages.pop()[0]  # the window may have cut its last passage, so it is split again
        for start, passage in passages:
            if at + start + len(passage) > end:  # else it lies wholly inside the one before
                end = at + start + len(passage)
                yield at + start, end
        at = following
