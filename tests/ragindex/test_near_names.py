"""Names that are suggested for misspelled ones, and names that are too far."""

import pytest

from ragindex.near_names import find_near_names, suggest_names

METHODS = ("bm25", "dense", "evidence", "gear", "gear.naive", "graphrag", "griever", "hybrid", "raptor", "rerank")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("hybird", ["hybrid"]),
        ("BM52", ["bm25"]),
        ("evidense", ["evidence"]),  # dense is similar too, but less so
        ("graph", ["graphrag"]),
        ("naive", ["gear.naive"]),
        ("gra", ["graphrag"]),  # begun by it
        ("tree", []),
        ("vector", []),
        ("", []),
    ],
)
def test_near_names(name: str, near: list[str]) -> None:
    assert find_near_names(name, METHODS) == near


def test_all_names_are_listed_if_none_is_near() -> None:
    assert suggest_names("hybird", METHODS) == "Did you mean hybrid?"
    assert suggest_names("splade", ["lsa", "openai"]) == "Available: lsa, openai."
    assert suggest_names("splade", []) == "Available: none."
