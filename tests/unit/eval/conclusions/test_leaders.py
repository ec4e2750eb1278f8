"""Intervals, pairs and breakdowns on the values of a comparison."""

import pytest
from made_comparisons import make_comparison
from scipy import stats

from ragindex.types import Usage
from ragindex_eval.conclusions.differences import hops
from ragindex_eval.results.model import LATENCY


def test_a_pair_by_hand() -> None:
    """Three questions, a ahead by 1, 1 and 0.5: a t test of these and 1 and -1, by hand in test_paired_tests."""
    comparison = make_comparison({"a": [1, 1, 1], "b": [0, 0, 0.5]})
    pair = comparison.pair("a", "b", "R@5")
    assert (pair.a, pair.b, pair.questions) == ("a", "b", 3)
    assert pair.value == pytest.approx(2.5 / 3)
    assert pair.statistic == "difference of means"
    assert pair.p == pytest.approx(stats.ttest_1samp([1, 1, 0.5, 1, -1], 0).pvalue)
    assert pair.p_adjusted == pytest.approx(pair.p, abs=0.02)
    assert pair.ci95 is not None
    assert pair.ci95 == pytest.approx((-0.575, 1.0), abs=0.05)
    turned = comparison.pair("b", "a", "R@5")
    assert (turned.value, turned.ci95) == (-pair.value, (-pair.ci95[1], -pair.ci95[0]))
    with pytest.raises(KeyError):
        comparison.pair("a", "b", "nDCG@5")


def test_the_interval_of_a_difference_is_paired() -> None:
    """Both methods vary a lot, and always by the same: the difference is as good as certain."""
    up_and_down = [0.0, 1.0] * 20
    comparison = make_comparison(
        {"a": [value * 0.5 + 0.5 for value in up_and_down], "b": [value * 0.5 for value in up_and_down]}
    )
    assert comparison.pair("a", "b", "R@5").ci95 == pytest.approx((0.4, 0.55), abs=0.01)
    low, high = comparison.method("a").ci95["R@5"]
    assert high - low > 0.15


def test_the_correction_is_within_a_metric_and_over_all_pairs() -> None:
    """Six questions: a - b is 1 three times, a - c five times, b - c twice, and 0 elsewhere."""
    recalls = {"a": [1, 1, 1, 1, 1, 0], "b": [0, 0, 0, 1, 1, 0], "c": [0, 0, 0, 0, 0, 0]}
    times = {label: [2.0, 2.5, 3.0, 3.5, 4.0, 4.5] for label in recalls}
    comparison = make_comparison(recalls, times)
    for metric in ("R@5", LATENCY):
        of_metric = [pair for pair in comparison.pairs if pair.metric == metric]
        assert [(pair.a, pair.b) for pair in of_metric] == [("a", "b"), ("a", "c"), ("b", "c")]
    of_recall = [pair for pair in comparison.pairs if pair.metric == "R@5"]
    alone = [stats.ttest_1samp([*[1] * ahead, *[0] * (6 - ahead), 1, -1], 0).pvalue for ahead in (3, 5, 2)]
    assert [pair.p for pair in of_recall] == pytest.approx(alone)
    assert all(pair.p < pair.p_adjusted < 3 * pair.p for pair in of_recall)
    assert {pair.p_adjusted for pair in comparison.pairs if pair.metric == LATENCY} == {1.0}


def test_latency_is_paired_over_the_questions_that_both_answered() -> None:
    comparison = make_comparison({"a": [1, 1, 1], "b": [1, 1, 1]}, {"a": [1.0, 2.0, 3.0], "b": [5.0, 5.0]})
    pair = comparison.pair("a", "b", LATENCY)
    assert (pair.questions, pair.statistic) == (2, "ratio of geometric means")
    assert pair.value == pytest.approx((1.0 * 2.0) ** 0.5 / 5.0)
    assert pair.turned().value == pytest.approx(5.0 / 2.0**0.5)


def test_one_question_has_no_interval_and_no_difference_that_is_told() -> None:
    comparison = make_comparison({"a": [1], "b": [0]}, {"a": [1.0], "b": [2.0]})
    assert comparison.method("a").ci95 == {}
    pair = comparison.pair("a", "b", "R@5")
    assert (pair.value, pair.ci95) == (1.0, None)
    assert pair.p_adjusted >= pair.p > 0.5


