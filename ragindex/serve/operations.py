"""The routes for operators: health, readiness, metrics and the OpenAPI description."""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from ragindex.errors import RagindexError
from ragindex.serve.collections import ServedCollection, ServedState, search_once
from ragindex.serve.keys import AccessKey
from ragindex.serve.models import HealthAnswer, error_responses
from ragindex.serve.refusals import RefusalError
from ragindex.serve.service import Service
from ragindex.serve.telemetry import log_error

OPERATIONS_ROUTER = APIRouter(tags=["operations"])
_OF_ALL_DOCUMENTS = ("reason", "documents", "fit", "pending", "damaged", "sync_failure")
"""What only keys that may see all documents of a collection get to know of it."""
_KEPT_SECONDS = 5.0
"""How long the result of a search check counts."""
_UNREADABLE = "Accepted documents cannot be read. The server's log has the reason."


@OPERATIONS_ROUTER.get("/health", response_model=HealthAnswer, responses=dict(error_responses(503)))
async def health_route(request: Request) -> Response:
    """Say whether the process works: a thread does work, and not all of them hang."""
    service: Service = request.app.state.service
    if service.hangs():
        raise RefusalError(503, "All work slots are held by requests beyond their time. Restart the server.", "hangs")
    return JSONResponse({"status": "ok", "collections": {}})


@OPERATIONS_ROUTER.get("/ready", response_model=HealthAnswer, responses={503: {"model": HealthAnswer}})
async def ready_route(request: Request) -> Response:
    """Say whether every method of every collection answers: each is asked a question, unless it would call a model.

    The last answers count for some seconds. Where only writing is broken, searches go on, and the status is 200.
    """
    service: Service = request.app.state.service
    checks: Mapping[str, SearchCheck] = request.app.state.search_checks
    reasons = {
        name: await checks[name].find_reason(service, collection) for name, collection in service.collections.items()
    }
    ready = not any(reasons.values())
    description = await asyncio.to_thread(_describe_visible, request, service, reasons)
    body = {"status": "ready" if ready else "not ready", "collections": description}
    return JSONResponse(body, 200 if ready else 503, headers={} if ready else {"Retry-After": "5"})


def _describe(service: Service, collection: ServedCollection, reason: str) -> dict[str, Any]:
    index = collection.state.index
    fit = index.fit_state()
    return {
        "searches": not reason,
        "reason": reason,
        "methods": list(collection.methods),
        "encoder": collection.state.encoder,
        "fit": None if fit is None else fit.as_json(),
        "documents": index.counts().documents,
        "opened_at": collection.state.opened_at,
        **_describe_writing(service, collection.name),
    }


def _describe_writing(service: Service, collection: str) -> dict[str, Any]:
    """Return how far documents are, and whether more are accepted."""
    try:
        sync = service.describe_sync(collection)
    except RagindexError as error:
        log_error(error)
        return {"newest": None, "pending": None, "sync_failure": "", "writes": False, "writing_reason": _UNREADABLE}
    if sync["pending"] is None:
        return {**sync, "writes": False, "writing_reason": _UNREADABLE}
    if collection not in service.ingestions or service.settings.read_only:
        return {**sync, "writes": False, "writing_reason": "It was opened to be read only."}
    damage = service.ingestions[collection].find_damage()
    return {**sync, "writes": not damage, "writing_reason": damage}


def _describe_visible(request: Request, service: Service, reasons: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return what the key of a request may know of the collections; nothing without a valid key that is needed."""
    try:
        key = find_operator(request, service)
    except RefusalError:
        return {}
    hidden = () if key is None or key.where is None else _OF_ALL_DOCUMENTS
    return {
        name: {
            field: value
            for field, value in _describe(service, collection, reasons[name]).items()
            if field not in hidden
        }
        for name, collection in service.collections.items()
        if key is None or key.opens(name)
    }


def find_operator(request: Request, service: Service) -> AccessKey | None:
    """Return the key of a request; None without one. Raises RefusalError if it is needed, for clients elsewhere."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    token = secret.strip() if scheme.lower() == "bearer" and secret else None
    return service.authenticate(token) if token is not None or service.settings.exposed else None


@OPERATIONS_ROUTER.get("/metrics", response_class=Response, responses=dict(error_responses(401, 403)))
async def metrics_route(request: Request) -> Response:
    """Return the metrics in Prometheus's text format. Needs a key if other machines can reach the server.

    They count what all keys do, so that a key with collections or a filter of its own gets none.
    """
    service: Service = request.app.state.service
    key = find_operator(request, service)
    if key is not None and key.limited:
        raise RefusalError(403, f"The key {key.name!r} does not open everything that the metrics count.", "right")
    return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)


@OPERATIONS_ROUTER.get("/openapi.json", include_in_schema=False)
async def openapi_route(request: Request) -> Response:
    """Return the OpenAPI description. Needs a key if other machines can reach the server."""
    find_operator(request, request.app.state.service)
    return JSONResponse(request.app.openapi())


class SearchCheck:
    """The last check of a collection. Requests that come meanwhile wait for the one that is made."""

    def __init__(self) -> None:
        self._checking = asyncio.Lock()
        self._state: ServedState | None = None
        self._until = 0.0
        self._reason = ""

    async def find_reason(self, service: Service, collection: ServedCollection) -> str:
        """Return why the collection cannot be searched; "" if it can."""
        async with self._checking:
            if self._state is not collection.state or time.monotonic() > self._until:
                self._state = collection.state
                self._reason = await _search(service, self._state)
                self._until = time.monotonic() + _KEPT_SECONDS
            return self._reason


async def _search(service: Service, state: ServedState) -> str:
    if state.broken:
        return f"Methods whose data are damaged: {', '.join(state.broken)}. Stop the server and run: ragindex repair"
    try:
        await service.work(partial(search_once, state))
    except RefusalError as refusal:
        return "" if refusal.code == "overloaded" else refusal.message  # busy is not broken
    return ""
