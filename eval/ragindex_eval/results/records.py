"""The base of the values that result files hold, and those of a comparison beside the figures of its methods.

Each value is a pydantic dataclass: what is read from a file is checked, and it is written as it is declared.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from ragindex._util.text import many
from ragindex.types import Usage
from ragindex_eval.data.published import EFFICIENCY
from ragindex_eval.format import percent, points, signed
from ragindex_eval.stats.intervals import Interval

NO_USAGE = Usage()


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def make_adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Return what converts values of a type to JSON and back."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


class ResultValue:
    """Value of a result file, which pydantic converts to JSON and checks when it is read."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        value: dict[str, Any] = make_adapter(type(self)).dump_python(self, mode="json")
        return value

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read a JSON object. Raises ValueError if it does not describe such a value."""
        result: Self = make_adapter(cls).validate_python(value)
        return result


# ---------------------------------------------------------------- answers of a reader


@dataclass(frozen=True, slots=True)
class ReaderAnswer(ResultValue):
    """A reader's answer to one question; `error` says why there is no answer.

    `found` says whether the passages contain the answer, and `rests_on` are the ids of the hits that support it.
    `tokens` counts the passages and notes that were read. `usage` and `calls` are the costs of the first time that the
    LLM was asked, even if the answer came from the cache.
    """

    answer: str
    found: bool
    rests_on: tuple[str, ...] = ()
    tokens: int = 0
    usage: Usage = NO_USAGE
    calls: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReaderFacts(ResultValue):
    """The reader of a comparison: its LLM, what it is given of each retrieval, and the style of its prompt.

    It is given at most `tokens` tokens, counted or `estimated`, of at most `passages` hits; None is no limit. The
    `input` is "notes", those of the method and its hits, or "passages", the hits alone.
    """

    llm: str
    tokens: int | None
    estimated: bool
    prompt: str = "six-words"
    passages: int | None = None
    input: Literal["notes", "passages"] = "notes"

    def describe_input(self, most: str, counted: str) -> str:
        """Return in words what the reader is given: `most` stands before a number of tokens, `counted` behind it."""
        hits = "what was found" if self.passages is None else f"the first {many(self.passages, 'hit')}"
        amount = f"{hits}, in full" if self.tokens is None else f"{most}{self.tokens:,} tokens{counted} of {hits}"
        return amount if self.input == "notes" else f"{amount}, without notes"


@dataclass(frozen=True, slots=True)
class ReadingCosts(ResultValue):
    """Mean costs of reading per question; they are not part of a method's own costs.

    `context_tokens` counts passages and notes, `input_tokens` the whole prompts. `money` is None if it is unknown.
    """

    input_tokens: float
    output_tokens: float
    money: float | None
    calls: float
    context_tokens: float


def mean_reading_costs(readings: Sequence[ReaderAnswer]) -> ReadingCosts | None:
    """Return the mean costs of the readings; None if there are none."""
    if not readings:
        return None
    total, questions = sum((reading.usage for reading in readings), NO_USAGE), len(readings)
    return ReadingCosts(
        total.input_tokens / questions,
        total.output_tokens / questions,
        None if total.money is None else total.money / questions,
        sum(reading.calls for reading in readings) / questions,
        sum(reading.tokens for reading in readings) / questions,
    )


# ---------------------------------------------------------------- questions: what they show, and what has none


@dataclass(frozen=True, slots=True)
class QuestionPlan(ResultValue):
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


@dataclass(frozen=True, slots=True)
class QuestionShare(ResultValue):
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
class FindsNothing(ResultValue):
    """Shares of the questions for which the best score of a method lies below a threshold, or that have no hits.

    `rightly` is of the questions that no document answers, `wrongly` of those with gold documents. For each question
    the threshold was chosen on the others. `threshold` is the one that is chosen on all; None if only questions without
    hits should count.
    """

    label: str
    rightly: QuestionShare
    wrongly: QuestionShare
    threshold: float | None


# ---------------------------------------------------------------- holdout


@dataclass(frozen=True, slots=True)
class HoldoutResult(ResultValue):
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


# ---------------------------------------------------------------- published figures


FigureVerdict: TypeAlias = Literal["within the interval", "differs", "not comparable", "no interval", "not measured"]
GainVerdict: TypeAlias = Literal["agrees", "contradicts", "unclear", "not measured"]
_COUNTED = ("questions", "documents", "passages")


@dataclass(frozen=True, slots=True)
class ComparedCondition(ResultValue):
    """A condition of the published figures, and what it is in this comparison."""

    name: str
    published: str
    here: str
    equal: bool

    def __str__(self) -> str:
        counted = f"{self.here} {self.name}" if self.name in _COUNTED else f"{self.name} is {self.here}"
        return f"{counted}, published {self.published}"


@dataclass(frozen=True, slots=True)
class ComparedGain(ResultValue):
    """Difference to the row `over`, published and here, with the interval of the latter.

    `direction` says whether the signs agree; "unclear" if 0 is in the interval.
    """

    over: str
    published: float
    here: float | None
    ci95: Interval | None
    direction: GainVerdict


@dataclass(frozen=True, slots=True)
class ComparedFigure(ResultValue):
    """A published figure, and that of this comparison with its interval; shares as fractions of 1.

    If the conditions are equal, the verdict is "within the interval" if it holds the published one, else "differs".
    """

    method: str
    metric: str
    published: float
    here: float | None
    ci95: Interval | None
    verdict: FigureVerdict
    gain: ComparedGain | None

    @property
    def difference(self) -> str:
        """The figure here minus the published one, in percentage points, with its interval; "" if not measured."""
        if self.here is None:
            return ""
        if self.metric in EFFICIENCY:
            return signed(self.here - self.published)
        shifted = (
            "" if self.ci95 is None else f" ({_between(self.ci95[0] - self.published, self.ci95[1] - self.published)})"
        )
        return f"{points(self.here - self.published)}{shifted}"


@dataclass(frozen=True, slots=True)
class PublishedComparison(ResultValue):
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


def _between(low: float, high: float) -> str:
    return f"{points(low).removeprefix('+')} to {points(high).removeprefix('+')}"


# ---------------------------------------------------------------- trees of summaries


@dataclass(frozen=True, slots=True)
class Grouping(ResultValue):
    """Coverage of one grouping of documents.

    `documents` is the mean number of documents per cluster. `pairs` counts the gold pairs that the grouping covers, and
    `also` those of them that another grouping covers too, by its name. `chance` is the expected coverage of random
    pairs: the share of all pairs of documents that are in a cluster together. It is an upper bound, because a pair
    counts once for each cluster that holds it. `candidate_pairs` counts the covered pairs of candidates.
    """

    name: str
    clusters: int
    documents: float
    chance: float
    pairs: int
    also: Mapping[str, int]
    candidate_pairs: int = 0


@dataclass(frozen=True, slots=True)
class Coverage(ResultValue):
    """Coverage of the distinct gold pairs by all groupings; `pools` maps methods to the number of nodes they search.

    `candidate_pairs` is the number of distinct pairs of candidates, 0 if the benchmark lists none.
    """

    questions: int
    pairs: int
    groupings: tuple[Grouping, ...]
    pools: Mapping[str, int]
    candidate_pairs: int = 0
