"""Measures of answers, held equal to torchmetrics' SQuAD."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics.functional.text import squad

from examples import examples
from ragindex_eval.metrics.answers import exact_match, f1

WORDS = st.sampled_from(["the", "a", "Cat", "cat", "sat", "down!", "(1990)", "U.S.", "don't", "an", "red", "42"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)


def squads(answer: str, accepted: list[str]) -> tuple[float, float]:
    gold = [{"answers": {"answer_start": [0] * len(accepted), "text": accepted}, "id": "1"}]
    report = squad([{"prediction_text": answer, "id": "1"}], gold)
    return float(report["exact_match"]) / 100, float(report["f1"]) / 100


@settings(max_examples=examples(60))
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_em_and_f1_are_those_of_squad(answer: str, accepted: list[str]) -> None:
    expected = squads(answer, accepted)
    assert (exact_match(answer, accepted), f1(answer, accepted)) == pytest.approx(expected, abs=1e-6)
