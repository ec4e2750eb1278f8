"""Variants by --grid, and figures that --fail-below holds."""

import pytest
from made_comparisons import make_comparison

from ragindex.errors import BelowThresholdError, UsageError
from ragindex_baselines.hybrid import Hybrid
from ragindex_eval.results.model import Study
from ragindex_eval.run.plan import choose_methods, expand_grid
from ragindex_eval.run.thresholds import Threshold, parse_threshold, require_methods, require_reached


def varied(methods: list[object], *grids: str) -> dict[str, object]:
    return {method.label: method.scheme for method in expand_grid(choose_methods(methods)[0], grids)}  # type: ignore[arg-type]


STEEP = {"name": "hybrid", "label": "steep", "params": {"depth": 7}}
BOTH = [f"hybrid(rrf_k={k}, depth={depth})" for k in (10, 60) for depth in (50, 100)]
OVER = [f"{method}(over={over})" for method in ("bm25", "dense") for over in ("passages", "passages(size=64)")]


@pytest.mark.parametrize(
    ("methods", "grids", "labels"),
    [
        (["bm25", "hybrid"], ["hybrid:rrf_k=10,60"], ["bm25", "hybrid(rrf_k=10)", "hybrid(rrf_k=60)"]),
        (["hybrid"], ["hybrid:rrf_k=10,60;depth=50,100"], BOTH),
        (["hybrid"], ["hybrid:rrf_k=10,60", "hybrid:depth=50,100"], BOTH),
        ([STEEP], ["steep:rrf_k=1,2"], ["steep(rrf_k=1)", "steep(rrf_k=2)"]),
        (["hybrid(depth=7)"], ["hybrid(depth=7):rrf_k=1"], ["hybrid(depth=7, rrf_k=1)"]),
        (
            ["bm25", "dense"],
            ["over=passages,passages(size=64)"],
            OVER,
        ),
        (["hybrid"], ["hybrid:bases=[bm25],[bm25, dense]"], ["hybrid(bases=[bm25])", "hybrid(bases=[bm25, dense])"]),
    ],
)
def test_every_value_makes_a_variant_in_place(methods: list[object], grids: list[str], labels: list[str]) -> None:
    assert list(varied(methods, *grids)) == labels


def test_variants_have_the_values_of_their_labels() -> None:
    assert list(varied(["hybrid"], "hybrid:rrf_k=10,60").values()) == [Hybrid(rrf_k=10), Hybrid()]
    assert list(varied([STEEP], "steep:rrf_k=1").values()) == [Hybrid(depth=7, rrf_k=1)]
    assert list(varied(["hybrid"], "hybrid:bases=[bm25]").values()) == [Hybrid(bases=("bm25",))]


@pytest.mark.parametrize(
    ("grid", "match"),
    [
        ("hybrid", "must be parameter=value,value or LABEL:parameter=value"),
        ("hybrid:rrf_k", "must be parameter=value,value or LABEL:parameter=value"),
        ("hybrid:rrf_k=", "must be parameter=value,value or LABEL:parameter=value"),
        ("gear:beam_width=5", "names 'gear', which is not in this comparison. Available: hybrid, bm25."),
        ("hybrid:rrf=5", "hybrid has no parameter 'rrf'"),
        ("hybrid:depth=0,5", "'depth' parameter of hybrid must be greater than or equal to 1"),
        ("hybrid:depth=5,", r"expected"),
    ],
)
def test_grids_that_cannot_be(grid: str, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        varied(["hybrid", "bm25"], grid)


def test_thresholds_as_they_are_written() -> None:
    assert parse_threshold("dense:R@5=0.60", (5, 10)) == Threshold("dense", "R@5", 0.6)
    assert parse_threshold("a: b:nDCG@10=1", (5, 10)) == Threshold("a: b", "nDCG@10", 1.0)


@pytest.mark.parametrize(
    ("written", "match"),
    [
        ("dense", "must be LABEL:METRIC=VALUE"),
        ("dense:R@5", "must be LABEL:METRIC=VALUE"),
        ("dense:R@5=60", "value from 0 to 1"),
        ("dense:R@5=nan", "value from 0 to 1"),
        ("dense:R@7=0.5", "names the metric 'R@7', which is not measured. Available: R@5, "),
    ],
)
def test_thresholds_that_cannot_be(written: str, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        parse_threshold(written, (5,))


def test_a_threshold_for_a_method_that_is_not_compared() -> None:
    with pytest.raises(
        UsageError, match="names the method 'gear', which is not in this comparison. Available: bm25, dense."
    ):
        require_methods([Threshold("gear", "R@5", 0.5)], ["bm25", "dense"])


def test_what_is_too_low_is_named() -> None:
    study = Study(
        "two",
        (
            make_comparison({"a": [1, 0], "b": [1, 1]}, name="one"),
            make_comparison({"a": [1, 1], "b": [1, 0]}, name="other"),
        ),
    )
    require_reached(study, [Threshold("a", "R@5", 0.5), Threshold("b", "R@5", 0.5)])
    with pytest.raises(
        BelowThresholdError, match=r"^R@5 of a on one \(encoder lsa, seed 0\) is 0\.5000, below the required 0\.6\.$"
    ):
        require_reached(study, [Threshold("a", "R@5", 0.6)])
    with pytest.raises(BelowThresholdError, match="on made was not measured: the questions have no gold"):
        require_reached(Study("none", (make_comparison({"a": []}, {"a": [1.0]}),)), [Threshold("a", "R@5", 0.0)])
