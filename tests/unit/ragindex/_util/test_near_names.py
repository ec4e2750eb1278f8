"""Names that are suggested for misspelled ones, and names that are too far."""

from pathlib import Path

import pytest

from ragindex._util.text import describe_near, find_near_names, find_near_paths, require_known_options, suggest_names

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


@pytest.mark.parametrize(("name", "hint"), [("encodr", "Did you mean encoder?"), ("x", "Available: seed, encoder.")])
def test_unknown_options_are_refused(name: str, hint: str) -> None:
    require_known_options("ragindex.open", ["seed"], ["seed", "encoder"])
    with pytest.raises(TypeError) as caught:
        require_known_options("ragindex.open", ["seed", name], ["seed", "encoder"])
    assert str(caught.value) == f"ragindex.open has no option {name!r}. {hint}"


def test_near_files(tmp_path: Path) -> None:
    (tmp_path / "my-documents").mkdir()
    (tmp_path / "questions.csv").touch()
    assert find_near_paths(tmp_path / "my-docments") == ["my-documents"]
    assert find_near_paths(tmp_path / "question.csv") == ["questions.csv"]
    assert find_near_paths(tmp_path / "elsewhere" / "question.csv") == []
    assert find_near_paths(tmp_path / "a\0b") == []
    assert [describe_near(names) for names in ([], ["a"], ["a", "b"])] == ["", "near it is 'a'", "near it are 'a', 'b'"]
