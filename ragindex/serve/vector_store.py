"""OpenAI's API: `POST /v1/vector_stores/{id}/search`, for the OpenAI client, LiteLLM, and what is written for them.

A vector store is a collection, `NAME`, or one of its methods, `NAME:METHOD`. A file is a document.
"""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.responses import Response

from ragindex import filters
from ragindex._util.text import quote_value
from ragindex.filters import NAMED_COMPARISONS, Filter, build_comparison
from ragindex.serve.guard import GuardedRoute, ReadKey, ServiceNeeded
from ragindex.serve.keys import AccessKey
from ragindex.serve.models import PlainText, RequestBody, error_responses
from ragindex.serve.refusals import RefusalError
from ragindex.serve.rest import note_search
from ragindex.serve.searching import SearchOrder, ServedSearch, search_collection
from ragindex.serve.service import Service
from ragindex.types import Hit

STORE_ROUTER = APIRouter(prefix="/v1", tags=["openai"], route_class=GuardedRoute)
_RESULTS, _MOST_RESULTS, _DEEPEST, _MOST_CONDITIONS = 10, 50, 8, 100
_LONGEST_VALUE, _MOST_ATTRIBUTES = 512, 16

_Scalar = bool | int | float | PlainText


class AttributeComparison(RequestBody):
    """A comparison of a metadata value."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: PlainText = Field(min_length=1)
    value: _Scalar | Annotated[list[_Scalar], Field(fail_fast=True)]


class AttributeCompound(RequestBody):
    """Several filters, all or one of which must match."""

    type: Literal["and", "or"]
    filters: Annotated[list["AttributeComparison | AttributeCompound"], Field(fail_fast=True)]


class RankingOptions(RequestBody):
    """`score_threshold` is compared with the method's own scores. There is one ranker; its name is ignored."""

    ranker: PlainText | None = None
    score_threshold: float | None = None


class VectorStoreBody(RequestBody):
    """A search of OpenAI's API. `rewrite_query` is accepted; queries are never rewritten.

    LiteLLM sends null for each option that is not set.
    """

    query: PlainText | Annotated[list[PlainText], Field(fail_fast=True)]
    filters: AttributeComparison | AttributeCompound | None = None
    max_num_results: int | None = Field(default=None, ge=1, le=_MOST_RESULTS)
    ranking_options: RankingOptions | None = None
    rewrite_query: bool | None = None


class ContentModel(BaseModel):
    """A text of a result."""

    type: Literal["text"]
    text: str


class StoreResult(BaseModel):
    """A result: the document, its metadata as attributes, and the passage found."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str | float | bool]
    content: list[ContentModel]


class StorePage(BaseModel):
    """A page of results, the only one."""

    object: Literal["vector_store.search_results.page"]
    search_query: list[str]
    data: list[StoreResult]
    has_more: bool
    next_page: str | None


@STORE_ROUTER.post(
    "/vector_stores/{vector_store_id}/search",
    response_model=StorePage,
    responses=dict(error_responses(400, 401, 402, 403, 404, 413, 422, 503)),
)
async def search_store_route(
    vector_store_id: Annotated[str, Path(max_length=300)],
    body: VectorStoreBody,
    request: Request,
    service: ServiceNeeded,
    key: ReadKey,
) -> Response:
    """Search a vector store, as OpenAI's API does."""
    order = _order(vector_store_id, body)
    served, response = await service.work(partial(_search_to_page, service, key, order, body))
    note_search(request, service, served)
    return response


def _search_to_page(
    service: Service, key: AccessKey, order: SearchOrder, body: VectorStoreBody
) -> tuple[ServedSearch, Response]:
    found_hits = search_collection(service, key, order)
    return found_hits, JSONResponse(_page(found_hits, body))


def _order(store: str, body: VectorStoreBody) -> SearchOrder:
    name, _, method = store.partition(":")
    queries = [body.query] if isinstance(body.query, str) else body.query
    if not queries:
        raise RefusalError(400, "'query' must be a text or a list of texts. Got an empty list.", "query")
    where = None if body.filters is None else translate_attributes(body.filters)
    return SearchOrder("\n".join(queries), name, method, body.max_num_results or _RESULTS, where)


def translate_attributes(condition: AttributeComparison | AttributeCompound) -> Filter:
    """Translate a filter of OpenAI's API. Raises RefusalError (too deep, too large) and UsageError."""
    if _depth(condition) > _DEEPEST or _count(condition) > _MOST_CONDITIONS:
        raise RefusalError(400, f"A filter has at most {_DEEPEST} levels and {_MOST_CONDITIONS} conditions.", "filters")
    return _translate(condition)


def _depth(condition: AttributeComparison | AttributeCompound) -> int:
    return 1 if isinstance(condition, AttributeComparison) else 1 + max(map(_depth, condition.filters), default=0)


def _count(condition: AttributeComparison | AttributeCompound) -> int:
    return 1 if isinstance(condition, AttributeComparison) else sum(map(_count, condition.filters))


def _translate(condition: AttributeComparison | AttributeCompound) -> Filter:
    if isinstance(condition, AttributeCompound):
        inner = tuple(map(_translate, condition.filters))
        return filters.All(inner) if condition.type == "and" else filters.Any(inner)
    if isinstance(condition.value, list) != (condition.type in ("in", "nin")):
        raise RefusalError(
            400,
            f"The filter {condition.type!r} on {quote_value(condition.key)} has a value of the wrong type.",
            "filters",
        )
    return build_comparison(condition.key, NAMED_COMPARISONS[condition.type], condition.value)


def _page(served: ServedSearch, body: VectorStoreBody) -> dict[str, Any]:
    least = body.ranking_options.score_threshold if body.ranking_options else None
    hits = [hit for hit in served.hits if least is None or hit.score >= least]
    return {
        "object": "vector_store.search_results.page",
        "search_query": [body.query] if isinstance(body.query, str) else body.query,
        "data": [_result(hit) for hit in hits],
        "has_more": False,
        "next_page": None,
    }


def _result(hit: Hit) -> dict[str, Any]:
    document = hit.doc_ids[0] if hit.doc_ids else hit.id
    plain = {  # as the API bounds metadata
        key: value[:_LONGEST_VALUE] if isinstance(value, str) else value
        for key, value in hit.metadata.get(document, {}).items()
        if isinstance(value, str | int | float | bool)
    }
    place = hit.positions[0] if hit.positions else None
    stands: dict[str, str | float | bool] = {}
    if place is not None:
        stands = {"start": place.start, "end": place.end}
        stands |= {"page": place.page} if place.page is not None else {}
        stands |= {"headings": " › ".join(place.headings)[:_LONGEST_VALUE]} if place.headings else {}
    most = _MOST_ATTRIBUTES - len(stands)
    return {
        "file_id": document,
        "filename": hit.title or document,
        "score": float(hit.score),
        "attributes": {**dict(list(plain.items())[:most]), **stands},
        "content": [{"type": "text", "text": hit.text}],
    }
