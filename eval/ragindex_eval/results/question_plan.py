"""What a number of questions can show, as a comparison's own questions tell."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ragindex_eval.format import percent


@dataclass(frozen=True, slots=True)
class QuestionPlan:
    """How small a difference of `best` to another method a number of questions shows, with the probability `power`.

    `spread` is the standard deviation of a question's difference by the metric, the median over the other methods.
    `smallest` has pairs of a number of questions and the smallest difference of means, None if they show none; the
    first is of the questions that were asked. `settle` has the methods that were not excluded as the best, each with
    about how many more questions would show that `best` is better, if the difference stayed; None if no number would.
    """

    metric: str
    best: str
    questions: int
    spread: float
    power: float
    smallest: tuple[tuple[int, float | None], ...]
    settle: tuple[tuple[str, int | None], ...]

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "QuestionPlan":
        """Convert from a JSON object."""
        smallest = tuple((int(count), None if least is None else float(least)) for count, least in value["smallest"])
        settle = tuple((label, count) for label, count in value["settle"])
        return QuestionPlan(**{**value, "smallest": smallest, "settle": settle})

    def describe(self) -> str:
        """Return in a sentence what these questions can show, and what more of them could."""
        (_, least), *others = self.smallest
        more = ", ".join(f"{count:,} of {percent(smaller)}" for count, smaller in others if smaller is not None)
        shown = (
            "are too few to show any difference" if least is None else f"show differences of {percent(least)} points"
        )
        shown += f" of {self.metric}{'' if least is None else ' or more'} between {self.best} and another method"
        power = f"({100 * self.power:.0f} % power)"
        return f"{self.questions:,} questions {shown} {power}{f'; {more}' if more else ''}"
