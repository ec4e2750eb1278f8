"""What a workspace gives every language it opens."""

from dataclasses import dataclass, field
from pathlib import Path

from ragindex.language.budget import Budget
from ragindex.language.cache import CallCache, NoCache
from ragindex.language.limits import Clock
from ragindex.language.prices import Prices, load


@dataclass(frozen=True)
class Setting:
    """Where calls are kept, prices, a budget, the folder under which no key may lie, seed and clock of all waits."""

    cache: CallCache = field(default_factory=NoCache)
    prices: Prices = field(default_factory=load)
    budget: Budget | None = None
    workspace: Path | None = None
    seed: int = 0
    clock: Clock = field(default_factory=Clock)
