"""What parts that ask a language model share."""

from collections.abc import Mapping
from typing import Any

from ragindex.interfaces import BuildContext
from ragindex.llm.tasks import Failure, Output, Task


def ask_for_passages(
    context: BuildContext, task: Task[Output], inputs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Output]:
    """The answer to each passage's input, by the passage's id; passages without one are told to the context.

    Kept answers that could not be used are asked for anew: a failed passage comes again at the next sync.
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
