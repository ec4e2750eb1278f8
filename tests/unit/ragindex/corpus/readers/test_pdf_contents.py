"""Entries of tables of contents and of indexes in PDF files, which name everything and say nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.corpus.readers.pdf import leave_out_contents

CHAPTERS = ("Tides", "Currents", "The harbour at night", "Lamps", "Lenses", "Keepers")
BODY = [f"{name}\nAll about it stands on this page, and nothing else." for name in CHAPTERS]


def contents(*entries: str, dots: str = " . . . . . . ") -> str:
    return "\n".join(f"{name}{dots}{page}" for page, name in enumerate(entries, start=2))


def test_a_table_of_contents_is_left_out_and_its_heading_stays() -> None:
    assert leave_out_contents([f"Contents\n{contents(*CHAPTERS)}\n1", *BODY]) == ["Contents\n1", *BODY]


@pytest.mark.parametrize("dots", [".....", " ..... ", ". . . . .", " . . . .\N{NO-BREAK SPACE}", "…", " … … "])
def test_leaders_are_dots_however_they_are_set(dots: str) -> None:
    assert leave_out_contents([contents(*CHAPTERS, dots=dots), *BODY]) == ["", *BODY]


def test_an_index_is_in_the_order_of_the_alphabet_and_names_several_pages() -> None:
    pages = {"Currents": "3", "harbour": "4, 6", "Keepers": "ii, 7", "Lamps": "5–6", "Lenses": "6", "Tides": "2"}
    index = "\n".join(f"{name} . . . . . {page}" for name, page in pages.items())
    assert leave_out_contents([*BODY, f"Index\n{index}"]) == [*BODY, "Index"]


def test_an_entry_stays_whose_words_stand_nowhere_else() -> None:
    page = contents(*CHAPTERS[:3], "Fog signals and how they are wound up", *CHAPTERS[4:])
    assert leave_out_contents([page, *BODY])[0] == "Fog signals and how they are wound up . . . . . . 5"


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ("Lamps ..... 4\nTides ..... 2\nLenses ..... 6\nCurrents ..... 3\nKeepers ..... 1", "in no order: prices"),
        ("\n".join(f"{name} ..... {price}" for name, price in zip(CHAPTERS, range(15, 21), strict=True)), "no pages"),
        ("Tides ..... 2\nCurrents ..... 3\nLamps ..... 4", "fewer than four entries"),
        (f"{contents(*CHAPTERS)}\n" + "\n".join(["A line of the text."] * 6), "half of the lines"),
        (contents(*CHAPTERS, dots="   "), "no dots"),
        (contents(*CHAPTERS, dots="... "), "three dots"),
    ],
)
def test_other_lists_stay(page: str, why: str) -> None:
    assert leave_out_contents([page, *BODY])[0] == page, why


lines = st.one_of(
    st.text("abT. \n", max_size=12),
    st.builds(lambda name, page: f"{name} . . . . {page}", st.sampled_from(CHAPTERS), st.integers(1, 9)),
)


@given(st.lists(st.lists(lines, max_size=8).map("\n".join), max_size=6))
def test_what_is_left_out_stands_on_another_page(pages: list[str]) -> None:
    texts = leave_out_contents(pages)
    assert len(texts) == len(pages)
    text = " ".join("\n".join(texts).casefold().split())
    for before, after in zip(pages, texts, strict=True):
        rest = after.split("\n")
        for line in before.split("\n"):
            if line in rest:
                rest.remove(line)
            elif line.strip():
                assert " . . . . " in line
                assert line.partition(" . . . . ")[0].casefold() in text
        assert rest in ([], [""])
