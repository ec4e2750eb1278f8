"""The REST face for documents: add, change, delete, and ask what has become of them."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from starlette.responses import Response

from ragindex.serve.access import AnyKey, DocumentsRoute, ServiceNeeded, WriteKey
from ragindex.serve.collections import ServedCollection
from ragindex.serve.ingestion import Ingestion
from ragindex.serve.keys import AccessKey
from ragindex.serve.models import (
    AcceptedDocuments,
    DocumentAnswer,
    DocumentsBody,
    DocumentStatus,
    error_responses,
)
from ragindex.serve.refusals import RefusalError
from ragindex.serve.searching import find_collection, read_document
from ragindex.serve.service import Service
from ragindex.serve.spool import ChangeState
from ragindex.types import Document

DOCUMENTS_ROUTER = APIRouter(
    prefix="/documents",
    tags=["documents"],
    responses=dict(error_responses(400, 401, 403, 404, 409, 413, 422, 503)),
    route_class=DocumentsRoute,
)
_IdPath = Annotated[str, Path(max_length=2_000, description="The document's id; it may contain slashes.")]
_InCollection = Annotated[str, Query(max_length=200, description="Name of the collection. Default: the first.")]


@DOCUMENTS_ROUTER.post("", status_code=202, response_model=AcceptedDocuments)
async def add_route(body: DocumentsBody, service: ServiceNeeded, key: WriteKey) -> Response:
    """Add documents, or change those with the same ids. The answer comes when they are on the disk."""
    most = service.settings.limits.documents
    ids = [one.id for one in body.documents]
    if len(ids) > most or len(set(ids)) < len(ids):
        raise RefusalError(400, f"A request has at most {most} documents, each id once.", "documents")
    documents = [Document(one.id, one.title, one.text, one.metadata) for one in body.documents]
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
    held = find_collection(service, key, collection)
    return await service.work(partial(_document_to_response, service, held, key, id))


def _document_to_response(service: Service, held: ServedCollection, key: AccessKey, id: str) -> Response:
    document, change = _find_document(service, held, key, id)
    if document is None and change is None:
        raise RefusalError(404, f"There is no document {id!r}.", "document")
    shown = document if "read" in key.rights else None
    ingestion = service.ingestions.get(held.name)
    reason = "" if ingestion is None else ingestion.explain(key, change)
    return JSONResponse(
        _status(held.name, id if document is None else document.id, change, reason)
        | {
            "title": None if shown is None else shown.title,
            "text": None if shown is None else shown.text,
            "metadata": None if shown is None else dict(shown.metadata),
        }
    )


def _find_document(
    service: Service, held: ServedCollection, key: AccessKey, id: str
) -> tuple[Document | None, ChangeState | None]:
    ingestion = service.ingestions.get(held.name)
    return (read_document(held, key, id), None) if ingestion is None else ingestion.find_document(key, id)


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
    shown = [_status(name, id, states.get(id), ingestion.explain(key, states.get(id))) for id in ids]
    return JSONResponse({"collection": name, "documents": shown}, 202)


def _status(collection: str, id: str, change: ChangeState | None, reason: str) -> dict[str, Any]:
    """Return a `DocumentStatus`. A document without a change was indexed by other means."""
    found = DocumentStatus(
        id=id,
        collection=collection,
        status="indexed" if change is None else change.status,
        reason=reason,
        accepted_at=None if change is None else change.accepted,
        finished_at=None if change is None else change.finished,
    )
    return found.model_dump()
