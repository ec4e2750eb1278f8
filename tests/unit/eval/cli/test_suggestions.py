"""What `compare` suggests to use."""

from made_comparisons import made

from ragindex_eval.cli.compare import _find_quickest_leader, _suggest_exports


def test_a_quicker_method_is_named_only_if_it_is_one_of_the_best_for_certain() -> None:
    slow, quick = [4.0, 6.0] * 20, [1.0, 1.5] * 20
    some = [1.0] * 20 + [0.0] * 20
    made_of = {"first": some, "second": some, "worse": [0.0] * 40}
    assert _find_quickest_leader(made(made_of, {"first": slow, "second": quick, "worse": quick})) == "second"
    assert _find_quickest_leader(made(made_of, {"first": slow, "second": slow, "worse": quick})) is None
    assert _find_quickest_leader(made({"first": []}, {"first": slow})) is None


def test_a_quicker_method_that_another_metric_excludes_is_not_suggested() -> None:
    slow, quick = [4.0, 6.0] * 20, [1.0, 1.5] * 20
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
