"""Which calls can wait for a batch: those of `LLM.map` inside `answers_can_wait`.

Building an index and judging wait. Whatever is asked for a question that someone waits for does not, nor does
`LLM.run`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

from ragindex.llm.tasks import LLM

_can_wait: ContextVar[bool] = ContextVar("ragindex_can_wait", default=False)


@contextmanager
def answers_can_wait() -> Iterator[None]:
    """Let an LLM answer the inputs of `map` inside the block later, in batches, if its parameters say so."""
    token = _can_wait.set(True)
    try:
        yield
    finally:
        _can_wait.reset(token)


def may_wait() -> bool:
    """Return whether this code runs inside `answers_can_wait`."""
    return _can_wait.get()


@runtime_checkable
class BatchingLLM(Protocol):
    """An LLM that answers up to `batch_size` inputs of one `map` in one batch; 1 without batches."""

    @property
    def batch_size(self) -> int:
        """Inputs in a batch."""
        ...


def inputs_at_once(llm: LLM, usual: int) -> int:
    """Return how many inputs to give to one `map`: at least `usual`, and more for an LLM that sends batches.

    Each `map` waits for its own batches, so an LLM with batches gets as many inputs as there are.
    """
    return max(usual, llm.batch_size) if isinstance(llm, BatchingLLM) else usual
