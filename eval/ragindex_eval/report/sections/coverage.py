"""Report section on trees: their coverage of gold document pairs, the sizes of their pools, and query times."""

from dataclasses import dataclass

from ragindex_eval.conclusions.published import measure_efficiency
from ragindex_eval.report.tables import Column
from ragindex_eval.results.model import Comparison
from ragindex_eval.results.records import Coverage

_COLUMNS = (
    Column("clusters", ""),
    Column("documents each", "in the mean"),
    Column("pairs covered, %", "of the pairs of documents that a question needs"),
    Column("candidate pairs, %", "of the pairs of documents that the benchmark lists with a question, distractors too"),
    Column(
        "by chance, %", "of all pairs of documents, how many are in a cluster together; at most, for clusters overlap"
    ),
)


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """Coverage of one grouping.

    `share` and `listed` are the shares of gold pairs and of pairs of candidates that it covers, `chance` the most that
    it would cover by chance, and `also` the shares of its covered pairs that the other groupings cover too.
    """

    name: str
    clusters: str
    documents: str
    share: str
    listed: str
    chance: str
    also: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolRow:
    """Pool size of a method, seconds per question with reading (TPQ), and their growth relative to the pool (TPER)."""

    label: str
    nodes: str
    seconds: str
    ratio: str


@dataclass(frozen=True, slots=True)
class CoverageTables:
    """Tables of coverage and pools; TPER compares with the method `smallest`, which has the smallest pool."""

    questions: int
    pairs: int
    candidate_pairs: int
    columns: tuple[Column, ...]
    rows: tuple[CoverageRow, ...]
    pools: tuple[PoolRow, ...]
    smallest: str


def render_coverage(comparison: Comparison) -> CoverageTables | None:
    """Make the tables; None if no method searches a tree."""
    coverage = comparison.coverage
    if coverage is None:
        return None
    names = tuple(grouping.name for grouping in coverage.groupings) if coverage.pairs else ()
    rows = tuple(
        CoverageRow(
            grouping.name,
            f"{grouping.clusters:,}",
            f"{grouping.documents:.1f}",
            _format_share(grouping.pairs, coverage.pairs),
            _format_share(grouping.candidate_pairs, coverage.candidate_pairs),
            f"{100 * grouping.chance:.1f}",
            tuple(
                "" if name == grouping.name else _format_share(grouping.also[name], grouping.pairs) for name in names
            ),
        )
        for grouping in coverage.groupings
        if coverage.pairs
    )
    smallest = min(coverage.pools, key=lambda label: coverage.pools[label])
    pools = tuple(_pool_row(comparison, coverage, label, smallest) for label in coverage.pools)
    columns = (
        *_COLUMNS,
        *(Column(f"also by {n}, %", f"of these, {name} covers too") for n, name in enumerate(names, 1)),
    )
    return CoverageTables(coverage.questions, coverage.pairs, coverage.candidate_pairs, columns, rows, pools, smallest)


def _format_share(part: int, total: int) -> str:
    return f"{100 * part / total:.1f}" if total else "–"


def _pool_row(comparison: Comparison, coverage: Coverage, label: str, smallest: str) -> PoolRow:
    methods = {method.label: method for method in comparison.methods}
    growth = None if label == smallest else measure_efficiency(methods, coverage.pools, label, smallest)
    taken, ratio = methods[label].seconds_per_question, "–" if growth is None else f"{growth:.2f}"
    return PoolRow(label, f"{coverage.pools[label]:,}", "–" if taken is None else f"{taken:.4f}", ratio)
