"""A retriever for DSPy. Needs the package dspy."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from ragindex._util.distribution import require_installed
from ragindex.filters import Filter, combine_filters, from_mapping
from ragindex.index.retriever import Hits, IndexRetriever, Where
from ragindex.integrations.shared import build_metadata, open_built_method
from ragindex.llm.budget import Budget
from ragindex.plugins.registry import PluginSpec

try:
    import dspy
except ModuleNotFoundError:
    require_installed("dspy", "dspy", "ragindex.integrations.dspy")
    raise


class DSPyRetriever(dspy.Module):  # type: ignore[misc]  # dspy has no types
    """A built method as a module of DSPy: called, or awaited with `acall`, it returns a `dspy.Prediction`.

    Example:
        retriever = DSPyRetriever.from_index("my-index", "hybrid", k=5)
        found = retriever("When was the lighthouse built?", where={"meta.year": [1930, 1931]})
        print(found.passages, found.scores)

    The prediction has the lists `passages` (texts, "TITLE | TEXT" as is usual in DSPy), `ids`, `scores` and `metadata`
    (with ids and positions under `ragindex`). `retriever` is an open method (`index.retriever("hybrid")`). DSPy has no
    form of filters: `where` is that of `IndexRetriever.search`. Copies of a program share the open method. Raises the
    errors of `IndexRetriever.search`.
    """

    def __init__(self, retriever: IndexRetriever, k: int = 5, where: Where | None = None) -> None:
        super().__init__()
        self.retriever = retriever
        self.k = k
        self.where = _translate(where)

    @classmethod
    def from_index(
        cls,
        folder: Path | str,
        method: PluginSpec,
        *,
        k: int = 5,
        where: Where | None = None,
        budget: float | Budget | None = None,
        cache: Path | str | None = None,
    ) -> Self:
        """Open a built method of the index in `folder`, which is only read.

        `budget` is what it may spend on paid services, in US dollars. What it pays for is kept in memory, or in the
        file `cache`.
        """
        return cls(open_built_method(folder, method, budget, cache), k, where)

    def forward(self, query: str, k: int | None = None, where: Where | None = None) -> Any:
        """Search. `where` is added to that of the retriever and never replaces it."""
        condition = combine_filters(self.where, _translate(where))
        return _to_prediction(self.retriever.search(query, self.k if k is None else k, where=condition))

    async def aforward(self, query: str, k: int | None = None, where: Where | None = None) -> Any:
        """Search without blocking the event loop."""
        condition = combine_filters(self.where, _translate(where))
        return _to_prediction(await self.retriever.asearch(query, self.k if k is None else k, where=condition))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy without the open method, which is frozen and may hold a large index: optimizers copy programs often."""
        return copy.copy(self)


def _translate(where: Where | None) -> Filter | None:
    return from_mapping(where) if isinstance(where, Mapping) else where


def _to_prediction(hits: Hits) -> Any:
    return dspy.Prediction(
        passages=[f"{hit.title} | {hit.text}" if hit.title else hit.text for hit in hits],
        ids=[hit.id for hit in hits],
        scores=[hit.score for hit in hits],
        metadata=[build_metadata(hit) for hit in hits],
    )
