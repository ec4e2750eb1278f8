"""The words follow the figures."""

import math

import numpy as np
import pytest
from made_comparisons import make_comparison
from scipy import stats

from ragindex.types import Usage
from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.conclusions.leaders import agreement, leaders, overlap
from ragindex_eval.report.tables import metrics_shown
from ragindex_eval.results.model import LATENCY

GOOD, FAIR, BAD = [1.0] * 40, [1.0] * 38 + [0.0] * 2, [0.0] * 40
FAST, SLOW = [1.0 + n / 1000 for n in range(40)], [4.0 + n / 1000 for n in range(40)]


def test_one_is_best_where_all_others_are_excluded() -> None:
    assert leaders(make_comparison({"a": BAD, "b": GOOD}), "R@5") == ("b",)
    assert state_conclusion(make_comparison({"a": BAD, "b": GOOD})) == (
        "b is best at R@5 (100.0; +100.0, +85.6 to +100.0, over a)."
    )


def test_the_methods_that_cannot_be_excluded_are_named_with_what_they_cost() -> None:
    comparison = make_comparison({"a": FAIR, "b": BAD, "c": GOOD}, {"a": FAST, "b": FAST, "c": SLOW})
    assert leaders(comparison, "R@5") == ("c", "a")
    assert state_conclusion(comparison) == (
        "c leads at R@5 (100.0; +5.0, −6.6 to +16.1, over a), and a cannot be excluded as the best (n = 40). "
        "Of c and a, a is fastest: 3.94 times as fast as c (3.23 to 4.22, geometric mean). "
        "c takes 4.02 ms a question, and 0.001 MB for its index; a takes 1.02 ms a question, and 0.001 MB for its "
        "index. About 200 more questions would show c ahead of a, if the difference stays (80 % power)."
    )


def test_nothing_is_better_inside_the_noise() -> None:
    comparison = make_comparison({"a": FAIR, "b": GOOD}, {"a": SLOW, "b": SLOW})
    assert leaders(comparison, "R@5") == ("b", "a")
    assert state_conclusion(comparison) == (
        "No method can be excluded as the best at R@5 (n = 40): b scores 100.0, a 95.0 (+5.0, −4.9 to +14.4). "
        "b takes 4.02 ms a question, and 0.001 MB for its index; a takes 4.02 ms a question, and 0.001 MB for its "
        "index. About 140 more questions would show b ahead of a, if the difference stays (80 % power)."
    )


def test_all_equal() -> None:
    conclusion = state_conclusion(make_comparison({"a": FAIR, "b": FAIR}, {"a": SLOW, "b": FAST}))
    assert conclusion == (
        "No method can be excluded as the best at R@5 (n = 40): all 2 score 95.0. "
        "Of a and b, b is fastest: 3.94 times as fast as a (3.23 to 4.22, geometric mean). "
        "a takes 4.02 ms a question, and 0.001 MB for its index; b takes 1.02 ms a question, and 0.001 MB for its "
        "index. The difference of a and b may be −6.9 to +6.9 points; about 140 more questions would show one of 5 "
        "(80 % power)."
    )


def test_money_and_tokens_are_weighed() -> None:
    paid = {"a": [Usage()] * 40, "b": [Usage(0.0, 1_000, 200, 0.00125)] * 40}
    conclusion = state_conclusion(make_comparison({"a": BAD, "b": GOOD}, {"a": FAST, "b": SLOW}, paid=paid))
    assert conclusion == (
        "b is best at R@5 (100.0; +100.0, +85.6 to +100.0, over a). "
        "b takes 4.02 ms, 1,200 tokens and $0.00125 a question, and 0.002 MB, 48,000 tokens and $0.0500 for its index; "
        "a takes 1.02 ms a question, and 0.002 MB for its index."
    )


@pytest.mark.parametrize(
    ("metric", "tested"),
    [
        *(("nDCG@5", False), ("nDCG@10", True), ("nDCG@20", False), ("R@10", True), ("R@20", True)),
        *(("F1", True), ("EM", True), ("ROUGE-Lsum", False)),  # beside F1, ASQA's metrics are only in the files
    ],
)
def test_only_a_metric_of_the_table_keeps_a_method_from_being_called_fastest(metric: str, tested: bool) -> None:
    apart, equal = {"a": [1.0] * 40, "b": [0.0] * 40}, {"a": [0.5] * 40, "b": [0.5] * 40}
    also = {"F1": equal, "EM": equal, metric: apart}
    comparison = make_comparison({"a": FAIR, "b": FAIR}, {"a": SLOW, "b": FAST}, also=also, ks=(5, 10, 20))
    assert (metric in metrics_shown(comparison)) is tested
    assert ("b is fastest" in state_conclusion(comparison)) is not tested


