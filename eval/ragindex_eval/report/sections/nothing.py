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


def render_nothing(comparison: Comparison) -> tuple[NothingRow, ...] | None:
    """Make the rows; None if no questions are marked as unanswerable."""
    rows = tuple(
        NothingRow(
            row.label,
            row.rightly.describe(),
            row.wrongly.describe(),
            "none" if row.threshold is None else f"{row.threshold:.4g}",
        )
        for row in comparison.finds_nothing
    )
    return rows or None
