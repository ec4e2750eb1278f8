"""What `compare` suggests to use."""

from made_comparisons import make_comparison

from ragindex_eval.cli.compare import _find_quickest_leader, _suggest_exports


def test_a_quicker_method_is_named_only_if_it_is_one_of_the_best_for_certain() -> None:
    slow, quick = [4.0, 6.0] * 20, [1.0, 1.5] * 20
    some = [1.0] * 20 + [0.0] * 20
    made_of = {"first": some, "second": some, "worse": [0.0] * 40}
    assert _find_quickest_leader(make_comparison(made_of, {"first": slow, "second": quick, "worse": quick})) == "second"
    assert _find_quickest_leader(make_comparison(made_of, {"first": slow, "second": slow, "worse": quick})) is None
    assert _find_quickest_leader(make_comparison({"first": []}, {"first": slow})) is None


def test_of_equally_quick_methods_the_better_one_is_named() -> None:
    """As of two variants of a method: a little less time is no reason for lower figures, a quarter of it is."""
    slow, quick, quickest = [4.0, 6.0] * 20, [1.0, 1.5] * 20, [0.95, 1.45] * 20
    recalls = {"first": [1.0] * 40, "better": [1.0] * 39 + [0.0], "worse": [1.0] * 38 + [0.0] * 2}
    assert (
        _find_quickest_leader(make_comparison(recalls, {"first": slow, "better": quick, "worse": quickest})) == "better"
    )
    far = [0.2, 0.3] * 20
    assert _find_quickest_leader(make_comparison(recalls, {"first": slow, "better": quick, "worse": far})) == "worse"


def test_a_quicker_method_that_another_metric_excludes_is_not_suggested() -> None:
    slow, quick = [4.0, 6.0] * 20, [1.0, 1.5] * 20
    ranked = {"nDCG@5": {"first": [1.0] * 40, "second": [0.5, 0.6] * 20}}
    equal = {"first": [1.0] * 40, "second": [1.0] * 40}
    assert _find_quickest_leader(make_comparison(equal, {"first": slow, "second": quick}, also=ranked)) is None
    assert _find_quickest_leader(make_comparison(equal, {"first": slow, "second": quick})) == "second"


def test_nothing_is_called_the_best_where_several_may_be_and_a_faster_one_comes_first() -> None:
    slow, quick = [4.0, 6.0] * 20, [1.0, 1.5] * 20
    some, none = [1.0] * 20 + [0.0] * 20, [0.0] * 40
    both = {"first": some, "second": some}
    first = "export   # first, not significantly ahead at R@5"
    assert _suggest_exports(make_comparison(both, {"first": slow, "second": quick}), "export") == [
        ("use the fastest", "export --method second   # faster than first, and behind it by no metric for certain"),
        ("or the first", first),
    ]
    assert _suggest_exports(make_comparison(both, {"first": slow, "second": slow}), "export") == [
        ("use the first", first)
    ]
    apart = make_comparison({"first": some, "second": none}, {"first": slow, "second": quick})
    assert _suggest_exports(apart, "export") == [("use the best", "export   # first")]
