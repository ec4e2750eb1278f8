"""Headings, pages, blocks and passages point at the text that they are of: a property of all readers."""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from written_documents import FORMATS, KINDS, Format, Kind, Page, limit_pages, number_words

from examples import examples
from ragindex.corpus import chunk
from ragindex.corpus.chunking import section_at
from ragindex.corpus.readers import READERS, FileContent
from ragindex.types import Chunking, Document

WORD = regex.compile(r"wa\d{3}")
MARKUP = regex.compile(r"(?:[#=*]+ |\\\w+\{)?")
"""What stands before a heading in texts that keep their markup."""
_SHAPES = st.lists(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 3)), max_size=5), min_size=1, max_size=3)


def test_all_readers_are_covered() -> None:
    """Only messages of Outlook cannot be written here; their text is that of other mail."""
    assert {READERS[suffix] for suffix in FORMATS} == {*READERS.values()} - {READERS[".msg"]}


def list_places(pages: Sequence[Page], form: Format) -> Iterator[tuple[str, tuple[str, ...], int | None]]:
    """Yield each word with its headings and its page."""
    path = list[tuple[int, str]]()
    for number, page in enumerate(pages, 1):
        path = [] if form.titled else path
        for element in page:
            if element.kind == "heading":
                path = [*(above for above in path if above[0] < element.level), (element.level, element.texts[0])]
            for word in chain.from_iterable(element.lines):
                yield word, tuple(text for _, text in path), number if form.paged else None


def check(content: FileContent, pages: Sequence[Page], form: Format) -> None:
    places = {word: (headings, page) for word, headings, page in list_places(pages, form)}
    assert WORD.findall(content.text) == list(places)
    for section in content.sections:
        heading, place = section.headings[-1:], MARKUP.match(content.text, section.start)
        assert place is not None
        begun = heading and not content.text.startswith(heading[0], place.end())
        assert not begun or form.paged  # a page begins below the heading of the one before
    assert [element.start for element in content.sections] == sorted(element.start for element in content.sections)
    for word in WORD.finditer(content.text):
        section = section_at(content.sections, word.start())
        assert (section.headings, section.page) == places[word[0]]
    numbers = [element.page or 0 for element in content.sections]
    assert numbers == sorted(numbers)
    assert all(end <= start for (_, end), (start, _) in pairwise(content.blocks))
    blocks = [content.text[start:end] for start, end in content.blocks]
    assert blocks == [text.strip() for text in blocks]
    expected = [
        [*chain.from_iterable(element.lines)] for page in pages for element in page if element.kind in form.blocks
    ]
    assert not form.blocks or [WORD.findall(text) for text in blocks] == expected
    document = Document("d", "t", content.text, {}, content.sections, content.blocks)
    for chunking in (Chunking(4, 0, "headings"), Chunking(40, 10, "characters"), Chunking(5, 1, "words")):
        for passage in chunk(document, chunking):
            own = content.text[passage.start : passage.end]
            assert passage.text == content.text[slice(*passage.header)] + own
            word, page = WORD.search(own), section_at(content.sections, passage.start).page
            if word is not None and "\n" not in own[: word.start()]:  # where it begins with the end of other markup
                assert (passage.headings, page) == places[word[0]]


@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=examples(6))
@given(shape=_SHAPES)
def test_headings_pages_blocks_and_passages_stand_where_they_say(
    suffix: str, shape: list[list[tuple[Kind, int]]]
) -> None:
    form = FORMATS[suffix]
    pages = limit_pages(number_words(shape), form)
    if not any(pages):
        return
    written = form.write(pages)
    raw = written if isinstance(written, bytes) else written.encode()
    content = READERS[suffix](raw, Path(f"a{suffix}"), None)
    if content.inner:  # a mailbox
        for (_, mail), page in zip(content.inner, pages, strict=True):
            check(mail, [page], form)
    else:
        check(content, pages, form)
