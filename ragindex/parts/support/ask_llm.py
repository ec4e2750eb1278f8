"""LLM calls for a batch of passages."""

from collections.abc import Mapping
from typing import Any

from ragindex.interfaces import BuildContext
from ragindex.llm.tasks import Failure, Output, Task


def ask_for_passages(
    context: BuildContext, task: Task[Output], inputs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Output]:
    """Ask the LLM for each passage's input, and return the answers by passage id; failures are reported to the context.

    Cached answers that could not be used are requested again, so a failed passage is retried at the next
    sync.
    """
    if not inputs:
        return {}
    outputs = context.llm.map(task, inputs.values(), again=True)
    found: dict[str, Output] = {}
    for id, output in zip(inputs, outputs, strict=True):
        if isinstance(output, Failure):
            context.failed(id, output.reason)
        else:
            found[id] = output
    return found
