"""The rules: each task done without a model, where it can be. The default, so that everything runs with no key."""

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
    """A language model, by its written name, as a person reads who answered: `offline` is none."""
    return "rules (no model)" if llm == "offline" else llm


class Offline(LLMPlugin):
    """`offline`: no language model; every task by its rule."""

    version: ClassVar[int] = 1

    def open(self, setting: LLMSettings | None = None) -> "OfflineRules":
        """The rules; they cost nothing, so no setting matters."""
        return OfflineRules()


class OfflineRules:
    """An LLM that applies the rules and sends no request."""

    id = "offline rules"

    def run(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0, again: bool = False) -> Output:
        """What the task's rule makes of the input. Raises UsageError for a task without one."""
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
        """`run` for each input, in order."""
        results: list[Output | Failure] = []
        lanes = ledger.Lanes(1)
        for number, inputs in enumerate(many):
            with lanes.item(number):
                results.append(attempt(lambda each: self.run(task, each), task.name, inputs))
            progress(1)
        lanes.close()
        return results
