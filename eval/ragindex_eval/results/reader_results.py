"""Frozen values for the answers of a reader, which answers questions from retrieved passages."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ragindex.types import Usage

_NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class ReaderAnswer:
    """A reader's answer to one question; `error` says why there is no answer.

    `found` says whether the passages contain the answer, and `rests_on` are the ids of the hits that support it.
    `tokens` counts the passages and notes that were read. `usage` and `calls` are the costs of the first time that the
    LLM was asked, even if the answer came from the cache.
    """

    answer: str
    found: bool
    rests_on: tuple[str, ...] = ()
    tokens: int = 0
    usage: Usage = _NO_USAGE
    calls: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReaderFacts:
    """The reader of a comparison: its LLM, token limit, whether tokens are estimated, and the style of its prompt."""

    llm: str
    tokens: int
    estimated: bool
    prompt: str = "six-words"

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON object `{"llm", "tokens", "estimated", "prompt"}`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReadingCosts:
    """Mean costs of reading per question; they are not part of a method's own costs.

    `context_tokens` counts passages and notes, `input_tokens` the whole prompts. `money` is None if it is unknown.
    """

    input_tokens: float
    output_tokens: float
    money: float | None
    calls: float
    context_tokens: float

    def to_json(self) -> dict[str, float | None]:
        """Convert to a JSON object with all fields."""
        return asdict(self)


def costs(readings: Sequence[ReaderAnswer]) -> ReadingCosts | None:
    """Return the mean costs of the readings; None if there are none."""
    if not readings:
        return None
    whole, questions = sum((reading.usage for reading in readings), _NO_USAGE), len(readings)
    return ReadingCosts(
        whole.input_tokens / questions,
        whole.output_tokens / questions,
        None if whole.money is None else whole.money / questions,
        sum(reading.calls for reading in readings) / questions,
        sum(reading.tokens for reading in readings) / questions,
    )
