"""The trace of a retrieval: for each step its query, results, duration and cost."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ragindex.accounting import ledger
from ragindex.types import Step

IF_STOPPED = "ranking if it stopped here"
"""Name of the step in which an iterative method records, for each iteration, the ids (best first) that it would return
if it stopped there. Reports use it to show the quality and cost of each iteration."""

UNKNOWN_DOCUMENTS = "hits of unknown documents"
"""Name of the step whose ids are those of hits that a service returned and that are of no document of the corpus."""

KEPT_IDS = 20
"""Number of ids of a step that are saved with the results."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorder of retrieval steps; `steps` are in the order in which they ended."""

    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, iteration: int, index: str, query: str) -> Iterator[dict[str, Any]]:
        """Record the block as one step; the caller puts ids, triples, paths, scores or a note into the yielded dict.

        A cached LLM call counts with the seconds and tokens of the original call.
        """
        values: dict[str, Any] = {}
        start = time.perf_counter()
        with ledger.record_calls() as paid:
            yield values
        ms = (time.perf_counter() - start + paid.correction) * 1e3
        step = Step(iteration, index, query, ms=ms, **values)
        first = paid.first
        self.steps.append(replace(step, input_tokens=first.input_tokens, output_tokens=first.output_tokens))

    def of_base(self, steps: tuple[Step, ...], iteration: int) -> None:
        """Add the steps of a base retriever as steps of this iteration.

        Its IF_STOPPED steps are left out: they are of its own iterations, not of the method over it.
        """
        self.steps.extend(replace(step, iteration=iteration) for step in steps if step.index != IF_STOPPED)
