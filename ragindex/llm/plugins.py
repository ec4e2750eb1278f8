"""Base classes of the plugins that ask paid services, and of LLMs."""

from abc import abstractmethod

from ragindex.llm.prices import Prices
from ragindex.llm.settings import LLMSettings
from ragindex.llm.tasks import LLM
from ragindex.plugins.base import Plugin


class PaidPlugin(Plugin):
    """Base class of plugins whose requests cost money: an LLM, an encoder or a reranker behind a remote service."""

    @abstractmethod
    def price_missing(self, prices: Prices) -> str | None:
        """The message of a missing price, which a budget refuses before anything is paid; None if it is known."""


class LLMPlugin(Plugin):
    """Base class of an LLM's parameters."""

    @abstractmethod
    def open(self, setting: LLMSettings | None = None) -> LLM:
        """Open something that runs tasks (ragindex.llm.tasks); sends no request yet."""
