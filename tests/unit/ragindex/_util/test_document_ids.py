"""Spellings of ids in Unicode, and the characters that ids may not have."""

import unicodedata

import pytest

from ragindex._util.ids import describe_control, find_spelling, spellings
from ragindex.filters import Terms, meta

COMPOSED, DECOMPOSED = "caf\u00e9.md", "cafe\u0301.md"


def test_a_name_is_spelled_as_it_is_written_first() -> None:
    assert spellings("tea.md") == ("tea.md",)
    assert spellings("茶.md") == ("茶.md",)
    assert spellings(COMPOSED) == (COMPOSED, DECOMPOSED)
    assert spellings(DECOMPOSED) == (DECOMPOSED, COMPOSED)
    mixed = COMPOSED + DECOMPOSED
    assert spellings(mixed) == (mixed, COMPOSED * 2, DECOMPOSED * 2)
    assert unicodedata.normalize("NFC", DECOMPOSED) == COMPOSED


@pytest.mark.parametrize(
    ("known", "expected"),
    [({COMPOSED}, COMPOSED), ({DECOMPOSED}, DECOMPOSED), ({COMPOSED, DECOMPOSED}, COMPOSED), ({"cafe.md"}, None)],
)
def test_a_known_spelling_is_found(known: set[str], expected: str | None) -> None:
    assert find_spelling(COMPOSED, known) == expected


@pytest.mark.parametrize("control", ["\n", "\r", "\t", "\0", "\x1b", "\x7f", "\x85"])
def test_control_characters_are_named(control: str) -> None:
    assert describe_control(f"a{control}b") == f"the control character {control!r} in {f'a{control}b'!r}"


@pytest.mark.parametrize("id", ["a b", "ü/ñ.md", "a\u2028b", "\u202e", "👩\u200d👩", "#1"])
def test_other_characters_are_no_control_characters(id: str) -> None:
    assert describe_control(id) is None


def test_filters_on_documents_have_both_spellings() -> None:
    assert meta("source", DECOMPOSED, "tea.md").values == (DECOMPOSED, COMPOSED, "tea.md")
    assert Terms("doc_ids", (COMPOSED, DECOMPOSED)).values == (COMPOSED, DECOMPOSED)
    assert Terms("entity_keys", (COMPOSED,)).values == (COMPOSED,)
