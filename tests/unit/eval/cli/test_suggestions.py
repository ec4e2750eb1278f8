"""What `compare` suggests to use."""

import pytest
from made_comparisons import made

from ragindex_eval.cli.compare import _find_quickest_leader, _suggest_exports
from ragindex_eval.stats.conclusions import leaders


def test_a_quicker_method_is_named_only_if_it_is_one_of_the_best_for_certain() -> None:
    slow, quick = [4.0, 6.0] * 20, [1.0, 1.5] * 20
    some = [1.0] * 20 + [0.0] * 20
    made_of = {"first": some, "second": some, "worse": [0.0] * 40}
    assert _find_quickest_leader(made(made_of, {"first": slow, "second": quick, "worse": quick})) == "second"
    assert _find_quickest_leader(made(made_of, {"first": slow, "second": slow, "worse": quick})) is None
    assert _find_quickest_leader(made({"first": []}, {"first": slow})) is None


def test_a_quicker_method_whose_interval_or_another_metric_excludes_it_is_not_suggested() -> None:
    """`behind` lost 4 of 25 questions and won none: too few for the test of all pairs, and its interval excludes 0."""
    slow, quick = [4.0, 6.0] * 20, [1.0, 1.5] * 20
    first, behind = [1.0] * 25, [1.0] * 21 + [0.0] * 4
    times = {"first": slow[:25], "behind": quick[:25]}
    comparison = made({"first": first, "behind": behind}, times)
    assert (leaders(comparison, "R@5"), comparison.pair("first", "behind", "R@5").ci95) == (
        ("first", "behind"),
        (pytest.approx(0.04), pytest.approx(0.32)),
    )
    assert _find_quickest_leader(comparison) is None
    ranked = {"nDCG@5": {"first": [1.0] * 40, "second": [0.5, 0.6] * 20}}
    equal = {"first": [1.0] * 40, "second": [1.0] * 40}
    assert _find_quickest_leader(made(equal, {"first": slow, "second": quick}, also=ranked)) is None
    assert _find_quickest_leader(made(equal, {"first": slow, "second": quick})) == "second"


def test_nothing_is_called_the_best_where_several_may_be_and_a_faster_one_comes_first() -> None:
    slow, quick = [4.0, 6.0] * 20, [1.0, 1.5] * 20
    some, none = [1.0] * 20 + [0.0] * 20, [0.0] * 40
    both = {"first": some, "second": some}
    first = "export   # first, not significantly ahead at R@5"
    assert _suggest_exports(made(both, {"first": slow, "second": quick}), "export") == [
        ("use the fastest", "export --method second   # the fastest of those that may be best at R@5"),
        ("or the first", first),
    ]
    assert _suggest_exports(made(both, {"first": slow, "second": slow}), "export") == [("use the first", first)]
    apart = made({"first": some, "second": none}, {"first": slow, "second": quick})
    assert _suggest_exports(apart, "export") == [("use the best", "export   # first")]
