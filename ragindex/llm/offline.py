"""LLM that does tasks by rules instead of a model. It is the default, so that everything runs without a key."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ragindex._util.workers import current_executor, map_in_processes
from ragindex.accounting import ledger
from ragindex.errors import LLMError, UsageError
from ragindex.interfaces.llm import LLM, LLMPlugin, LLMSettings
from ragindex.llm.tasks import Failure, Output, Task

_INPUTS = 8_192
"""Passages whose rules workers do before they are written; a crash can lose so many."""


def display_name(llm: str) -> str:
    """Return the name of an LLM for display: `offline` is shown as rules."""
    return "rules (no model)" if is_offline(llm) else llm


def is_offline(llm: str) -> bool:
    """Return whether an LLM of this name is the rules."""
    return llm == "offline"


class Offline(LLMPlugin):
    """LLM `offline`: every task is done by its rule, without a model."""

    version: ClassVar[int] = 1

    def open(self, setting: LLMSettings | None = None) -> "OfflineRules":
        """Open the rules. Settings have no effect, as rules cost nothing."""
        return OfflineRules()


class OfflineRules(LLM):
    """LLM that applies the rules of tasks and sends no requests."""

    id = "offline rules"

    @property
    def batch_size(self) -> int:
        """With an executor many, so that all its workers have some, else 1."""
        return 1 if current_executor() is None else _INPUTS

    def run(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0, again: bool = False) -> Output:
        """Apply the task's rule to an input. Raises UsageError if the task has no rule."""
        output, seconds = _apply_rule((self.require_rule(task), inputs))
        if isinstance(output, LLMError):
            raise output
        self.record(task, inputs, output, seconds)
        return output

    def map(
        self,
        task: Task[Output],
        many: Iterable[Mapping[str, Any]],
        *,
        repeat: int = 0,
        again: bool = False,
        progress: Callable[[int], None] = lambda outputs: None,
    ) -> list[Output | Failure]:
        """Run the task on each input, in order. See `LLM.map`."""
        results: list[Output | Failure] = []
        inputs, times = list(many), ledger.ConcurrentTimes(1)
        outputs = map_in_processes(_apply_rule, ((self.require_rule(task), each) for each in inputs))
        for number, (output, seconds) in enumerate(outputs):
            if isinstance(output, LLMError):
                results.append(Failure(task.name, str(output), output.kind))
            else:
                with times.item(number):
                    self.record(task, inputs[number], output, seconds)
                results.append(output)
            progress(1)
        times.close()
        return results

    def require_rule(self, task: Task[Output]) -> Callable[[Mapping[str, Any]], Output]:
        """Return the task's rule. Raises UsageError if it has none."""
        if task.rule is None:
            raise UsageError(
                f"{task.name} needs an LLM; no rule can do it. Choose one with --llm openai:MODEL "
                "(or llm: openai:MODEL in a file) and set OPENAI_API_KEY, and OPENAI_BASE_URL for another endpoint."
            )
        return task.rule

    def record(self, task: Task[Output], inputs: Mapping[str, Any], output: Output, seconds: float) -> None:
        """Record an answer in the ledger."""
        ledger.count_outcome(task.name, "rule")
        ledger.record_call(ledger.CallRecord(task.name, self.id, seconds=seconds, rule=True), seconds)


def _apply_rule(
    call: tuple[Callable[[Mapping[str, Any]], Output], Mapping[str, Any]],
) -> tuple[Output | LLMError, float]:
    """Return the answer of a rule or its error, and the seconds that it took."""
    rule, inputs = call
    start = time.perf_counter()
    try:
        output: Output | LLMError = rule(inputs)
    except LLMError as error:
        output = error
    return output, time.perf_counter() - start
