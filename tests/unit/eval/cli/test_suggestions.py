"""What `compare` suggests to use."""

import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_comparisons import make_comparison

from examples import examples
from ragindex_eval.cli.compare import _find_quickest_leader, _suggest_exports
from ragindex_eval.conclusions.first_sentence import state_conclusion
from ragindex_eval.report.tables import make_table
from ragindex_eval.results.model import Comparison


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


def read_not_excluded(conclusion: str, comparison: Comparison) -> set[str]:
    """The methods that the first sentence does not exclude as the best at R@5."""
    if conclusion.startswith("No method can be excluded as the best at R@5"):
        return {method.label for method in comparison.methods}
    if best := re.match(r"(\w+) is best at R@5", conclusion):
        return {best[1]}
    led = re.match(
        r"(\w+) leads at R@5 \([^)]*\), and ([\w, ]+) cannot be excluded as the best \(n = \d+\)\.", conclusion
    )
    assert led is not None
    return {led[1], *re.split(r", | and ", led[2])}


@settings(max_examples=examples(15))
@given(st.integers(2, 5), st.integers(2, 60), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 1.5]))
def test_sentence_bold_figures_and_suggestions_never_disagree(
    count: int, questions: int, seed: int, far: float
) -> None:
    """Whatever the other metrics and the times are."""
    draws = np.random.default_rng(seed)
    labels = "abcde"[:count]

    def draw_scores() -> dict[str, list[float]]:
        latent = draws.normal(0, 1, questions)[:, None] + draws.normal(0, far, count) + draws.normal(0, 0.3, count)
        return dict(
            zip(labels, (latent + draws.normal(0, 0.5, latent.shape) > 0).T.astype(float).tolist(), strict=True)
        )

    recalls, also = draw_scores(), {name: draw_scores() for name in ("nDCG@5", "R@10", "F1")}
    times = {label: (draws.choice([1.0, 9.0]) * draws.lognormal(0, 0.1, questions)).tolist() for label in labels}
    ranked = dict(sorted(recalls.items(), key=lambda item: -sum(item[1])))  # as `compare` does
    comparison = make_comparison(ranked, times, also=also, ks=(5, 10))
    conclusion = state_conclusion(comparison)
    possible = read_not_excluded(conclusion, comparison)
    for _, line in _suggest_exports(comparison, "export"):
        chosen = re.search(r"--method (\w+)|# (\w+)", line)
        assert chosen is not None
        assert (chosen[1] or chosen[2]) in possible
    table = make_table(comparison)
    place = [column.title for column in table.columns].index("R@5")
    bold = {row.label for row in table.rows if row.cells[place].best}
    assert bold == (possible if len(possible) < count else set())
    assert "exclude" not in re.sub(r"excluded as the best( at R@5)? \(n", "", conclusion)  # by no other metric
