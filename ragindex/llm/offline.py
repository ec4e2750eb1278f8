"""LLM that does tasks by rules instead of a model. It is the default, so that everything runs without a key."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ragindex.accounting import ledger
from ragindex.errors import UsageError
from ragindex.llm.parallel import attempt
from ragindex.llm.plugins import LLMPlugin
from ragindex.llm.settings import LLMSettings
from ragindex.llm.tasks import Failure, Output, Task


def display_name(llm: str) -> str:
    """Return the name of an LLM for display: `offline` is shown as rules."""
    return "rules (no model)" if llm == "offline" else llm


class Offline(LLMPlugin):
    """LLM `offline`: every task is done by its rule, without a model."""

    version: ClassVar[int] = 1

    def open(self, setting: LLMSettings | None = None) -> "OfflineRules":
        """Open the rules. Settings have no effect, as rules cost nothing."""
        return OfflineRules()


class OfflineRules:
    """LLM that applies the rules of tasks and sends no requests."""

    id = "offline rules"

    def run(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0, again: bool = False) -> Output:
        """Apply the task's rule to an input. Raises UsageError if the task has no rule."""
        if task.rule is None:
            raise UsageError(
                f"{task.name} needs an LLM; no rule can do it. Choose one with --llm openai:MODEL "
                "(or llm: openai:MODEL in a file) and set OPENAI_API_KEY, and OPENAI_BASE_URL for another endpoint."
            )
        start = time.perf_counter()
        output = task.rule(inputs)
        seconds = time.perf_counter() - start
        ledger.count_outcome(task.name, "rule")
        ledger.record_call(ledger.CallRecord(task.name, self.id, seconds=seconds, rule=True), seconds)
        return output

    def map(
        self,
        task: Task[Output],
        many: Iterable[Mapping[str, Any]],
        *,
        repeat: int = 0,
        again: bool = False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> list[Output | Failure]:
        """Run the task on each input, in order. See `LLM.map`."""
        results: list[Output | Failure] = []
        lanes = ledger.Lanes(1)
        for number, inputs in enumerate(many):
            with lanes.item(number):
                results.append(attempt(lambda each: self.run(task, each), task.name, inputs))
            progress(1)
        lanes.close()
        return results
