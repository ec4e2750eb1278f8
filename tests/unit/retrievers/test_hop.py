"""The second question of `hop`: what is left of the question, names, and rare words where there are no names."""

import pytest

from ragindex.types import Hit
from ragindex_retrievers.hop import Hop, Searches
from ragindex_retrievers.second_question import list_new_names, list_rare_words, write_second_question

LIMPOPO = "The Limpopo passes Beitbridge in Gwanda District, Zimbabwe. It is a river of the Limpopo valley."
QUESTION = "Which waterfall is in the country where the Limpopo passes Beitbridge?"


def bridge(title: str, text: str) -> Hit:
    return Hit("p", "passage", ("p",), ("d",), title, text, 1.0, "dense")


@pytest.mark.parametrize(
    ("question", "title", "text", "names", "expected"),
    [
        # the words that the bridge holds go, its names come; those of question and title do not
        (QUESTION, "Limpopo", LIMPOPO, 8, "Which waterfall is in the country where Gwanda District, Zimbabwe"),
        (QUESTION, "Limpopo", LIMPOPO, 1, "Which waterfall is in the country where Gwanda District"),
        (QUESTION, "Limpopo", LIMPOPO, 0, "Which waterfall is in the country where"),
        (
            QUESTION,
            "Zimbabwe (country)",
            "Zimbabwe lies by Gwanda.",
            8,
            "Which waterfall is in the where Limpopo passes Beitbridge? Gwanda",
        ),
        # a text without names: its rarest words, here those that the other text does not have
        ("who sings this", "", "sings of wind and rain", 1, "who this wind"),
        # nothing is left and nothing is named: the question itself
        ("red lamp", "red lamp", "red lamp", 8, "red lamp"),
    ],
)
def test_second_question(question: str, title: str, text: str, names: int, expected: str) -> None:
    others = [text, "rain in the valley"]
    assert write_second_question(question, bridge(title, text), names, "english", others) == expected


def test_names_are_those_with_a_new_word() -> None:
    text = "Ada Lund met Ada Lund Holm and Bo Lund in York. York is old."
    assert list_new_names("Whom did Ada Lund meet?", "York", text, "english") == ["Ada Lund Holm", "Bo Lund"]


def test_rare_words_are_ordered_by_texts_that_have_them() -> None:
    texts = ["wind wind lamp", "wind stone", "stone lamp wind"]
    assert list_rare_words("lamp", "wind and stone by copper", texts, "english") == ["copper", "stone", "wind"]


def test_a_bridge_does_not_find_itself() -> None:
    searches = Searches(["a", "bridge", "b"], ["bridge", "b"], 0.0)
    assert searches.score("bridge") == {"a": 1 / 4, "b": 1 / 5 + 1 / 4}
    assert searches.describe("b") == "3 by words, 2 by meaning"


@pytest.mark.parametrize(("base", "k", "depends"), [("dense", 9, False), ("dense", 11, True), ("composed", 9, True)])
def test_first_hits_depend_on_k_above_depth_or_as_the_base_does(base: str, k: int, depends: bool) -> None:
    assert Hop(base=base, depth=10).depends_on_k(k) is depends
