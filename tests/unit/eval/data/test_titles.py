"""Which questions name the title of a document that answers them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.types import Query
from ragindex_eval.data.gold import Gold
from ragindex_eval.data.titles import find_naming, names_title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("What is missing according to “The Mill of Lindau”?", "The Mill of Lindau"),
        ("who built the  MILL of\nLindau?", "The Mill of Lindau"),
        ("Wer wohnte in der Straße?", "STRASSE"),
        ("How is C++ compiled?", "C++ compiled"),
        ("李白是谁?", "李白"),
        ("서울은 어디에 있습니까?", "서울"),
        ("Cafe\u0301 Adler opened when?", "Café Adler"),
        ("What is reported, according to “Postfix manual - qshape”?", "Postfix manual - qshape(1)"),
        ("What is reported, according to “Postfix manual - qshape(1)”?", "Postfix manual - qshape(1)"),
    ],
)
def test_a_question_that_names_a_title(text: str, title: str) -> None:
    assert names_title(text, [title])
    assert names_title(text, ["Another", title])


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Who built the mill?", "The Mill of Lindau"),
        ("Who led the installation?", "Install"),
        ("Who reinstalled it?", "install"),
        ("What is it?", ""),
        ("What is R?", "R"),  # a single letter says nothing
        ("What is it?", "?!"),
    ],
)
def test_a_question_that_names_none(text: str, title: str) -> None:
    assert not names_title(text, [title])


@given(st.text(), st.from_regex(r"\A\w{2,9}\Z"), st.text())
def test_a_title_between_blanks_is_always_found(before: str, title: str, after: str) -> None:
    letters = sum(character.isalnum() for character in title)
    assert names_title(f"{before} {title} {after}", [title]) or letters < 2


def test_only_titles_of_gold_documents_count() -> None:
    queries = [Query("q1", "Where is Lindau?"), Query("q2", "Where is Lindau?"), Query("q3", "Where is Lindau?")]
    gold = {"q1": Gold(frozenset({"a", "b"})), "q2": Gold(frozenset({"a"}))}
    titles = {"a": "The mill", "b": "Lindau"}
    assert find_naming(queries, gold, titles) == {"q1"}
    assert find_naming(queries, None, titles) == frozenset()
