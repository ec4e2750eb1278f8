"""Spans of passages by words, sentences, headings and sections."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.corpus import chunk
from ragindex.corpus.chunk_spans import find_rows, word_spans
from ragindex.errors import UsageError
from ragindex.types import Chunking, Document, Section

WORDS = st.text(alphabet="ab字ー.!? \n\t-#|`", max_size=400)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """A text with sections at random places, and blocks between two of them or across."""
    text = draw(WORDS)
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    names = st.lists(st.sampled_from("ABC"), max_size=3).map(tuple)
    sections = tuple(Section(place, draw(names)) for place in places if place < len(text))
    ends = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    spans = [(start, end) for start, end in list(pairwise(ends))[::2] if text[start:end].strip()]
    blocks = tuple(
        (start + len(text[start:end]) - len(text[start:end].lstrip()), start + len(text[start:end].rstrip()))
        for start, end in spans
    )
    return Document("d", "t", text, {}, sections, blocks)


@st.composite
def chunkings(draw: st.DrawFn) -> Chunking:
    by = draw(st.sampled_from(("words", "sentences", "headings", "sections", "documents", "characters")))
    if by in ("sections", "documents"):
        return Chunking(None, 0, by)
    size = draw(st.integers(1, 30))
    return Chunking(size, 0 if by == "headings" else draw(st.integers(0, size - 1)), by)


@given(documents(), chunkings())
@settings(max_examples=examples(100))
def test_passages_are_in_order_and_hold_all_but_white_space(document: Document, chunking: Chunking) -> None:
    passages = chunk(document, chunking)
    assert [passage.id for passage in passages] == [f"d#{number}" for number in range(len(passages))]
    end = 0
    for passage in passages:
        assert chunking.by != "characters" or passage.end - passage.start <= (chunking.size or 0)
        header = document.text[slice(*passage.header)]
        assert header + document.text[passage.start : passage.end] == passage.text
        assert not header or any(
            passage.header[0] == start and passage.header[1] <= passage.start < end for start, end in document.blocks
        )
        assert document.text[end : passage.start].strip() == ""
        end = max(end, passage.end)
    assert document.text[end:].strip() == ""
    for bounds in ([part.start for part in passages], [part.end for part in passages]):
        assert bounds == sorted(set(bounds))
    if chunking.by in ("words", "sentences") and chunking.size is not None:
        assert all(len(word_spans(document.text[part.start : part.end])) <= chunking.size for part in passages)


@given(documents(), st.integers(1, 30))
@settings(max_examples=examples(100))
def test_only_long_tables_are_divided_by_headings(document: Document, size: int) -> None:
    passages = chunk(document, Chunking(size, 0, "headings"))
    long_tables = [
        (start, end)
        for start, end in document.blocks
        if find_rows(document.text, (start, end)) and len(word_spans(document.text[start:end])) > size
    ]
    undivided = [block for block in document.blocks if block not in long_tables]
    for start, end in undivided:
        assert any(part.start <= start and end <= part.end for part in passages)
    for passage in passages:
        inside = [(start, end) for start, end in undivided if start < passage.end and passage.start < end]
        words = len(word_spans(document.text[passage.start : passage.end]))
        assert words <= size or inside  # only a block makes a passage longer


def spelt(text: str, chunking: Chunking, *sections: Section, blocks: tuple[tuple[int, int], ...] = ()) -> list[str]:
    return [passage.text for passage in chunk(Document("d", "", text, {}, sections, blocks), chunking)]


def test_windows_of_words_share_their_overlap() -> None:
    text = "One two, three. Four five six seven."
    assert spelt(text, Chunking(3, 1, "words")) == ["One two, three.", "three. Four five", "five six seven."]
    assert spelt(text, Chunking(4, 0, "words")) == ["One two, three. Four", "five six seven."]
    assert spelt("東京都に雨", Chunking(2, 0, "words")) == ["東京", "都に", "雨"]


def test_sentences_are_whole_and_the_last_ones_that_fit_are_shared() -> None:
    text = "A b c. D e. F g. H i j k l m n."
    assert spelt(text, Chunking(5, 0, "sentences")) == ["A b c. D e.", "F g.", "H i j k l", "m n."]
    assert spelt(text, Chunking(5, 2, "sentences")) == ["A b c. D e.", "D e. F g.", "H i j k l", "m n."]
    assert spelt("First item\n- second\n- third\n\nLast", Chunking(2, 0, "sentences")) == [
        "First item",
        "- second",
        "- third",
        "Last",
    ]


GUIDE = "Guide\nIntro text.\nSetup\nDo this.\nLinux\nUse apt.\nMac\nUse brew.\nUse\nRun it now."
SECTIONS = tuple(
    Section(GUIDE.index(name + "\n"), path)
    for name, path in (
        ("Guide", ("Guide",)),
        ("Setup", ("Guide", "Setup")),
        ("Linux", ("Guide", "Setup", "Linux")),
        ("Mac", ("Guide", "Setup", "Mac")),
        ("Use", ("Guide", "Use")),
    )
)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (99, [GUIDE]),
        (13, ["Guide\nIntro text.\nSetup\nDo this.\nLinux\nUse apt.\nMac\nUse brew.", "Use\nRun it now."]),
        (9, ["Guide\nIntro text.", "Setup\nDo this.\nLinux\nUse apt.\nMac\nUse brew.", "Use\nRun it now."]),
        (6, ["Guide\nIntro text.", "Setup\nDo this.\nLinux\nUse apt.", "Mac\nUse brew.", "Use\nRun it now."]),
        (3, ["Guide\nIntro text.", "Setup\nDo this.", "Linux\nUse apt.", "Mac\nUse brew.", "Use\nRun it", "now."]),
    ],
)
def test_sections_are_joined_where_they_fit_and_divided_where_they_do_not(size: int, expected: list[str]) -> None:
    assert spelt(GUIDE, Chunking(size, 0, "headings"), *SECTIONS) == expected


def test_a_table_stays_whole_and_says_where_it_stands() -> None:
    text = "Sizes\n| a | b |\n| 1 | 2 |\n| 3 | 4 |\nEnd of it."
    block = (text.index("|"), text.rindex("|") + 1)
    document = Document("d", "", text, {}, (Section(0, ("Sizes",)),), (block,))
    passages = chunk(document, Chunking(6, 0, "headings"))
    assert [passage.text for passage in passages] == ["Sizes", text[slice(*block)], "End of it."]
    assert [passage.headings for passage in passages] == [("Sizes",)] * 3


HEADER = "| port | hour |\n|---|---|\n"
TABLE = f"{HEADER}| Ely. | 7 |\n| Rye. | 8 |\n| Deal | 9 |"


@pytest.mark.parametrize(
    ("chunking", "text", "expected"),
    [
        (  # a row has 5 words, header and rule 6
            Chunking(12, 0, "headings"),
            f"Tides.\n\n{TABLE}\n\nEnd.",
            [f"Tides.\n\n{HEADER}| Ely. | 7 |", f"{HEADER}| Rye. | 8 |\n| Deal | 9 |\n\nEnd."],
        ),
        (Chunking(21, 0, "headings"), f"Tides.\n\n{TABLE}\n\nEnd.", ["Tides.", TABLE, "End."]),
        (Chunking(21, 0, "sentences"), f"Tides.\n\n{TABLE}\n\nEnd.", ["Tides.", TABLE, "End."]),
        (Chunking(12, 5, "sentences"), TABLE, [f"{HEADER}| Ely. | 7 |", f"{HEADER}| Rye. | 8 |\n| Deal | 9 |"]),
        (Chunking(11, 0, "sentences"), TABLE, [f"{HEADER}| Ely. | 7 |", "| Rye. | 8 |\n| Deal | 9 |"]),
        (Chunking(14, 0, "words"), TABLE, [f"{HEADER}| Ely. | 7 |\n| Rye. |", f"{HEADER}8 |\n| Deal | 9 |"]),
        (
            Chunking(52, 14, "characters"),
            TABLE,
            [f"{HEADER}| Ely. | 7 |\n| Rye. | 8 |", f"{HEADER}| Rye. | 8 |\n| Deal | 9 |"],
        ),
    ],
)
def test_a_table_is_divided_at_rows_and_repeats_its_header(chunking: Chunking, text: str, expected: list[str]) -> None:
    block = (text.index("|"), text.rindex("|") + 1)
    passages = chunk(Document("d", "", text, {}, (), (block,)), chunking)
    assert [passage.text for passage in passages] == expected
    assert all(passage.text.endswith(text[passage.start : passage.end]) for passage in passages)
    assert all(text[slice(*passage.header)] in ("", HEADER) for passage in passages)


@pytest.mark.parametrize(
    ("block", "rows"),
    [
        (TABLE, len(HEADER)),
        ("a | b\n:-|-:\n1 | 2", 12),
        ("> | a |\n> |---|\n> | 1 |", 16),
        ("| a |\n|---|", 0),
        ("| a |\n| 1 |\n| 2 |", 0),
        ("a\n---\nb", 0),
        ("```\n|---|\n```", 0),
        ("| a | b |", 0),
    ],
)
def test_the_rows_of_a_table_begin_below_its_rule(block: str, rows: int) -> None:
    assert find_rows(f"Ports\n{block}\n| no | row |", (6, 6 + len(block))) == (rows and 6 + rows)


def test_sections_and_documents_have_no_size() -> None:
    assert spelt(GUIDE, Chunking(None, 0, "sections"), *SECTIONS[2:]) == [
        "Guide\nIntro text.\nSetup\nDo this.",
        "Linux\nUse apt.",
        "Mac\nUse brew.",
        "Use\nRun it now.",
    ]
    assert spelt("  a b \n", Chunking(None, 0, "documents")) == ["a b"]
    with pytest.raises(UsageError, match="Passages by documents have no 'size' and no 'overlap'"):
        Chunking(5, 0, "documents")
    with pytest.raises(UsageError, match="Passages by headings have no 'overlap'"):
        Chunking(5, 2, "headings")
    with pytest.raises(UsageError, match="need an encoder, so they cannot be an index's own. Use: by=words"):
        chunk(Document("d", "", "a"), Chunking(5, 0, "tokens"))
