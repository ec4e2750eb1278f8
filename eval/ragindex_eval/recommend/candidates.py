"""The candidates of a recommendation: ours by default, or those that the user names."""

from collections.abc import Sequence

from ragindex.errors import UsageError
from ragindex.plugins.registry import PluginSpec
from ragindex_eval.recommend.values import Candidate
from ragindex_eval.run.plan import choose_methods, expand_grid
from ragindex_eval.run.settings import CompareSettings

DEFAULT: tuple[PluginSpec, ...] = (
    *("bm25", "dense", "hybrid", "hybrid(fusion=convex)", "composed", "links", "evidence", "griever"),
    *("hipporag(mode=facts)", "raptor", "sirerag(ranking=lifted)"),
)
"""Candidates that need no language model, each with the setting that its page recommends."""


def choose_candidates(settings: CompareSettings) -> list[Candidate]:
    """Return the methods of the settings, with grid variants; DEFAULT if none is named.

    Raises UsageError for unknown methods and for fewer than two.
    """
    methods, _ = choose_methods(settings.written_methods() or list(DEFAULT))
    found = [Candidate(method.label, method.scheme) for method in expand_grid(methods, settings.grid)]
    if len(found) < 2:
        raise UsageError("recommend needs two candidates at least. Name them: --methods bm25,hybrid")
    return found


def sort_by_price(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Sort candidates by what they cost, cheapest first.

    Dollars for 1,000 questions come first, then dollars for the index, then its seconds. Unknown dollars come last.
    """

    def price(one: Candidate) -> tuple[float, float, float]:
        costs = one.costs
        return tuple(
            float("inf") if value is None else value
            for value in (costs.dollars_per_1000 or 0.0, costs.index_dollars, costs.index_seconds)
        )  # type: ignore[return-value]  # three values

    return sorted(candidates, key=price)
