"""The routes for operators: health, readiness, metrics and the OpenAPI description."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from ragindex.serve.access import KeyNeeded
from ragindex.serve.collections import ServedCollection, search_once
from ragindex.serve.models import HealthAnswer, error_responses
from ragindex.serve.refusals import RefusalError
from ragindex.serve.service import Service

OPERATIONS_ROUTER = APIRouter(tags=["operations"])


@OPERATIONS_ROUTER.get("/health", response_model=HealthAnswer, responses=dict(error_responses(503)))
async def health_route(request: Request) -> Response:
    """Say whether the process works: a thread does work, and not all of them hang."""
    service: Service = request.app.state.service
    if service.hangs():
        raise RefusalError(503, "All work slots are held by requests beyond their time. Restart the server.", "hangs")
    return JSONResponse({"status": "ok", "collections": {}})


@OPERATIONS_ROUTER.get("/ready", response_model=HealthAnswer, responses={503: {"model": HealthAnswer}})
async def ready_route(request: Request) -> Response:
    """Say whether every method of every collection answers: each is asked a question, unless it would call a model."""
    service: Service = request.app.state.service
    found = {name: await _probe(service, collection) for name, collection in service.collections.items()}
    ready = all(one["searches"] for one in found.values())
    shown = found if _may_see(request, service) else {}
    body = {"status": "ready" if ready else "not ready", "collections": shown}
    return JSONResponse(body, 200 if ready else 503, headers={} if ready else {"Retry-After": "5"})


async def _probe(service: Service, collection: ServedCollection) -> dict[str, Any]:
    try:
        await service.work(partial(search_once, collection.state))
        searches, reason = True, ""
    except RefusalError as refusal:
        searches, reason = refusal.code == "overloaded", refusal.message  # busy is not broken
    return {
        "searches": searches,
        "reason": reason,
        "methods": list(collection.methods),
        "encoder": collection.state.encoder,
        "documents": len(collection.state.index),
        "opened_at": collection.state.opened_at,
        **service.describe_sync(collection.name),
    }


def _may_see(request: Request, service: Service) -> bool:
    try:
        require_operator(request, service)
    except RefusalError:
        return False
    return True


def require_operator(request: Request, service: Service) -> None:
    """Raise RefusalError without a key, where clients on other machines can reach the server."""
    if service.settings.exposed:
        KeyNeeded(None).find(request, service)


@OPERATIONS_ROUTER.get("/metrics", response_class=Response, responses=dict(error_responses(401)))
async def metrics_route(request: Request) -> Response:
    """Return the metrics in Prometheus's text format. Needs a key if other machines can reach the server."""
    service: Service = request.app.state.service
    require_operator(request, service)
    return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)


@OPERATIONS_ROUTER.get("/openapi.json", include_in_schema=False)
async def openapi_route(request: Request) -> Response:
    """Return the OpenAPI description. Needs a key if other machines can reach the server."""
    require_operator(request, request.app.state.service)
    return JSONResponse(request.app.openapi())
