"""Measures of answers, by hand, and held equal to Google's ROUGE; tests/slow compares them with torchmetrics' SQuAD."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from examples import examples
from ragindex_eval.metrics.answers import exact_match, f1, normalised, rouge_l, select_shown

WORDS = st.sampled_from(["the", "a", "Cat", "cat", "sat", "down!", "(1990)", "U.S.", "don't", "an", "red", "42"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)


@settings(max_examples=examples(60))
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_rouge_l_is_googles(answer: str, accepted: list[str]) -> None:
    scorer = RougeScorer(["rougeL"], use_stemmer=False)
    expected = max(scorer.score(form, answer)["rougeL"].fmeasure for form in accepted)
    assert rouge_l(answer, accepted) == pytest.approx(expected)


def test_by_hand() -> None:
    assert normalised("  The U.S.'s  “Cat” ") == "uss “cat”"
    assert exact_match("", []) == f1("", []) == rouge_l("", []) == 0.0


@pytest.mark.parametrize(
    ("answer", "accepted", "expected"),
    [
        ("The cat.", ["dog", "Cat"], (1, 1)),
        ("red cat", ["a cat sat", "dog"], (0, 2 * 1 / (2 + 2))),
        ("red red cat", ["red red sat"], (0, 2 * 2 / (3 + 3))),  # each word as often as both have it
        ("cat sat down", ["cat", "cat sat"], (0, 2 * 2 / (3 + 2))),  # the best of them
        ("don't", ["dont"], (1, 1)),
        ("(1990)", ["1990", ""], (1, 1)),
        ("cat", ["the"], (0, 0)),
        ("the", ["a", "an"], (1, 1)),  # nothing is left of either
        ("", ["cat"], (0, 0)),
    ],
)
def test_em_and_f1(answer: str, accepted: list[str], expected: tuple[float, float]) -> None:
    assert (exact_match(answer, accepted), f1(answer, accepted)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "accepted", "expected"), [("yes", "yes it is", 0.0), ("no one", "no", 0.0), ("Yes.", "yes", 1.0)]
)
def test_a_yes_is_no_part_of_another_answer(answer: str, accepted: str, expected: float) -> None:
    """HotpotQA's rule, which SQuAD's does not have: sharing the word gives nothing."""
    assert f1(answer, [accepted]) == expected


def test_tables_show_em_f1_and_accuracy_else_the_measures_of_asqa() -> None:
    assert select_shown(["R@5", "EM", "F1", "STR-EM", "ROUGE-L"]) == ["EM", "F1"]
    assert select_shown(["R@5", "accuracy"]) == ["accuracy"]
    assert select_shown({"ROUGE-Lsum", "STR-EM", "DR", "Disambig-F1"}) == ["STR-EM", "ROUGE-Lsum", "Disambig-F1", "DR"]
    assert select_shown(["R@5"]) == []
