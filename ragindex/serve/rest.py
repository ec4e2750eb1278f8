"""The REST API: search, ask, and documents to add, change, delete and look up."""

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from ragindex.filters import from_mapping
from ragindex.retrieval.formatting import hit_to_json, position_to_json, step_to_json
from ragindex.serve.collections import ServedCollection
from ragindex.serve.guard import AnyKey, DocumentsRoute, GuardedRoute, ReadKey, ServiceNeeded, WriteKey
from ragindex.serve.ingestion import Ingestion
from ragindex.serve.keys import AccessKey
from ragindex.serve.models import (
    AcceptedDocuments,
    AskAnswer,
    AskBody,
    DocumentAnswer,
    DocumentsBody,
    DocumentStatus,
    SearchAnswer,
    SearchBody,
    UpdateAnswer,
    UpdateBody,
    error_responses,
)
from ragindex.serve.refusals import RefusalError, error_body
from ragindex.serve.searching import (
    ComposedAnswer,
    SearchOrder,
    ServedSearch,
    compose_answer,
    find_collection,
    read_document,
    search_collection,
)
from ragindex.serve.service import Service
from ragindex.serve.spool import ChangeState
from ragindex.types import Document

REST_ROUTER = APIRouter(
    responses=dict(error_responses(400, 401, 402, 403, 404, 413, 422, 503)), route_class=GuardedRoute
)


@REST_ROUTER.post("/search", response_model=SearchAnswer, tags=["search"])
async def search_route(body: SearchBody, request: Request, service: ServiceNeeded, key: ReadKey) -> Response:
    """Find the best hits for a question."""
    served, response = await service.work(partial(_search_to_json, service, key, body))
    note_search(request, service, served)
    return response


@REST_ROUTER.post("/ask", response_model=AskAnswer, tags=["search"])
async def ask_route(body: AskBody, request: Request, service: ServiceNeeded, key: ReadKey) -> Response:
    """Answer a question from the hits of a search, and cite the passages that support the answer.

    With `stream`, the events are `hits`, `answer` and `done`, or `error`.
    """
    if body.stream:
        served, hits = await service.work(partial(_search_to_event, service, key, body))
        note_search(request, service, served)  # errors until here have a status
        return EventSourceResponse(
            _stream_answer(service, key, served, hits), ping=15, send_timeout=service.settings.limits.timeout
        )
    composed, response = await service.work(partial(_answer_to_response, service, key, body))
    note_search(request, service, composed.search)
    return response


def _search(service: Service, key: AccessKey, body: SearchBody) -> ServedSearch:
    where = None if body.where is None else from_mapping(body.where)
    order = SearchOrder(body.query, body.collection, body.method, body.k, where, body.max_tokens)
    return search_collection(service, key, order)


def _search_to_json(service: Service, key: AccessKey, body: SearchBody) -> tuple[ServedSearch, Response]:
    """Search and write the response, which takes long enough to belong in a thread."""
    served = _search(service, key, body)
    return served, JSONResponse(served_to_json(served, trace=body.trace))


def _search_to_event(service: Service, key: AccessKey, body: AskBody) -> tuple[ServedSearch, ServerSentEvent]:
    served = _search(service, key, body)
    return served, _event("hits", served_to_json(served, trace=False))


def _answer_to_response(service: Service, key: AccessKey, body: AskBody) -> tuple[ComposedAnswer, Response]:
    composed = compose_answer(service, key, _search(service, key, body))
    return composed, JSONResponse(_answer_to_json(composed))


async def _stream_answer(
    service: Service, key: AccessKey, served: ServedSearch, hits: ServerSentEvent
) -> AsyncIterator[ServerSentEvent]:
    yield hits
    try:
        composed = await service.work(partial(compose_answer, service, key, served))
    except RefusalError as refusal:
        yield _event("error", error_body(refusal.status, refusal.message, refusal.code))
        return
    yield _event("answer", _answer_to_json(composed))
    yield _event("done", {})


def _event(name: str, value: Any) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(value, ensure_ascii=False), event=name)


def note_search(request: Request, service: Service, hits: ServedSearch) -> None:
    """Count a search in the metrics, and leave what the log tells of it."""
    service.metrics.searches.labels(hits.collection.name, hits.method).inc()
    request.state.collection, request.state.method = hits.collection.name, hits.method
    request.state.hits = len(hits.hits)
    if service.settings.log_texts:
        request.state.query = hits.order.query


