"""What the adapters share: opening a built method, and what a hit says besides its text as metadata."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragindex.index.index import open_index
from ragindex.index.retriever import IndexRetriever
from ragindex.llm.budget import Budget
from ragindex.plugins import registry
from ragindex.plugins.registry import PluginSpec
from ragindex.retrieval.formatting import position_to_json
from ragindex.types import Hit


def open_built_method(
    folder: Path | str, method: PluginSpec, budget: float | Budget | None = None, cache: Path | str | None = None
) -> IndexRetriever:
    """Open a built method of the index in `folder`, which is only read. Raises the errors of `open` and `retriever`.

    The retriever stays on the state of the index at which it was opened. `budget` is what it may spend in US dollars.
    What it pays for is kept in memory, or in the file `cache`.
    """
    with open_index(folder, read_only=True, budget=budget, cache=cache) as index:
        index.require_prices([registry.scheme(method)])
        return index.retriever(method)


CITATION_KEY = "ragindex"
"""The key of what ragindex itself says about a hit."""


def build_metadata(hit: Hit) -> dict[str, Any]:
    """Return the metadata of a hit as JSON values: those of its documents, and under CITATION_KEY the citation.

    Of several documents, entries that are equal in all of them are taken. `title` and `source` (the ids of the
    documents) are added where the documents have no such key.
    """
    defaults = {"title": hit.title, "source": ", ".join(hit.doc_ids)}
    return {**defaults, **_find_common(hit), CITATION_KEY: _build_citation(hit)}


def _find_common(hit: Hit) -> Mapping[str, Any]:
    """Return the entries that all documents of the hit have; none if one of them has no metadata."""
    first, *others = [hit.metadata.get(id, {}) for id in hit.doc_ids] or [{}]
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}


def _build_citation(hit: Hit) -> dict[str, Any]:
    """Return where the hit comes from: ids, score, method, positions, and the full metadata by document."""
    return {
        "id": hit.id,
        "kind": hit.kind,
        "title": hit.title,
        "score": hit.score,
        "method": hit.source,
        "doc_ids": list(hit.doc_ids),
        "passage_ids": list(hit.passage_ids),
        "positions": [position_to_json(position) for position in hit.positions],
        "metadata": {id: dict(metadata) for id, metadata in hit.metadata.items()},
    }
