"""Measures of answers, held equal to torchmetrics' SQuAD and Google's ROUGE, and by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from torchmetrics.functional.text import squad

from examples import examples
from ragindex_eval.metrics.answers import exact_match, f1, normalised, rouge_l, select_shown

WORDS = st.sampled_from(["the", "a", "Cat", "cat", "sat", "down!", "(1990)", "U.S.", "don't", "an", "red", "42"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)


def squads(answer: str, accepted: list[str]) -> tuple[float, float]:
    gold = [{"answers": {"answer_start": [0] * len(accepted), "text": accepted}, "id": "1"}]
    found = squad([{"prediction_text": answer, "id": "1"}], gold)
    return float(found["exact_match"]) / 100, float(found["f1"]) / 100


@settings(max_examples=examples(60))
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_em_and_f1_are_those_of_squad(answer: str, accepted: list[str]) -> None:
    expected = squads(answer, accepted)
    assert (exact_match(answer, accepted), f1(answer, accepted)) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=examples(60))
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_rouge_l_is_googles(answer: str, accepted: list[str]) -> None:
    scorer = RougeScorer(["rougeL"], use_stemmer=False)
    expected = max(scorer.score(one, answer)["rougeL"].fmeasure for one in accepted)
    assert rouge_l(answer, accepted) == pytest.approx(expected)


def test_by_hand() -> None:
    assert normalised("  The U.S.'s  “Cat” ") == "uss “cat”"
    assert exact_match("The cat.", ["dog", "Cat"]) == 1.0
    assert f1("red cat", ["a cat sat", "dog"]) == pytest.approx(2 * 1 / (2 + 2))
    assert exact_match("", []) == f1("", []) == rouge_l("", []) == 0.0


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
