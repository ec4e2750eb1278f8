"""A retriever for LangChain. Needs the package langchain-core."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from pydantic import Field, GetPydanticSchema, InstanceOf, model_validator
from pydantic_core import core_schema

from ragindex._util.distribution import require_installed
from ragindex.errors import UsageError
from ragindex.filters import NAMED_COMPARISONS, All, Filter, Not, build_comparison, combine_filters
from ragindex.filters import Any as AnyOf
from ragindex.index.retriever import Hits, IndexRetriever
from ragindex.integrations.shared import build_metadata, open_built_method
from ragindex.llm.budget import Budget
from ragindex.plugins.registry import PluginSpec

try:
    from langchain_core import structured_query
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ModuleNotFoundError:
    require_installed("langchain_core", "langchain-core", "ragindex.integrations.langchain")
    raise

LangChainFilter: TypeAlias = Mapping[str, Any] | structured_query.FilterDirective
"""A filter as LangChain's vector stores take it, or as its query constructor writes it."""

_OpenMethod = Annotated[
    IndexRetriever,  # pydantic would copy the dataclass field by field
    GetPydanticSchema(lambda _, __: core_schema.is_instance_schema(IndexRetriever)),
]


class LangChainRetriever(BaseRetriever):
    """A built method as LangChain's retriever, for `invoke`, `ainvoke`, `batch` and chains.

    Example:
        retriever = LangChainRetriever.from_index("my-index", "hybrid", k=5)
        documents = retriever.invoke("When was the lighthouse built?", filter={"year": {"$gte": 1930}})

    `retriever` is an open method (`index.retriever("hybrid")`), `k` the number of documents. `filter` is
    `{"year": 1931}`, `{"year": {"$gte": 1930, "$lt": 1940}}`, `{"$or": [...]}` or a `FilterDirective`; see
    `translate_langchain_filter`. `k` and `filter` can be given to `invoke` too; its filter is added to that of the
    retriever and never replaces it. The metadata of a document has its `score`, unless the document has a key of that
    name, and under `ragindex` ids, score and positions. Raises the errors of `IndexRetriever.search`.
    """

    retriever: _OpenMethod = Field(repr=False)
    k: int = Field(default=5, ge=1)
    filter: Mapping[str, Any] | InstanceOf[structured_query.FilterDirective] | None = None

    @model_validator(mode="after")
    def _check_filter(self) -> Self:
        self._translate(None)
        return self

    @classmethod
    def from_index(
        cls,
        folder: Path | str,
        method: PluginSpec,
        *,
        k: int = 5,
        filter: LangChainFilter | None = None,
        budget: float | Budget | None = None,
        cache: Path | str | None = None,
    ) -> Self:
        """Open a built method of the index in `folder`, which is only read.

        `budget` is what it may spend on paid services, in US dollars. What it pays for is kept in memory, or in the
        file `cache`.
        """
        return cls(retriever=open_built_method(folder, method, budget, cache), k=k, filter=filter)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: LangChainFilter | None = None,
    ) -> list[Document]:
        hits = self.retriever.search(query, self.k if k is None else k, where=self._translate(filter))
        return _to_documents(hits)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: LangChainFilter | None = None,
    ) -> list[Document]:
        hits = await self.retriever.asearch(query, self.k if k is None else k, where=self._translate(filter))
        return _to_documents(hits)

    def _translate(self, filter: LangChainFilter | None) -> Filter | None:
        return combine_filters(translate_langchain_filter(self.filter), translate_langchain_filter(filter))


def _to_documents(hits: Hits) -> list[Document]:
    return [
        Document(page_content=hit.text, id=hit.id, metadata={"score": hit.score, **build_metadata(hit)}) for hit in hits
    ]


# ---------------------------------------------------------------- filters


def translate_langchain_filter(filter: LangChainFilter | None) -> Filter | None:
    """Translate a filter of LangChain; None, without conditions, is no filter.

    A mapping has keys of the documents' metadata; all entries must match. A value is compared by `$eq`, a list by
    `$in`; a mapping has the operators `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, `$in`, `$nin`, `$not`. `$and` and
    `$or` take a list of filters, `$not` a filter. Of a `FilterDirective`, all but `contain` and `like` is known.
    Raises UsageError for anything else.
    """
    if filter is None:
        return None
    if isinstance(filter, structured_query.FilterDirective):
        return _translate_directive(filter)
    return _translate_mapping(filter)


def _translate_mapping(condition: object) -> Filter:
    if not isinstance(condition, Mapping):
        raise UsageError(f"A filter for LangChain is a mapping or a FilterDirective. Got {condition!r} instead.")
    return _join_all([_translate_entry(key, value) for key, value in condition.items()])


def _translate_entry(key: object, value: object) -> Filter:
    if not isinstance(key, str):
        raise UsageError(f"The keys of a filter are strings. Got {key!r} instead.")
    if key in _JOINED:
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            raise UsageError(f"{key!r} in a filter takes a list of filters. Got {value!r} instead.")
        return _JOINED[key]([_translate_mapping(part) for part in value])
    if key == "$not":
        return Not(_translate_mapping(value))
    if key.startswith("$"):
        raise _refuse_operator(key, [*_JOINED, "$not"])
    return _translate_conditions(key, value)


def _translate_conditions(key: str, value: object) -> Filter:
    """Translate what a key is compared with: a value, a list of values, or a mapping of operators."""
    if not isinstance(value, Mapping):
        return build_comparison(key, "in" if isinstance(value, list | tuple | set | frozenset) else "==", value)
    if not value:
        raise UsageError(f"A filter on {key!r} has no operator. Write a value or {{'$eq': VALUE}}.")
    return _join_all([_translate_operator(key, operator, operand) for operator, operand in value.items()])


def _translate_operator(key: str, operator: object, operand: object) -> Filter:
    if operator == "$not":
        return Not(_translate_conditions(key, operand))
    if not isinstance(operator, str) or operator not in _COMPARISONS:
        raise _refuse_operator(operator, [*_COMPARISONS, "$not"])
    return build_comparison(key, _COMPARISONS[operator], operand)


def _translate_directive(directive: structured_query.FilterDirective) -> Filter:
    if isinstance(directive, structured_query.Comparison):
        comparison = _COMPARISONS.get(f"${directive.comparator.value}")
        if comparison is None:
            raise _refuse_operator(directive.comparator.value, [name.removeprefix("$") for name in _COMPARISONS])
        return build_comparison(directive.attribute, comparison, directive.value)
    if not isinstance(directive, structured_query.Operation):
        raise UsageError(f"A FilterDirective is a Comparison or an Operation. Got {directive!r} instead.")
    parts = [_translate_directive(part) for part in directive.arguments]
    return _OPERATIONS[directive.operator](parts)


def _join_all(parts: Sequence[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _join_any(parts: Sequence[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))


def _refuse_operator(operator: object, known: Sequence[str]) -> UsageError:
    return UsageError(f"ragindex has no operator {operator!r} in filters. Available: {', '.join(known)}.")


_COMPARISONS = {f"${name}": operator for name, operator in NAMED_COMPARISONS.items()}
_JOINED: Mapping[str, Callable[[Sequence[Filter]], Filter]] = {"$and": _join_all, "$or": _join_any}
_OPERATIONS: Mapping[structured_query.Operator, Callable[[Sequence[Filter]], Filter]] = {
    structured_query.Operator.AND: _join_all,
    structured_query.Operator.OR: _join_any,
    structured_query.Operator.NOT: lambda parts: Not(_join_all(parts)),
}
