"""Chunking documents into passages."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from semantic_text_splitter import TextSplitter

from ragindex.corpus import Chunking, chunk, passage_text
from ragindex.corpus.chunking import headings_within, pages_within
from ragindex.errors import DataError, UsageError
from ragindex.types import Document, Passage, Section


@given(st.text(), st.text())
def test_without_cutting_a_document_is_one_passage(title: str, text: str) -> None:
    document = Document("d", title, text, {"page": 3})
    assert chunk(document, None) == [Passage("d", "d", title, text, 0, len(text), {"page": 3})]


def test_boundaries_are_those_of_paragraphs_then_sentences() -> None:
    text = "Alpha one. Alpha two.\n\nBeta one. Beta two.\n\nGamma is one long sentence of its own."
    passages = chunk(Document("d", "t", text, {"page": 3}), Chunking(25, 0))
    assert [(p.id, p.start, p.end, p.text) for p in passages] == [
        ("d#0", 0, 21, "Alpha one. Alpha two."),
        ("d#1", 23, 42, "Beta one. Beta two."),
        ("d#2", 44, 61, "Gamma is one long"),
        ("d#3", 62, 82, "sentence of its own."),
    ]
    assert {(p.doc_id, p.title, p.metadata["page"]) for p in passages} == {("d", "t", 3)}


def test_overlap_repeats_the_end_of_the_passage_before() -> None:
    text = "one two three four five six seven"
    passages = chunk(Document("d", "", text), Chunking(13, 6))
    assert [p.text for p in passages] == ["one two three", "three four", "four five six", "six seven"]


@pytest.mark.parametrize("overlap", [0, 40])
def test_windows_leave_no_seam(overlap: int) -> None:
    sentences = [f"Sentence {number} is about {'x' * (number % 17)} and {number * 7919}." for number in range(600)]
    text = " ".join(sentences)
    expected = TextSplitter(200, overlap=overlap).chunk_indices(text)
    assert len(text) > 5 * 16 * 200
    assert [(p.start, p.text) for p in chunk(Document("d", "", text), Chunking(200, overlap))] == expected


@pytest.mark.parametrize("piece", ["x", "字", "👩\u200d👩\u200d👧"])
def test_many_characters_without_a_space(piece: str) -> None:
    # Unwindowed, the splitter is quadratic: 60 s for a million ideographs.
    text = piece * (150_000 // len(piece))
    passages = chunk(Document("d", "", text), Chunking(1200, 200))
    assert passages[0].start == 0
    assert passages[-1].end == len(text)
    assert all(before.end >= after.start for before, after in pairwise(passages))


def test_long_white_space_between_two_words() -> None:
    text = "first" + " " * 50_000 + "last"
    assert [(p.start, p.text) for p in chunk(Document("d", "", text), Chunking(10, 2))] == [
        (0, "first"),
        (50_005, "last"),
    ]


@pytest.mark.parametrize("text", ["", " ", "\n" * 10_000])
def test_a_blank_text_is_one_passage(text: str) -> None:
    assert chunk(Document("d", "Title", text), Chunking()) == [Passage("d#0", "d", "Title", "", 0, 0)]


@pytest.mark.parametrize(
    ("field", "document"),
    [
        ("id", Document("a\ud800", "t", "x")),
        ("title", Document("d", "a\ud800", "x")),
        ("text", Document("d", "t", "a\ud800")),
    ],
)
@pytest.mark.parametrize("chunking", [None, Chunking()])
def test_a_lone_surrogate_is_refused(field: str, document: Document, chunking: Chunking | None) -> None:
    with pytest.raises(
        DataError,
        match=rf"expected text that UTF-8 can hold; found a lone surrogate at character 2 "
        rf"of the {field} of document",
    ):
        chunk(document, chunking)


@pytest.mark.parametrize(
    ("size", "overlap", "message"),
    [
        (0, 0, "'size' of a passage must be an int of at least 1. Got 0"),
        (-5, 0, "Got -5"),
        (1.5, 0, "Got 1.5"),
        (True, 0, "Got True"),
        (100, 100, r"'overlap' of passages must be an int in the range \[0, 100\).*Got 100"),
        (100, -1, "Got -1"),
    ],
)
def test_impossible_sizes(size: int, overlap: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Chunking(size, overlap)


def test_passage_text() -> None:
    assert passage_text("Title", "Text") == "Title\nText"
    assert passage_text(" ", "Text") == "Text"
    assert passage_text("Title", "\n") == "Title"
    assert passage_text("", "") == ""


def test_headings_that_begin_in_a_span_once_each() -> None:
    sections = (
        *(Section(0, page=1), Section(4, ("A",)), Section(9, ("A", "B")), Section(12, ("A", "B"), 2)),
        *(Section(20, ("A", "C")), Section(30, ("D",))),
    )
    assert headings_within(sections, 0, 40) == ("A", "B", "C", "D")
    assert headings_within(sections, 9, 20) == ("B",)
    assert headings_within(sections, 10, 20) == ()  # page 2 goes on under the heading of page 1
    assert headings_within(sections, 20, 30) == ("C",)
    assert headings_within((), 0, 40) == ()


@pytest.mark.parametrize(
    ("start", "end", "pages"),
    [(0, 10, ()), (0, 11, ((10, 2),)), (5, 40, ((10, 2), (30, 4))), (10, 30, ()), (12, 31, ((30, 4),)), (30, 40, ())],
)
def test_pages_that_begin_within_a_passage(start: int, end: int, pages: tuple[tuple[int, int], ...]) -> None:
    """A section may begin on the same page; page 3 has no text."""
    sections = (Section(0, (), 1), Section(10, (), 2), Section(20, ("Heading",), 2), Section(30, (), 4))
    assert pages_within(sections, start, end) == pages
