"""Coverage of gold pairs by clusters, the sizes of pools and what they cost: by hand, and in a report."""

from dataclasses import replace
from pathlib import Path

from made_comparisons import make_comparison
from made_trees import Compass, around, at

from ragindex.index.index import Index
from ragindex.parts.trees.summary_tree import SummaryTree
from ragindex.plugins import registry
from ragindex_eval.report.sections import coverage
from ragindex_eval.report.sections.coverage import CoverageRow, PoolRow
from ragindex_eval.results.records import Coverage, Grouping
from ragindex_eval.run.tree_coverage import count_coverage, measure_coverage

ALIKE = [["a", "b", "c"], ["c", "d"]]
RELATED = [["a", "d"], ["b", "a"], ["e"]]
GOLD = [["b", "a"], ["a", "c", "d"], ["a", "b"], ["d", "e"]]
"""The pairs ab, ac, ad, cd, de: ab is needed twice and counts once."""
FOUND = Coverage(
    4,
    5,
    (Grouping("alike", 2, 2.5, 0.4, 3, {"related": 1}), Grouping("related", 3, 5 / 3, 0.2, 2, {"alike": 1})),
    {"small": 100, "large": 300},
)


def test_pairs_by_hand() -> None:
    """Of five documents there are ten pairs: 3 + 1 are in a cluster of one grouping together, 1 + 1 of the other."""
    assert count_coverage({"alike": ALIKE, "related": RELATED}, GOLD, {"small": 100, "large": 300}, 5) == FOUND
    assert count_coverage({}, [], {"x": 1}, 0) == Coverage(0, 0, (), {"x": 1})
    (twice,) = count_coverage({"x": [["a", "b"], ["a", "b"]]}, [["a", "b"]], {}, 2).groupings
    assert (twice.chance, twice.pairs) == (1.0, 1)
    assert Coverage.from_json(FOUND.to_json()) == FOUND


def test_pairs_of_all_candidates_by_hand() -> None:
    """Question 1 lists a, b and the distractor c: ab, ac, bc. Question 2 lists d alone. The cluster bc covers bc."""
    counted = count_coverage({"x": [["b", "c"], ["d"]]}, [["a", "b"]], {}, 4, candidates=[["a", "b", "c"], ["d"]])
    assert (counted.pairs, counted.candidate_pairs) == (1, 3)
    assert (counted.groupings[0].pairs, counted.groupings[0].candidate_pairs) == (0, 1)
    assert Coverage.from_json(counted.to_json()) == counted
    row = coverage.render_coverage(replace(make_comparison({"x": [1.0]}), coverage=replace(counted, pools={"x": 4})))
    assert row is not None
    assert (row.rows[0].share, row.rows[0].listed, row.candidate_pairs) == ("0.0", "33.3", 3)


def test_the_clusters_of_a_tree_are_those_of_its_first_level(tmp_path: Path) -> None:
    tree = SummaryTree(dimensions=2, stop_at=2)
    rings = [*around("a", 0, 0.5, 8), *around("b", 1, 0.5, 8), *around("c", 2, 0.1, 3), at("m", 1, 1, 0)]
    with Index.open(tmp_path, chunking=None, encoder=Compass(), create=True) as workspace:
        workspace.add(rings)
        scheme = registry.scheme({"name": "raptor", "params": {"tree": "summary_tree(dimensions=2, stop_at=2)"}})
        workspace.build(scheme)
        gold = [["a1", "m"], ["m", "b2"], ["a1", "b2"], ["c1", "c3"], ["a1"]]
        assert measure_coverage(workspace, {"rings": scheme, "flat": registry.scheme("bm25")}, gold) == Coverage(
            4, 4, (Grouping(f"{registry.label(tree)}, level 1", 3, 7.0, 75 / 190, 3, {}),), {"rings": 24}
        )
        assert measure_coverage(workspace, {"flat": registry.scheme("bm25")}, gold) is None


def test_the_section() -> None:
    comparison = make_comparison({"small": [1.0], "large": [1.0]}, {"small": [20.0, 40.0], "large": [60.0, 60.0]})
    values = coverage.render_coverage(replace(comparison, coverage=FOUND))
    assert values is not None
    assert values.rows == (
        CoverageRow("alike", "2", "2.5", "60.0", "–", "40.0", ("", "33.3")),
        CoverageRow("related", "3", "1.7", "40.0", "–", "20.0", ("50.0", "")),
    )
    assert [column.title for column in values.columns[-3:]] == ["by chance, %", "also by 1, %", "also by 2, %"]
    assert values.columns[-1].meaning == "of these, related covers too"
    assert values.pools == (PoolRow("small", "100", "0.0300", "–"), PoolRow("large", "300", "0.0600", "0.67"))
    assert coverage.render_coverage(comparison) is None
    without = coverage.render_coverage(replace(comparison, coverage=replace(FOUND, pairs=0, questions=0)))
    assert without is not None
    assert without.rows == ()


def test_nothing_is_kept_where_no_method_has_a_tree() -> None:
    assert "coverage" not in make_comparison({"x": [1.0]}).to_json()
