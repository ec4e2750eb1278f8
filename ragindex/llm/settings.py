"""What a workspace gives every language it opens."""

from dataclasses import dataclass, field
from pathlib import Path

from ragindex.llm.budget import Budget
from ragindex.llm.cache import NoCache, ResponseCache
from ragindex.llm.prices import Prices, load_prices
from ragindex.llm.rate_limits import Clock


@dataclass(frozen=True)
class LLMSettings:
    """Where calls are kept, prices, a budget, the folder under which no key may lie, seed and clock of all waits."""

    cache: ResponseCache = field(default_factory=NoCache)
    prices: Prices = field(default_factory=load_prices)
    budget: Budget | None = None
    workspace: Path | None = None
    seed: int = 0
    clock: Clock = field(default_factory=Clock)