@pytest.mark.parametrize(
    ("higher", "sentence"),
    [(("R@10",), " b has the highest R@10. "), (("R@10", "R@20"), " b has the highest R@10 and R@20. "), ((), "")],
)
def test_what_leads_by_other_metrics_is_said_where_the_first_may_not_be_the_best(
    higher: tuple[str, ...], sentence: str
) -> None:
    """b finds what a does not, and in the metrics of `higher` one more, so that nothing is certain."""
    a, b, more = [1.0, 0.0] * 20, [0.0, 1.0] * 20, [0.0, 1.0] * 19 + [1.0, 1.0]
    also = {metric: {"a": a, "b": more if metric in higher else b} for metric in ("R@10", "R@20")}
    sentences = state_conclusion(make_comparison({"a": FAIR, "b": FAIR}, also=also, ks=(5, 10, 20)))
    assert sentence in sentences
    assert ("has the highest" in sentences) is bool(higher)


def test_methods_with_equal_highest_means_are_all_named() -> None:
    a, b, more = [1.0, 0.0] * 20, [0.0, 1.0] * 20, [0.0, 1.0] * 19 + [1.0, 1.0]
    also = {"R@10": {"a": a, "b": more, "c": more}, "R@20": {"a": a, "b": more, "c": b}}
    sentences = state_conclusion(make_comparison({"a": FAIR, "b": FAIR, "c": FAIR}, also=also, ks=(5, 10, 20)))
    assert " b and c have the highest R@10; b has the highest R@20. " in sentences


def test_few_questions_are_a_hint() -> None:
    assert state_conclusion(make_comparison({"a": [1], "b": [0]})) == (
        "No method can be excluded as the best at R@5 (n = 1): a scores 100.0, b 0.0 (+100.0). "
        "With one judged question this is a hint, no more."
    )
    assert state_conclusion(make_comparison({"a": [1] * 8, "b": [0] * 8})) == (
        "a is best at R@5 (100.0; +100.0, +34.8 to +100.0, over b). With 8 judged questions this is a hint, no more."
    )


def test_a_significant_difference_is_never_shown_as_0() -> None:
    comparison = make_comparison({"a": [0.5008, 0.5] * 4000, "b": [0.5] * 8000})
    assert leaders(comparison, "R@5") == ("a",)
    assert "+0.04, +0.005 to +0.1, over b" in state_conclusion(comparison)


def test_one_method() -> None:
    conclusion = state_conclusion(make_comparison({"a": FAIR}))
    assert conclusion == "a reaches 95.0 at R@5; there is nothing to compare it with."


def test_the_fastest_is_told_by_its_own_test() -> None:
    comparison = make_comparison({"a": GOOD, "b": GOOD, "c": GOOD}, {"a": SLOW, "b": FAST, "c": FAST})
    assert leaders(comparison, LATENCY) == ("b", "c")
    assert leaders(make_comparison({"a": GOOD}), LATENCY) == ()
    assert leaders(make_comparison({"a": [], "b": []}, {"a": FAST, "b": FAST}), "R@5") == ()


def test_what_the_same_work_differs_by_widens_the_interval_of_a_ratio() -> None:
    """Three times as fast for certain; but the same work took 2.5 to 4 times as long when the other was timed."""
    times = {"a": [1.0] * 40, "b": [3.0] * 40}
    quiet = make_comparison({"a": GOOD, "b": GOOD}, times, reference={"a": [1.0] * 40, "b": [1.2] * 40})
    assert quiet.pair("b", "a", LATENCY).value == pytest.approx(3.0)
    (low, high), noise = (
        stats.ttest_1samp(math.log(ratio) * np.array([1] * 41 + [-1]), 0).confidence_interval() for ratio in (3, 1.2)
    )
    expected = math.exp(low - noise.high), math.exp(high + noise.high)
    assert quiet.pair("b", "a", LATENCY).ci95 == pytest.approx(expected, rel=0.01)  # the quantile is of draws
    assert leaders(quiet, LATENCY) == ("a",)
    busy = make_comparison({"a": GOOD, "b": GOOD}, times, reference={"a": [1.0] * 40, "b": [2.5, 4.0] * 20})
    low, high = busy.pair("b", "a", LATENCY).ci95 or (0, 0)
    assert low < 1 < 9 < high
    assert leaders(busy, LATENCY) == ("a", "b")
    assert "faster" not in state_conclusion(busy)


FOUND = {"a": [["x", "y"], ["x", "y"]], "b": [["y", "x"], ["x", "z"]], "c": [[], ["q"]]}


def test_agreement_is_the_share_of_documents_that_both_have() -> None:
    comparison = make_comparison({"a": [], "b": [], "c": []}, rankings=FOUND)
    assert agreement(comparison, 2) == {("a", "b"): (1 + 1 / 3) / 2, ("a", "c"): 0.0, ("b", "c"): 0.0}
    assert agreement(comparison, 1)["a", "b"] == 0.5
    nothing = comparison.method("c").final[0]
    assert overlap(nothing, nothing, 5) == 1.0


def test_without_gold_no_quality_is_claimed() -> None:
    comparison = make_comparison(
        {"a": [], "b": []}, {"a": FAST, "b": SLOW}, rankings={"a": [["x"]] * 40, "b": [["y"]] * 40}
    )
    assert state_conclusion(comparison) == (
        "No quality was measured: the questions have no gold documents. Of a and b, a is fastest: "
        "3.94 times as fast as b (3.23 to 4.22, geometric mean). Of a and b, 0% of the documents of their "
        "first 5 hits are the same."
    )
