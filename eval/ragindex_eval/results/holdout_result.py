"""A choice on questions that were sealed until it was made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ragindex._util.text import many
from ragindex_eval.format import percent, points


@dataclass(frozen=True, slots=True)
class HoldoutResult:
    """A choice confirmed by `questions` of a sealed file, `used` (UTC) after the choice was made.

    `chosen` is the best method on the other questions, and `rival` the next. `earlier` describes earlier uses of these
    questions: if there is one, the figures confirm nothing.
    """

    file: str
    questions: int
    metric: str
    chosen: str
    rival: str
    score: float
    rival_score: float
    difference: tuple[float, float]
    used: str
    earlier: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "HoldoutResult":
        """Convert from a JSON object."""
        low, high = value["difference"]
        return HoldoutResult(**{**value, "difference": (low, high), "earlier": tuple(value["earlier"])})

    def describe(self) -> tuple[str, ...]:
        """Return sentences for reports: the figures, which came after the choice, and what weakens them."""
        low, high = self.difference
        first = (
            f"Holdout {self.file}, asked once the choice was made ({self.used}, {many(self.questions, 'question')}): "
            f"{self.metric} of {self.chosen} {percent(self.score)}, of {self.rival} {percent(self.rival_score)}; "
            f"difference {points(low)} to {points(high)} points (95 %). All other figures were there before the choice."
        )
        if not self.earlier:
            return (first,)
        return (
            f"{first} The holdout was REUSED, so it confirms nothing: it was used {many(len(self.earlier), 'time')} "
            f"before, first {self.earlier[0]}.",
        )
