from typing import Any

import pytest

from ragindex.errors import UsageError
from ragindex_eval.data.published import require_published_data
from ragindex_eval.run.settings import make_settings

TABLE: dict[str, Any] = {
    "source": "A paper, Table 1",
    "unit": "percent",
    "metrics": ["R@5", "EM"],
    "conditions": {"encoder": "mpnet", "questions": 500},
    "baseline": "bm25",
    "data": {
        "letters": {"figures": {"bm25": [41.7, None], "dense": [50, 12.5]}, "conditions": {"questions": 20, "k": 5}},
        "words": {"figures": {"bm25": [0, 100]}},
    },
}


def table(**changed: Any) -> Any:
    return make_settings({"published": {**TABLE, **changed}}).published


def test_figures_are_fractions_and_missing_ones_are_left_out() -> None:
    assert table().figures_on("letters") == {
        ("bm25", "R@5"): pytest.approx(0.417),
        ("dense", "R@5"): 0.5,
        ("dense", "EM"): 0.125,
    }
    fractions = {"letters": {"figures": {"bm25": [0.417, 1]}}}
    assert table(unit="fraction", data=fractions).figures_on("letters") == {("bm25", "R@5"): 0.417, ("bm25", "EM"): 1.0}


def test_conditions_of_a_data_set_precede_those_of_the_table() -> None:
    assert table().conditions_on("letters") == {"encoder": "mpnet", "questions": 20, "k": 5}
    assert table().conditions_on("words") == {"encoder": "mpnet", "questions": 500}


def test_a_baseline_is_one_row_or_one_for_each_method() -> None:
    assert (table().baseline_of("dense"), table().baseline_of("bm25")) == ("bm25", None)
    each = table(baseline={"dense": "bm25"})
    assert (each.baseline_of("dense"), each.baseline_of("bm25")) == ("bm25", None)
    assert table(baseline={}).baseline_of("dense") is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data": {"letters": {"figures": {"bm25": [41.7]}}}}, "letters, bm25: expected 2 figures, got 1"),
        ({"data": {"letters": {"figures": {"bm25": [101, 0]}}}}, "expected figures from 0 to 100 (percent)"),
        ({"unit": "fraction"}, "letters, bm25: expected figures from 0 to 1 (fraction)"),
        ({"data": {"letters": {"figures": {"bm25": [float("nan"), 0]}}}}, "expected figures from 0 to 100"),
        ({"baseline": "hybrid"}, "baseline: no data set has figures of 'hybrid'"),
        ({"metrics": ["EM", "EM"]}, "the metrics must be different"),
        ({"conditions": {"moon": "full"}}, "Extra inputs are not permitted"),
        ({"unit": "points"}, "'percent' or 'fraction'"),
        ({"source": "x" * 201}, "at most 200 characters"),
    ],
)
def test_a_table_that_is_wrong_says_where(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        table(**changed)
    assert message in str(error.value)
    assert len(str(error.value)) < 250


def test_a_data_set_must_be_one_of_the_table() -> None:
    require_published_data(table(), None)
    require_published_data(table(), "words")
    with pytest.raises(UsageError, match="A paper, Table 1 has no figures on 'sums'. Available: letters, words."):
        require_published_data(table(), "sums")
    with pytest.raises(UsageError, match="Give the table: --config FILE. To run one that"):
        require_published_data(None, "words")
