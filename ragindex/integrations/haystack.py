"""A retriever for Haystack 2 and later. Needs the package haystack-ai."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from ragindex._util.distribution import require_installed
from ragindex.errors import UsageError
from ragindex.export.load import load_retriever
from ragindex.filters import (
    NAMED_COMPARISONS,
    All,
    ComparisonOperator,
    Filter,
    Not,
    Range,
    build_comparison,
    combine_filters,
)
from ragindex.filters import Any as AnyOf
from ragindex.index.retriever import Hits, IndexRetriever
from ragindex.integrations.shared import build_metadata, open_built_method

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.types import FilterPolicy
    from haystack.errors import FilterError
except ModuleNotFoundError:
    require_installed("haystack", "haystack-ai", "ragindex.integrations.haystack")
    raise


class HaystackFilterError(UsageError, FilterError):
    """A filter that is malformed, or that ragindex cannot apply; Haystack's FilterError too."""


@component
class HaystackRetriever:
    """A built method as Haystack's component, for `run`, `run_async` and pipelines.

    Example:
        retriever = HaystackRetriever.from_index("my-index", "hybrid", top_k=5)
        filters = {"field": "meta.year", "operator": ">=", "value": 1930}
        documents = retriever.run("When was the lighthouse built?", filters=filters)["documents"]

    It has either `index` and `method`, a folder and a built method, or `exported`, what `ragindex export` wrote; these
    are opened when it is first used, and all that is saved with a pipeline. Or it has `retriever`, an open method
    (`index.retriever("hybrid")`, or `ragindex.load` with hosts that it may contact), and cannot be saved. `budget` is
    what it may spend on paid services, in US dollars; what it pays for is kept in memory, or in the file `cache`.
    Haystack 3 loads a pipeline with `allowed_modules=["ragindex.integrations.haystack"]`. `filter_policy` says whether
    the filters of a run replace those of the component (REPLACE) or are added to them (MERGE). Ids, positions and
    pages are in the `meta` of a document under `ragindex`. Raises UsageError unless it has one of them, and
    the errors of `open`, `load` and `IndexRetriever.search`.
    """

    def __init__(
        self,
        index: str | None = None,
        method: str | None = None,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
        retriever: IndexRetriever | None = None,
        exported: str | None = None,
        budget: float | None = None,
        cache: str | None = None,
    ) -> None:
        if sum(each is not None for each in (index, exported, retriever)) != 1 or (index is None) != (method is None):
            raise UsageError(
                "HaystackRetriever takes either 'index' and 'method', or 'retriever', an open method, or 'exported', "
                "the path of an exported retriever."
            )
        if retriever is not None and (budget, cache) != (None, None):
            raise UsageError("'budget' and 'cache' of an open method are given to 'open'. Leave them out here.")
        translate_haystack_filters(filters)
        self.index = index
        self.method = method
        self.exported = exported
        self.top_k = top_k
        self.filters = filters
        self.filter_policy = filter_policy
        self.budget = budget
        self.cache = cache
        self._opened = retriever

    @classmethod
    def from_index(
        cls,
        folder: Path | str,
        method: str,
        *,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
        budget: float | None = None,
        cache: Path | str | None = None,
    ) -> Self:
        """Open a built method of the index in `folder`, which is only read."""
        file = None if cache is None else str(cache)
        retriever = cls(str(folder), method, top_k, filters, filter_policy, budget=budget, cache=file)
        retriever.warm_up()
        return retriever

    def warm_up(self) -> None:
        """Open the method; pipelines call this before they run."""
        self._open()

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Search."""
        where = self._translate(filters)
        return _to_output(self._open().search(query, self.top_k if top_k is None else top_k, where=where))

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Search without blocking the event loop."""
        where = self._translate(filters)
        return _to_output(await self._open().asearch(query, self.top_k if top_k is None else top_k, where=where))

    def to_dict(self) -> dict[str, Any]:
        """Return what makes an equal component: paths, the method and the settings. Nothing of it is secret.

        Raises UsageError if the component was made from an open method.
        """
        if self.index is None and self.exported is None:
            raise UsageError(
                "A HaystackRetriever that was made from an open method cannot be saved, because it does not say "
                "where that is. Make it with HaystackRetriever(index=FOLDER, method=METHOD), or with exported=PATH."
            )
        saved: dict[str, Any] = default_to_dict(
            self,
            index=self.index,
            method=self.method,
            top_k=self.top_k,
            filters=self.filters,
            filter_policy=self.filter_policy.value,
            **{
                name: value
                for name, value in (("exported", self.exported), ("budget", self.budget), ("cache", self.cache))
                if value is not None
            },
        )
        return saved

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make the component that `to_dict` described. The index is opened when it is first used."""
        parameters = dict(data.get("init_parameters", {}))
        if "filter_policy" in parameters:
            parameters["filter_policy"] = FilterPolicy.from_str(parameters["filter_policy"])
        return default_from_dict(cls, {**data, "init_parameters": parameters})

    def _open(self) -> IndexRetriever:
        if self._opened is None:
            self._opened = (
                open_built_method(str(self.index), str(self.method), self.budget, self.cache)
                if self.exported is None
                else load_retriever(self.exported, budget=self.budget, cache=self.cache)
            )
        return self._opened

    def _translate(self, filters: dict[str, Any] | None) -> Filter | None:
        """Apply the policy. Haystack's own function for it drops a filter that it cannot merge."""
        own_filters, call_filters = translate_haystack_filters(self.filters), translate_haystack_filters(filters)
        return (
            combine_filters(own_filters, call_filters)
            if self.filter_policy == FilterPolicy.MERGE
            else call_filters or own_filters
        )


