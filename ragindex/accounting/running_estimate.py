"""What a run will have cost at its end: the estimate that it began with, corrected by its own first calls.

Answers may be longer than estimated, models may think, and agents may take more rounds. So the mean cost of a task's
calls moves from the estimated one to the measured one, and the number of an agent's calls follows from the questions
that it has answered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

_WEIGHT = 10  # so many calls weigh as much as the estimate
_LEAST_QUESTIONS = 3  # of so many, the rounds of an agent are known well enough

CallSums: TypeAlias = Mapping[tuple[str, str], tuple[int, float]]
"""Number and dollars of paid calls, by task and method; calls that build an index have the method ""."""


@dataclass(frozen=True, slots=True)
class ExpectedCalls:
    """The estimated calls of a task and their dollars; of one `method` if its questions need them.

    Without a number of calls, as of texts that are encoded many at once, the dollars stand as estimated.
    """

    task: str
    method: str
    calls: float
    money: float


class RunningEstimate:
    """The expected calls of a run. Without any it knows no total."""

    def __init__(self, expected: Iterable[ExpectedCalls] = ()) -> None:
        self._expected = {(each.task, each.method): each for each in expected}

    def project(self, paid: CallSums, progress: Mapping[str, tuple[int, int]]) -> float | None:
        """Return the dollars that the run will have cost, by what is `paid`; None if nothing was expected.

        `asked` has for each method how many of how many questions it has answered.
        """
        if not self._expected:
            return None
        total, others = 0.0, dict(paid)
        for key, expected in self._expected.items():
            calls, money = others.pop(key, (0, 0.0))
            total += _project(expected, calls, money, progress.get(expected.method))
        return total + sum(money for _, money in others.values())


def _project(expected: ExpectedCalls, calls: int, money: float, progress: tuple[int, int] | None) -> float:
    if not calls or not expected.calls:
        return max(expected.money, money)
    each = (money + _WEIGHT * expected.money / expected.calls) / (calls + _WEIGHT)
    answered, questions = progress or (0, 0)
    in_all = max(expected.calls, calls)
    if expected.method and answered >= _LEAST_QUESTIONS:
        in_all = max(calls, calls * questions / answered)
    return money + max(0.0, in_all - calls) * each