def test_equal_methods_may_differ_on_other_questions() -> None:
    pair = make_comparison({"a": [1, 0, 0.5], "b": [1, 0, 0.5]}).pair("a", "b", "R@5")
    assert (pair.value, pair.p_adjusted) == (0.0, 1.0)
    assert pair.ci95 == pytest.approx((-0.88, 0.88), abs=0.05)


def test_no_gold_and_one_method_have_no_pairs_of_quality() -> None:
    assert make_comparison({"a": [], "b": []}, {"a": [1.0, 2.0], "b": [2.0, 3.0]}).pairs[0].metric == LATENCY
    assert make_comparison({"a": [1, 0]}).pairs == ()


def test_breakdown_by_hops_and_by_kind() -> None:
    kinds = ["2hop", "2hop", "3hop1", "3hop2", "comparison"]
    comparison = make_comparison({"a": [1, 0, 1, 0.5, 0], "b": [0, 0, 0, 0, 1]}, kinds=kinds)
    groups = {(group.by, group.value): group for group in comparison.method("a").breakdown}
    assert {key: (group.questions, group.metrics["R@5"]) for key, group in groups.items()} == {
        ("hops", "2"): (2, 0.5),
        ("hops", "3"): (2, 0.75),
        ("hops", "other"): (1, 0.0),
        ("kind", "2hop"): (2, 0.5),
        ("kind", "3hop1"): (1, 1.0),
        ("kind", "3hop2"): (1, 0.5),
        ("kind", "comparison"): (1, 0.0),
    }
    assert groups["hops", "2"].ci95["R@5"] == pytest.approx((0.0, 1.0), abs=1e-9)
    assert groups["kind", "3hop1"].ci95 == {}
    assert groups["hops", "2"].to_json()["ci95"] == {"R@5": list(groups["hops", "2"].ci95["R@5"])}


def test_breakdown_by_whether_the_question_names_a_title() -> None:
    """Three of four questions do; the mean over all four, 75 %, hides that `a` found none of the others."""
    usages = [Usage(0.0, 100 * number, 0) for number in (1, 2, 3, 6)]
    comparison = make_comparison(
        {"a": [1, 1, 1, 0], "b": [1, 0, 1, 1]},
        {"a": [1.0, 2.0, 3.0, 40.0], "b": [4.0] * 4},
        naming=["q1", "q2", "q3"],
        paid={"a": usages},
    )
    other, named = comparison.method("a").breakdown  # in alphabetical order
    counts = [(group.by, group.value, group.questions) for group in (named, other)]
    assert counts == [("title", "title named", 3), ("title", "no title named", 1)]
    assert (named.metrics["R@5"], other.metrics["R@5"]) == (1.0, 0.0)
    assert (named.latency.p50, named.latency.p95, other.latency.p50) == (2.0, 2.9, 40.0)
    assert (named.usage.input_tokens, other.usage.input_tokens) == (200.0, 600.0)
    assert named.to_json()["latency_ms"] == {"p50": 2.0, "p95": 2.9}
    usage = {"input_tokens": 200.0, "output_tokens": 0.0, "estimated": False, "money": 0.0, "calls": 0.0}
    assert named.to_json()["usage"] == usage
    assert [group.metrics["R@5"] for group in comparison.method("b").breakdown] == [1.0, pytest.approx(2 / 3)]
    everywhere = make_comparison({"a": [1, 0]}, naming=["q1", "q2"])
    assert everywhere.method("a").breakdown == ()


def test_no_breakdown_where_it_would_say_nothing() -> None:
    assert make_comparison({"a": [1, 0]}).method("a").breakdown == ()
    assert make_comparison({"a": [1, 0]}, kinds=["bridge", "bridge"]).method("a").breakdown == ()
    by = {group.by for group in make_comparison({"a": [1, 0]}, kinds=["2hop", "3hop"]).method("a").breakdown}
    assert by == {"hops"}  # the kinds say the same
    assert (
        make_comparison({"a": [1] * 30}, kinds=[f"kind {number}" for number in range(30)]).method("a").breakdown == ()
    )


@pytest.mark.parametrize(
    ("kind", "expected"), [("2hop", 2), ("3hop1", 3), ("4-hop", 4), ("12 hop", 12), ("bridge", None), ("", None)]
)
def test_hops_are_read_off_the_kind(kind: str, expected: int | None) -> None:
    assert hops(kind) == expected
