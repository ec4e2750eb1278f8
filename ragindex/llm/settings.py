"""Settings that all LLMs of an index share."""

from dataclasses import dataclass, field
from pathlib import Path

from ragindex.llm.budget import Budget
from ragindex.llm.cache import NoCache, ResponseCache
from ragindex.llm.prices import Prices, load_prices
from ragindex.llm.rate_limits import Clock


@dataclass(frozen=True)
class LLMSettings:
    """Cache, prices, budget, index folder (no key file may be in it), and the seed and clock of retries."""

    cache: ResponseCache = field(default_factory=NoCache)
    prices: Prices = field(default_factory=load_prices)
    budget: Budget | None = None
    workspace: Path | None = None
    seed: int = 0
    clock: Clock = field(default_factory=Clock)