def served_to_json(hits: ServedSearch, *, trace: bool) -> dict[str, Any]:
    """Return a `SearchAnswer`."""
    return {
        "collection": hits.collection.name,
        "method": hits.method,
        "query": hits.order.query,
        "hits": [{**hit_to_json(hit), "shortened": hit.id in hits.shortened} for hit in hits.hits],
        "notes": list(hits.retrieval.notes),
        "trace": [step_to_json(step) for step in hits.retrieval.trace] if trace else None,
        "tokens": hits.tokens,
        "truncated": hits.truncated,
        "left_out": hits.left_out,
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
        "collection": composed.search.collection.name,
        "method": composed.search.method,
        "query": composed.search.order.query,
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


@REST_ROUTER.post("/update", status_code=202, response_model=UpdateAnswer, tags=["documents"])
async def update_route(body: UpdateBody, service: ServiceNeeded, key: WriteKey) -> Response:
    """Read the sources of the index again, as `ragindex update` does. GET tells how it went."""
    ingestion = find_ingestion(service, key, body.collection)
    await service.work(partial(ingestion.request_update, key, allow_removals=body.allow_removals))
    return _describe_update(ingestion, 202)


@REST_ROUTER.get("/update", response_model=UpdateAnswer, tags=["documents"])
async def update_state_route(
    service: ServiceNeeded,
    key: WriteKey,
    collection: Annotated[str, Query(max_length=200, description="Name of the collection. Default: the first.")] = "",
) -> Response:
    """Return how far the last update is, and its report."""
    ingestion = find_ingestion(service, key, collection)
    if key.where is not None or key.id_prefix:
        raise RefusalError(403, f"The key {key.name!r} may not see all documents.", "right")
    return _describe_update(ingestion, 200)


def _describe_update(ingestion: Ingestion, status: int) -> Response:
    last = ingestion.updates
    fields = {name: getattr(last, name) for name in ("status", "reason", "requested_at", "finished_at", "report")}
    return JSONResponse({"collection": ingestion.collection.name, **fields}, status)


DOCUMENTS_ROUTER = APIRouter(
    prefix="/documents",
    tags=["documents"],
    responses=dict(error_responses(400, 401, 402, 403, 404, 409, 413, 422, 503)),
    route_class=DocumentsRoute,
)
_IdPath = Annotated[str, Path(max_length=2_000, description="The document's id; it may contain slashes.")]
_InCollection = Annotated[str, Query(max_length=200, description="Name of the collection. Default: the first.")]


@DOCUMENTS_ROUTER.post("", status_code=202, response_model=AcceptedDocuments)
async def add_route(body: DocumentsBody, service: ServiceNeeded, key: WriteKey) -> Response:
    """Add documents, or change those with the same ids. The answer comes when they are on the disk."""
    most = service.settings.limits.documents
    ids = [document.id for document in body.documents]
    if len(ids) > most or len(set(ids)) < len(ids):
        raise RefusalError(400, f"A request has at most {most} documents, each id once.", "documents")
    documents = [Document(document.id, document.title, document.text, document.metadata) for document in body.documents]
    ingestion = find_ingestion(service, key, body.collection)
    await service.work(partial(ingestion.accept_documents, key, documents))
    ingestion.wake()
    return await _accepted(service, ingestion, key, ids)


@DOCUMENTS_ROUTER.delete("/{id:path}", status_code=202, response_model=AcceptedDocuments)
async def delete_route(id: _IdPath, service: ServiceNeeded, key: WriteKey, collection: _InCollection = "") -> Response:
    """Delete a document. The answer comes when that is on the disk."""
    ingestion = find_ingestion(service, key, collection)
    known = await service.work(partial(ingestion.accept_deletion, key, id))
    ingestion.wake()
    return await _accepted(service, ingestion, key, [known])


@DOCUMENTS_ROUTER.get("/{id:path}", response_model=DocumentAnswer)
async def document_route(id: _IdPath, service: ServiceNeeded, key: AnyKey, collection: _InCollection = "") -> Response:
    """Return what has become of a document, and, to those who may read, the document as it is searched now."""
    if not key.rights & {"read", "write"}:
        service.require_right(key, "read")
    served = find_collection(service, key, collection)
    return await service.work(partial(_document_to_response, service, served, key, id))


def _document_to_response(service: Service, collection: ServedCollection, key: AccessKey, id: str) -> Response:
    ingestion = service.ingestions.get(collection.name)
    if ingestion is None:
        document, change = read_document(collection, key, id), None
    else:
        document, change = ingestion.find_document(key, id)
    if document is None and change is None:
        raise RefusalError(404, f"There is no document {id!r}.", "document")
    readable = document if "read" in key.rights else None
    reason = "" if ingestion is None else ingestion.explain(key, change)
    waits = ingestion is not None and change is not None and ingestion.waits_for_money(change)
    return JSONResponse(
        _status(collection.name, id if document is None else document.id, change, reason, waits=waits)
        | {
            "title": None if readable is None else readable.title,
            "text": None if readable is None else readable.text,
            "metadata": None if readable is None else dict(readable.metadata),
        }
    )


def find_ingestion(service: Service, key: AccessKey, collection: str) -> Ingestion:
    """Return the ingestion of a collection. Raises RefusalError (404, or 403 if it accepts no documents)."""
    name = find_collection(service, key, collection).name
    if service.settings.read_only:
        raise RefusalError(403, "The server was started with --read-only.", "read_only")
    if name not in service.ingestions:
        raise RefusalError(403, f"The collection {name!r} is an exported retriever, which stays as it is.", "read_only")
    return service.ingestions[name]


async def _accepted(service: Service, ingestion: Ingestion, key: AccessKey, ids: list[str]) -> Response:
    name, states = ingestion.collection.name, await service.work(partial(ingestion.spool.states, ids))
    statuses = [_status(name, id, states.get(id), ingestion.explain(key, states.get(id))) for id in ids]
    return JSONResponse({"collection": name, "documents": statuses}, 202)


def _status(
    collection: str, id: str, change: ChangeState | None, reason: str, *, waits: bool = False
) -> dict[str, Any]:
    """Return a `DocumentStatus`. A document without a change was indexed by other means; `waits`: for money."""
    return DocumentStatus(
        id=id,
        collection=collection,
        status="spend_cap" if waits else "indexed" if change is None else change.status,
        reason=reason,
        accepted_at=None if change is None else change.accepted,
        finished_at=None if change is None else change.finished,
    ).model_dump()