def _to_output(hits: Hits) -> dict[str, list[Document]]:
    return {
        "documents": [Document(id=hit.id, content=hit.text, meta=build_metadata(hit), score=hit.score) for hit in hits]
    }


# ---------------------------------------------------------------- filters


def translate_haystack_filters(filters: Mapping[str, Any] | None) -> Filter | None:
    """Translate Haystack's filters; None and {} are no filter.

    A field is `meta.KEY`, or KEY. All operators of Haystack are known. Strings are ordered only as ISO dates, and then
    as strings: stored dates must be written like the one in the filter. A list passes if an element does.
    Raises HaystackFilterError for what is malformed and for other fields of a document, such as `content`.
    """
    if not filters:
        return None
    try:
        return _translate_condition(filters)
    except HaystackFilterError:
        raise
    except UsageError as error:
        raise HaystackFilterError(str(error)) from error


def _translate_condition(condition: object) -> Filter:
    if not isinstance(condition, Mapping):
        raise HaystackFilterError(f"A filter for Haystack is a mapping. Got {condition!r} instead.")
    return _translate_comparison(condition) if "field" in condition else _translate_logic(condition)


def _translate_logic(condition: Mapping[str, Any]) -> Filter:
    operator, conditions = _require(condition, "operator"), _require(condition, "conditions")
    if not isinstance(conditions, list):
        raise HaystackFilterError(f"'conditions' is a list of filters. Got {conditions!r} instead.")
    parts = tuple(_translate_condition(part) for part in conditions)
    match operator:
        case "AND":
            return All(parts)
        case "OR":
            return AnyOf(parts)
        case "NOT":
            return Not(All(parts))
        case _:
            raise HaystackFilterError(f"Filters are joined by AND, OR and NOT. Got {operator!r} instead.")


def _translate_comparison(condition: Mapping[str, Any]) -> Filter:
    operator, value = _require(condition, "operator"), _require(condition, "value")
    key = _find_key(condition["field"])
    comparison = _COMPARISONS.get(operator)
    if comparison is None:
        raise HaystackFilterError(f"Haystack has no operator {operator!r}. Available: {', '.join(_COMPARISONS)}.")
    if value is None:
        return _compare_with_none(f"meta.{key}", comparison)
    if comparison in ("in", "not in") and not isinstance(value, list):
        raise HaystackFilterError(f"{operator!r} takes a list. Got {value!r} instead.")
    if comparison in (">", ">=", "<", "<=") and isinstance(value, str) and not _ISO_DATE.fullmatch(value):
        raise HaystackFilterError(f"{operator!r} compares numbers and ISO dates. Got {value!r} instead.")
    return build_comparison(key, comparison, value)


def _compare_with_none(field: str, comparison: ComparisonOperator) -> Filter:
    """Return what Haystack means by a comparison with None: missing, present, or never true."""
    match comparison:
        case "==":
            return Not(Range(field))
        case "!=":
            return Range(field)
        case ">" | ">=" | "<" | "<=":
            return AnyOf(())
        case _:
            raise HaystackFilterError(f"{comparison!r} takes a list. Got None instead.")


def _find_key(field: object) -> str:
    if not isinstance(field, str) or field in _DOCUMENT_FIELDS:
        raise HaystackFilterError(f"ragindex filters by metadata: 'meta.KEY'. Got the field {field!r} instead.")
    key = field.removeprefix("meta.")
    if "." in key.removeprefix("ragindex."):
        raise HaystackFilterError(f"ragindex filters by plain values of metadata, not by what they hold: {field!r}.")
    return key


def _require(condition: Mapping[str, Any], name: str) -> Any:
    if name not in condition:
        raise HaystackFilterError(f"{name!r} is missing in the filter {dict(condition)!r}.")
    return condition[name]


_DOCUMENT_FIELDS = ("id", "content", "blob", "meta", "score", "embedding", "sparse_embedding")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_COMPARISONS: Mapping[str, ComparisonOperator] = {operator: operator for operator in NAMED_COMPARISONS.values()}
