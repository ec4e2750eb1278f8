"""Base classes of LLM plugins, and of plugins that send requests to paid services."""

from abc import abstractmethod

from ragindex.llm.prices import Prices
from ragindex.llm.settings import LLMSettings
from ragindex.llm.tasks import LLM
from ragindex.plugins.base import Plugin


class PaidPlugin(Plugin):
    """Base class of plugins whose requests cost money: LLMs, encoders and rerankers behind a remote service."""

    def price_list(self, prices: Prices) -> Prices:
        """Return `prices` as they are at the address that the plugin asks. Default: at OpenAI's."""
        return prices

    @abstractmethod
    def price_missing(self, prices: Prices) -> str | None:
        """Return the error message for a missing price, or None if it is known. A budget requires every price."""


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
        """Open the LLM, which runs tasks (`ragindex.llm.tasks`). Sends no request yet."""
