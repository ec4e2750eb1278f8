"""Report section on what the questions can show, and how many more would settle what is open."""

from dataclasses import dataclass

from ragindex_eval.format import about_questions, percent
from ragindex_eval.results.model import Comparison


@dataclass(frozen=True, slots=True)
class EnoughFigures:
    """Rows of numbers of questions with the smallest difference they show, and of open rivals with questions to add."""

    metric: str
    best: str
    power: str
    smallest: tuple[tuple[str, str], ...]
    settle: tuple[tuple[str, str], ...]


def render_enough(comparison: Comparison) -> EnoughFigures | None:
    """Make both tables; None if the comparison says nothing about it."""
    plan = comparison.enough
    if plan is None:
        return None
    return EnoughFigures(
        plan.metric,
        plan.best,
        f"{100 * plan.power:.0f}",
        tuple((f"{count:,}", "none" if least is None else percent(least)) for count, least in plan.smallest),
        tuple((label, "no number" if more is None else about_questions(more)) for label, more in plan.settle),
    )
