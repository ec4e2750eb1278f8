"""Report section on methods that find nothing for questions that no document answers."""

from dataclasses import dataclass

from ragindex_eval.results.model import Comparison


@dataclass(frozen=True, slots=True)
class NothingRow:
    """Method, with shares of questions for which it finds nothing, and the threshold of the score that all suggest."""

    label: str
    rightly: str
    wrongly: str
    threshold: str


@dataclass(frozen=True, slots=True)
class NothingTable:
    """Rows of all methods, and the fewest questions that a share of them is of."""

    rows: tuple[NothingRow, ...]
    fewest: int


def render_nothing(comparison: Comparison) -> NothingTable | None:
    """Make the table; None if no questions are marked as unanswerable."""
    rows = tuple(
        NothingRow(
            row.label,
            row.rightly.describe(),
            row.wrongly.describe(),
            "none" if row.threshold is None else f"{row.threshold:.4g}",
        )
        for row in comparison.finds_nothing
    )
    fewest = min((min(row.rightly.of, row.wrongly.of) for row in comparison.finds_nothing), default=0)
    return NothingTable(rows, fewest) if rows else None
