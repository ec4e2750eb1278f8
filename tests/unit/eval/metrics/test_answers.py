"""Measures of answers, by hand, and held equal to Google's ROUGE; tests/slow compares them with torchmetrics' SQuAD."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from examples import examples
from ragindex_eval.metrics.answers import accuracy, exact_match, f1, normalised, rouge_l, select_shown
from ragindex_eval.metrics.long_answers import add_disambiguated_rouge, disambiguated_f1, rouge_lsum, string_exact_match

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


# ---------------------------------------------------------------- ASQA and multiple choice

STEMS = st.sampled_from(["the", "cat", "sat", "running", "run", "ships", "shipped", "1990", "red", "nations", "of"])
SENTENCES = st.lists(STEMS, min_size=1, max_size=6).map(lambda words: " ".join(words).capitalize() + ".")
PASSAGES = st.lists(SENTENCES, min_size=1, max_size=4)


@settings(max_examples=examples(80))
@given(PASSAGES, st.lists(PASSAGES, min_size=1, max_size=2))
def test_rouge_lsum_is_googles(answer: list[str], references: list[list[str]]) -> None:
    """With sentences on lines of their own, as ASQA's evaluation gives them, and its stemmer."""
    scorer = RougeScorer(["rougeLsum"], use_stemmer=True)
    expected = max(
        scorer.score("\n".join(reference), "\n".join(answer))["rougeLsum"].fmeasure for reference in references
    )
    assert rouge_lsum(" ".join(answer), [" ".join(reference) for reference in references]) == pytest.approx(expected)


def test_rouge_lsum_by_hand() -> None:
    """Reference: 4 + 3 words; answer: 3 + 3. Their common subsequences are `cat sat` and `dog ran`: 4 matches."""
    answer, reference = "A cat sat. The dog ran.", "That cat sat there. Some dog ran."
    assert rouge_lsum(answer, [reference, "Nothing."]) == pytest.approx(2 * 4 / (6 + 7))
    assert rouge_lsum("", [reference]) == rouge_lsum(answer, []) == rouge_lsum(answer, [""]) == 0.0


def test_str_em_is_the_share_of_sub_questions_that_are_met() -> None:
    groups = [("1871", "eighteen seventy-one"), ("Ada", "Ada Miller"), ("Bergen",)]
    assert string_exact_match("It was Ada, in the year 1871.", groups) == pytest.approx(2 / 3)
    assert string_exact_match("It was Ada Miller, in the year eighteen seventyone!", groups) == pytest.approx(2 / 3)
    assert string_exact_match("", groups) == string_exact_match("Ada", []) == string_exact_match("Ada", [()]) == 0.0
    assert string_exact_match("Canada", [("ADA",)]) == 1.0  # inside a word, as in the published evaluation
    assert string_exact_match("Anything", [("The", "…")]) == 0.0  # nothing is left to look for


def test_disambig_f1_is_the_mean_f1_of_the_spans() -> None:
    """`in May 1990` and `May 1990` share 2 of 3 + 2 words: F1 0.8; the best alias counts; no span scores 0."""
    groups = [("1871", "year 1871"), ("May 1990",), ("Ada",)]
    assert disambiguated_f1(["the year 1871", "in May 1990", ""], groups) == pytest.approx((1 + 0.8 + 0) / 3)
    assert disambiguated_f1(["no"], [("no one",)]) == pytest.approx(2 / 3)  # SQuAD's F1, without HotpotQA's rule
    assert disambiguated_f1([], []) == 0.0


def test_dr_is_the_geometric_mean_of_the_means() -> None:
    means = {"STR-EM": 0.4, "ROUGE-Lsum": 0.36, "Disambig-F1": 0.25}
    assert add_disambiguated_rouge(means) == {**means, "DR": pytest.approx(math.sqrt(0.09))}
    assert add_disambiguated_rouge({"ROUGE-Lsum": 0.36}) == {"ROUGE-Lsum": 0.36}
    assert add_disambiguated_rouge({**means, "Disambig-F1": 0.0})["DR"] == 0.0


def test_accuracy_counts_the_right_option() -> None:
    options = ("To sing", "To find work", "To sleep")
    accuracies = {"B": 1.0, "to find work": 1.0, "2": 1.0, "A": 0.0, "find work": 0.0, "": 0.0}
    assert {answer: accuracy(answer, ("To find work",), options) for answer in accuracies} == accuracies
