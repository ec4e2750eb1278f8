"""A retriever for LlamaIndex. Needs the package llama-index-core."""

from pathlib import Path
from typing import Self

from ragindex._util.distribution import require_installed
from ragindex.errors import UsageError
from ragindex.filters import NAMED_COMPARISONS, All, Any, Filter, Not, build_comparison
from ragindex.index.retriever import Hits, IndexRetriever
from ragindex.integrations.shared import CITATION_KEY, build_metadata, open_built_method
from ragindex.llm.budget import Budget
from ragindex.plugins.registry import PluginSpec
from ragindex.types import Hit

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
    from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
except ModuleNotFoundError:
    require_installed("llama_index", "llama-index-core", "ragindex.integrations.llama_index")
    raise


class LlamaIndexRetriever(BaseRetriever):
    """A built method as LlamaIndex's retriever, for `retrieve`, `aretrieve` and query engines.

    Example:
        filters = MetadataFilters(filters=[MetadataFilter(key="year", value=1930, operator=">=")])
        retriever = LlamaIndexRetriever.from_index("my-index", "hybrid", similarity_top_k=5, filters=filters)
        nodes = retriever.retrieve("When was the lighthouse built?")

    `retriever` is an open method (`index.retriever("hybrid")`). A node has its document as source and the offsets of
    its text in it, if it comes from one place; ids, positions and pages are in its metadata under `ragindex`, which is
    not shown to models. Raises the errors of `IndexRetriever.search`.
    """

    def __init__(
        self,
        retriever: IndexRetriever,
        similarity_top_k: int = 5,
        filters: MetadataFilters | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._retriever = retriever
        self._similarity_top_k = similarity_top_k
        self._where = translate_llama_index_filters(filters)

    @classmethod
    def from_index(
        cls,
        folder: Path | str,
        method: PluginSpec,
        *,
        similarity_top_k: int = 5,
        filters: MetadataFilters | None = None,
        callback_manager: CallbackManager | None = None,
        budget: float | Budget | None = None,
        cache: Path | str | None = None,
    ) -> Self:
        """Open a built method of the index in `folder`, which is only read.

        `budget` is what it may spend on paid services, in US dollars. What it pays for is kept in memory, or in the
        file `cache`.
        """
        retriever = open_built_method(folder, method, budget, cache)
        return cls(retriever, similarity_top_k, filters, callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _to_nodes(self._retriever.search(query_bundle.query_str, self._similarity_top_k, where=self._where))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Search in a thread; the base class would search on the event loop."""
        hits = await self._retriever.asearch(query_bundle.query_str, self._similarity_top_k, where=self._where)
        return _to_nodes(hits)


def _to_nodes(hits: Hits) -> list[NodeWithScore]:
    return [NodeWithScore(node=_to_node(hit), score=hit.score) for hit in hits]


def _to_node(hit: Hit) -> TextNode:
    position = hit.positions[0] if len(hit.positions) == 1 else None
    single = len(hit.doc_ids) == 1  # a node can name one source
    return TextNode(
        id_=hit.id,
        text=hit.text,
        metadata=build_metadata(hit),
        excluded_llm_metadata_keys=[CITATION_KEY],
        excluded_embed_metadata_keys=[CITATION_KEY],
        start_char_idx=None if position is None else position.start,
        end_char_idx=None if position is None else position.end,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=hit.doc_ids[0])} if single else {},
    )


# ---------------------------------------------------------------- filters


def translate_llama_index_filters(filters: MetadataFilters | None) -> Filter | None:
    """Translate LlamaIndex's filters, nested ones too; None, without filters, is no filter.

    The condition `not` means that none of the filters matches. Raises UsageError for the operators that look into a
    value (any, all, contains, text_match, text_match_insensitive, is_empty) and for a value that is no plain one.
    """
    if filters is None or not filters.filters:
        return None
    return _translate_group(filters)


def _translate_group(filters: MetadataFilters) -> Filter:
    if not filters.filters:
        return All(())
    parts = tuple(
        _translate_group(part) if isinstance(part, MetadataFilters) else _translate_one(part)
        for part in filters.filters
    )
    match filters.condition:
        case FilterCondition.OR:
            return Any(parts)
        case FilterCondition.NOT:
            return Not(Any(parts))
        case _:
            return All(parts)


def _translate_one(condition: MetadataFilter) -> Filter:
    comparison = _COMPARISONS.get(condition.operator)
    if comparison is None:
        known = ", ".join(operator.value for operator in _COMPARISONS)
        raise UsageError(f"ragindex has no operator {condition.operator.value!r} in filters. Available: {known}.")
    return build_comparison(condition.key, comparison, condition.value)


_COMPARISONS = {FilterOperator[name.upper()]: operator for name, operator in NAMED_COMPARISONS.items()}
