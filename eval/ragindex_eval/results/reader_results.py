"""What a reader made of what was found: frozen values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ragindex.types import Usage

_NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class ReaderAnswer:
    """What was answered to one question; `error` says why there is no answer.

    `found` says whether the passages hold it, `rests_on` names the hits that it rests on. `tokens` are those of the
    passages and notes that were read, `usage` and `calls` what that cost when it was first asked.
    """

    answer: str
    found: bool
    rests_on: tuple[str, ...] = ()
    tokens: int = 0
    usage: Usage = _NO_USAGE
    calls: int = 0
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "ReaderAnswer":
        """The other way. Raises KeyError and TypeError for what is no reading."""
        usage, rests_on = Usage(**value["usage"]), tuple(value["rests_on"])
        return ReaderAnswer(**{**value, "usage": usage, "rests_on": rests_on})


@dataclass(frozen=True, slots=True)
class ReaderFacts:
    """Who read, and how many tokens of what was found they were given at most."""

    llm: str
    tokens: int
    estimated: bool

    def to_json(self) -> dict[str, Any]:
        """`{"llm", "tokens", "estimated"}`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReadingCosts:
    """The means over the questions that were to be read, of what reading cost; none of it is a method's own.

    `context_tokens` are those of the passages and notes, `input_tokens` those of the whole prompts. `money` is None
    where it is not known.
    """

    input_tokens: float
    output_tokens: float
    money: float | None
    calls: float
    context_tokens: float

    def to_json(self) -> dict[str, float | None]:
        """All fields."""
        return asdict(self)


def costs(readings: Sequence[ReaderAnswer]) -> ReadingCosts | None:
    """None where nothing was read."""
    if not readings:
        return None
    whole, questions = sum((one.usage for one in readings), _NO_USAGE), len(readings)
    return ReadingCosts(
        whole.input_tokens / questions,
        whole.output_tokens / questions,
        None if whole.money is None else whole.money / questions,
        sum(one.calls for one in readings) / questions,
        sum(one.tokens for one in readings) / questions,
    )
