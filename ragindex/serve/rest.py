"""The REST face: search and ask."""

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from ragindex.filters import from_mapping
from ragindex.retrieval.formatting import hit_to_json, position_to_json, step_to_json
from ragindex.serve.access import GuardedRoute, ReadKey, ServiceNeeded
from ragindex.serve.keys import AccessKey
from ragindex.serve.models import AskAnswer, AskBody, SearchAnswer, SearchBody, error_responses
from ragindex.serve.refusals import RefusalError, error_body
from ragindex.serve.searching import (
    ComposedAnswer,
    FoundHits,
    SearchOrder,
    compose_answer,
    search_collection,
)
from ragindex.serve.service import Service

REST_ROUTER = APIRouter(
    responses=dict(error_responses(400, 401, 402, 403, 404, 413, 422, 503)), route_class=GuardedRoute
)


@REST_ROUTER.post("/search", response_model=SearchAnswer, tags=["search"])
async def search_route(body: SearchBody, request: Request, service: ServiceNeeded, key: ReadKey) -> Response:
    """Find the best hits for a question."""
    found, response = await service.work(partial(_search_to_json, service, key, body))
    note_search(request, service, found)
    return response


@REST_ROUTER.post("/ask", response_model=AskAnswer, tags=["search"])
async def ask_route(body: AskBody, request: Request, service: ServiceNeeded, key: ReadKey) -> Response:
    """Answer a question from the hits of a search, and cite the passages that support the answer.

    With `stream`, the events are `hits`, `answer` and `done`, or `error`.
    """
    if body.stream:
        found, hits = await service.work(partial(_search_to_event, service, key, body))
        note_search(request, service, found)  # errors until here have a status
        return EventSourceResponse(
            _stream_answer(service, key, found, hits), ping=15, send_timeout=service.settings.limits.timeout
        )
    composed, response = await service.work(partial(_answer_to_response, service, key, body))
    note_search(request, service, composed.found)
    return response


def _order(body: SearchBody, *, max_tokens: int | None) -> SearchOrder:
    where = None if body.where is None else from_mapping(body.where)
    return SearchOrder(body.query, body.collection, body.method, body.k, where, max_tokens)


def _search(service: Service, key: AccessKey, body: SearchBody) -> FoundHits:
    return search_collection(service, key, _order(body, max_tokens=body.max_tokens))


def _search_to_json(service: Service, key: AccessKey, body: SearchBody) -> tuple[FoundHits, Response]:
    """Search and write the response, which takes long enough to belong in a thread."""
    found = _search(service, key, body)
    return found, JSONResponse(found_to_json(found, trace=body.trace))


def _search_to_event(service: Service, key: AccessKey, body: AskBody) -> tuple[FoundHits, ServerSentEvent]:
    found = _search(service, key, body)
    return found, _event("hits", found_to_json(found, trace=False))


def _answer_to_response(service: Service, key: AccessKey, body: AskBody) -> tuple[ComposedAnswer, Response]:
    composed = compose_answer(service, key, _search(service, key, body))
    return composed, JSONResponse(_answer_to_json(composed))


async def _stream_answer(
    service: Service, key: AccessKey, found: FoundHits, hits: ServerSentEvent
) -> AsyncIterator[ServerSentEvent]:
    yield hits
    try:
        composed = await service.work(partial(compose_answer, service, key, found))
    except RefusalError as refusal:
        yield _event("error", error_body(refusal.status, refusal.message, refusal.code))
        return
    yield _event("answer", _answer_to_json(composed))
    yield _event("done", {})


def _event(name: str, value: Any) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(value, ensure_ascii=False), event=name)


def note_search(request: Request, service: Service, found: FoundHits) -> None:
    """Count a search in the metrics, and leave what the log tells of it."""
    service.metrics.searches.labels(found.collection.name, found.method).inc()
    request.state.collection, request.state.method = found.collection.name, found.method
    request.state.hits = len(found.hits)
    if service.settings.log_texts:
        request.state.query = found.order.query


def found_to_json(found: FoundHits, *, trace: bool) -> dict[str, Any]:
    """Return a `SearchAnswer`."""
    return {
        "collection": found.collection.name,
        "method": found.method,
        "query": found.order.query,
        "hits": [{**hit_to_json(hit), "shortened": hit.id in found.shortened} for hit in found.hits],
        "notes": list(found.retrieval.notes),
        "trace": [step_to_json(step) for step in found.retrieval.trace] if trace else None,
        "tokens": found.tokens,
        "truncated": found.truncated,
        "left_out": found.left_out,
    }


def _answer_to_json(composed: ComposedAnswer) -> dict[str, Any]:
    evidence = composed.evidence
    texts = {passage.number: passage.text for passage in composed.context.passages}
    citations = [
        {
            "number": number,
            "id": hit.id,
            "title": hit.title,
            "text": texts[number],
            "doc_ids": list(hit.doc_ids),
            "positions": [position_to_json(position) for position in hit.positions],
        }
        for number, hit in composed.cited.items()
    ]
    return {
        "collection": composed.found.collection.name,
        "method": composed.found.method,
        "query": composed.found.order.query,
        "answer": composed.answer.answer,
        "found": composed.answer.found,
        "citations": citations,
        "llm": composed.llm,
        "rules": evidence is not None,
        "sentences": [] if evidence is None else [{"number": n, "text": text} for n, text in evidence.sentences],
        "missing": [] if evidence is None else evidence.missing,
        "context_tokens": composed.context.tokens,
        "input_tokens": composed.paid.input_tokens,
        "output_tokens": composed.paid.output_tokens,
        "money": composed.paid.money,
    }
