"""The trace of a retrieval: for each step its query, results, duration and cost."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ragindex.accounting import ledger
from ragindex.types import Step

IF_STOPPED = "ranking if it stopped here"
"""The step by which a method that goes by iterations says, for each, the ids it would have given had it been the last:
best first. With it a report tells how good and how dear each iteration was."""

KEPT_IDS = 20
"""The number of ids of a step that are saved with the results."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Grows with every step; `steps` are in the order in which they ended."""

    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, iteration: int, index: str, query: str) -> Iterator[dict[str, Any]]:
        """Record one step; put its ids, triples, paths, scores or note into the dict.

        A replayed call of a language model counts with the seconds and tokens first recorded.
        """
        found: dict[str, Any] = {}
        start = time.perf_counter()
        with ledger.record_calls() as paid:
            yield found
        ms = (time.perf_counter() - start + paid.correction) * 1e3
        step = Step(iteration, index, query, ms=ms, **found)
        first = paid.first
        self.steps.append(replace(step, input_tokens=first.input_tokens, output_tokens=first.output_tokens))

    def of_base(self, steps: tuple[Step, ...], iteration: int) -> None:
        """The steps of a base retriever, as part of this iteration."""
        self.steps.extend(replace(step, iteration=iteration) for step in steps)
