"""Language models: the object that runs tasks, the settings that it is opened with, and the plugins that open it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragindex.llm.budget import Budget, find_daily_budget
from ragindex.llm.cache import NoCache, ResponseCache
from ragindex.llm.prices import Prices, load_prices
from ragindex.llm.rate_limits import Clock
from ragindex.llm.tasks import Failure, Output, Task
from ragindex.plugins.base import Plugin


class LLM(ABC):
    """Base class of objects that run tasks with a language model or by rules. Thread-safe."""

    @property
    @abstractmethod
    def id(self) -> str:
        """Identifies everything that answers depend on: model, address, parameters. Part of the identity of results."""

    @property
    def batch_size(self) -> int:
        """The most inputs of one `map` that are answered in one batch. Default: 1, without batches."""
        return 1

    @abstractmethod
    def run(self, task: Task[Output], inputs: Mapping[str, Any], *, repeat: int = 0, again: bool = False) -> Output:
        """Answer one input.

        `repeat` distinguishes several answers to equal inputs. With `again`, an input of which one unusable answer is
        cached is asked about once more, one with two only inside `retrying_failed`. Raises LLMError if this input has
        no usable answer; BudgetError, ServiceError, StoreError or UsageError if every other input would fail too.
        """

    @abstractmethod
    def map(
        self,
        task: Task[Output],
        many: Iterable[Mapping[str, Any]],
        *,
        repeat: int = 0,
        again: bool = False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> list[Output | Failure]:
        """Run the task on all inputs concurrently; return the results in input order.

        An input without a usable answer gives a Failure; other errors are raised as by `run`. `progress` is called
        with the number of newly completed inputs.
        """


@dataclass(frozen=True)
class LLMSettings:
    """Cache, prices, budget, index folder (no key file may be in it), and the seed and clock of retries.

    The default budget is the limit of the day for all runs, if there is one. With `reuse_answers`, an answer that the
    cache has to the same task and inputs from the same model is kept, although other settings would have it asked for
    again: another address, temperature, seed, structure or prompt.
    """

    cache: ResponseCache = field(default_factory=NoCache)
    prices: Prices = field(default_factory=load_prices)
    budget: Budget | None = field(default_factory=find_daily_budget)
    workspace: Path | None = None
    seed: int = 0
    clock: Clock = field(default_factory=Clock)
    reuse_answers: bool = False


class PaidPlugin(Plugin):
    """Base class of plugins whose requests cost money: LLMs, encoders and rerankers behind a remote service."""

    def price_list(self, prices: Prices) -> Prices:
        """Return `prices` as they are at the address that the plugin asks. Default: at OpenAI's."""
        return prices

    @abstractmethod
    def price_missing(self, prices: Prices) -> str | None:
        """Return the error message for a missing price, or None if it is known. A budget requires every price."""

    def require_key(self, index: Path | None = None) -> None:
        """Raise UsageError if the key or the address is missing or invalid. Sends no request. Default: none is needed.

        No key file may be in the folder `index`.
        """


class LLMPlugin(Plugin):
    """Base class of the parameters of an LLM."""

    def requests_at_once(self) -> int:
        """Return how many requests may be in flight at once. Default: one."""
        return 1

    def batches(self) -> bool:
        """Return whether answers that can wait are asked for in batches, at the price of a batch. Default: no."""
        return False

    @abstractmethod
    def open(self, setting: LLMSettings | None = None) -> LLM:
        """Open the LLM. Sends no request yet."""
