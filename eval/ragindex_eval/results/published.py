"""Published figures beside those of a comparison, as values, and their conversion to and from JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter

from ragindex_eval.format import points

FigureVerdict: TypeAlias = Literal["within the interval", "differs", "not comparable", "no interval", "not measured"]
GainVerdict: TypeAlias = Literal["agrees", "contradicts", "unclear", "not measured"]
_Bounds: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ComparedCondition:
    """A condition of the published figures, and what it is in this comparison."""

    name: str
    published: str
    here: str
    equal: bool

    def __str__(self) -> str:
        counted = f"{self.here} {self.name}" if self.name in _COUNTED else f"{self.name} is {self.here}"
        return f"{counted}, published {self.published}"


_COUNTED = ("questions", "documents", "passages")


@dataclass(frozen=True, slots=True)
class ComparedGain:
    """Difference to the row `over`, published and here, with the interval of the latter.

    `direction` says whether the signs agree; "unclear" if 0 is in the interval.
    """

    over: str
    published: float
    here: float | None
    ci95: _Bounds | None
    direction: GainVerdict


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A published figure, and that of this comparison with its interval, as fractions of 1.

    If the conditions are equal, the verdict is "within the interval" if it holds the published one, else "differs".
    """

    method: str
    metric: str
    published: float
    here: float | None
    ci95: _Bounds | None
    verdict: FigureVerdict
    gain: ComparedGain | None

    @property
    def difference(self) -> str:
        """The figure here minus the published one, in percentage points, with its interval; "" if not measured."""
        if self.here is None:
            return ""
        shifted = (
            "" if self.ci95 is None else f" ({_between(self.ci95[0] - self.published, self.ci95[1] - self.published)})"
        )
        return f"{points(self.here - self.published)}{shifted}"


@dataclass(frozen=True, slots=True)
class PublishedComparison:
    """All figures of one published table on one data set; `unchecked` are conditions that no run can tell."""

    source: str
    data: str
    conditions: tuple[ComparedCondition, ...]
    unchecked: tuple[str, ...]
    figures: tuple[ComparedFigure, ...]

    @property
    def reason(self) -> str:
        """Why the figures are not comparable: the conditions that differ; "" if all are equal."""
        return "; ".join(str(condition) for condition in self.conditions if not condition.equal)

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON object that `from_json` reads."""
        value: dict[str, Any] = _JSON.dump_python(self, mode="json")
        return value

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "PublishedComparison":
        """Read a JSON object. Raises ValueError if it does not describe such a comparison."""
        return _JSON.validate_python(value)


_JSON = TypeAdapter(PublishedComparison)


def _between(low: float, high: float) -> str:
    return f"{points(low).removeprefix('+')} to {points(high).removeprefix('+')}"
