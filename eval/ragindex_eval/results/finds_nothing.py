"""How often a method finds nothing, rightly or wrongly, where hits below a score do not count."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class QuestionShare:
    """`count` of `of` questions, and the 95 % interval of their share."""

    count: int
    of: int
    low: float
    high: float

    def describe(self) -> str:
        """Return the share with its interval in percent, and the numbers."""
        share, low, high = (f"{100 * value:.0f}" for value in (self.count / self.of, self.low, self.high))
        return f"{share} % ({low} to {high}), {self.count:,} of {self.of:,}"


@dataclass(frozen=True, slots=True)
class FindsNothing:
    """Shares of the questions for which the best score of a method lies below a threshold, or that have no hits.

    `rightly` is of the questions that no document answers, `wrongly` of those with gold documents. For each question
    the threshold was chosen on the others. `threshold` is the one that is chosen on all; None if only questions without
    hits should count.
    """

    label: str
    rightly: QuestionShare
    wrongly: QuestionShare
    threshold: float | None

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "FindsNothing":
        """Convert from a JSON object."""
        shares = {name: QuestionShare(**value[name]) for name in ("rightly", "wrongly")}
        return FindsNothing(value["label"], **shares, threshold=value["threshold"])
