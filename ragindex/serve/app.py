"""The ASGI app of a server: its faces, the guard before them, and what runs as long as it does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Route

from ragindex._util import distribution
from ragindex.errors import RagindexError
from ragindex.serve import documents_routes, operations, rest, vector_store
from ragindex.serve.guard import RequestGuard, answer_refusal
from ragindex.serve.logs import log_error, log_event
from ragindex.serve.mcp import McpFace
from ragindex.serve.page.page_routes import PAGE_ROUTER
from ragindex.serve.readiness import SearchCheck
from ragindex.serve.refusals import RefusalError, error_body, refuse
from ragindex.serve.service import Service
from ragindex.serve.tracing import flush_traces

_CHECK_SECONDS = 1.0
"""How often the folders are asked for a newer finished state."""
_MOST_ERRORS, _LONGEST_PART = 5, 200


def create_app(service: Service) -> FastAPI:
    """Make the app of a service."""
    app = FastAPI(
        title="ragindex",
        version=distribution.find_distribution().version,
        description="Search, answers and documents of served indexes.",
        docs_url=None,  # Swagger's page loads scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        lifespan=_run,
    )
    app.state.service = service
    app.state.search_checks = {name: SearchCheck() for name in service.collections}
    app.state.mcp = McpFace(service)
    app.router.routes.append(Route("/mcp", endpoint=app.state.mcp))
    for router in (
        rest.REST_ROUTER,
        documents_routes.DOCUMENTS_ROUTER,
        vector_store.STORE_ROUTER,
        operations.OPERATIONS_ROUTER,
        PAGE_ROUTER,
    ):
        app.include_router(router)
    app.add_exception_handler(RefusalError, _answer_refusal)
    app.add_exception_handler(RagindexError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(Exception, _answer_bug)
    app.add_middleware(RequestGuard, service=service)
    if service.settings.allowed_origins:  # outermost: a preflight has no key, and pages must be able to read refusals
        app.add_middleware(
            CORSMiddleware,
            allow_origins=service.settings.allowed_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    return app


@contextlib.asynccontextmanager
async def _run(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    tasks = [asyncio.create_task(_watch_folders(service))]
    if not service.settings.read_only:
        tasks += [asyncio.create_task(ingestion.run()) for ingestion in service.ingestions.values()]
    log_event("start", collections=list(service.collections), port=service.settings.port)
    mcp = app.state.mcp.app
    try:
        async with mcp.router.lifespan_context(mcp):
            yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        service.close()
        await asyncio.to_thread(flush_traces)
        log_event("stop")


async def _watch_folders(service: Service) -> None:
    """Move collections on to states that other processes have finished."""
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        for name in service.collections:
            try:
                await asyncio.to_thread(service.refresh, name)
            except RagindexError as error:
                log_error(error)


async def _answer_refusal(request: Request, error: Any) -> Response:
    return answer_refusal(error)


async def _answer_error(request: Request, error: Any) -> Response:
    log_error(error)
    return answer_refusal(refuse(error))


async def _answer_invalid(request: Request, error: Any) -> Response:
    """Say what is wrong with a body, without repeating it."""
    errors = error.errors()
    found = [f"{'.'.join(map(_name_place, one['loc']))}: {one['msg'][:_LONGEST_PART]}" for one in errors[:_MOST_ERRORS]]
    of_body = any(one["loc"][:1] == ("body",) for one in errors)
    if of_body and "json" not in request.headers.get("content-type", ""):  # as of `curl -d`, which sends a form
        found.append("send JSON with the header Content-Type: application/json (curl: --json instead of -d)")
    return JSONResponse(error_body(422, "; ".join(found).encode("utf-8", "replace").decode(), "invalid_body"), 422)


def _name_place(part: str | int) -> str:
    """Return a part of a place in a body, which can be a key of the client."""
    return str(part)[:_LONGEST_PART]


async def _answer_http(request: Request, error: Any) -> Response:
    return JSONResponse(error_body(error.status_code, str(error.detail), "http"), error.status_code, error.headers)


async def _answer_bug(request: Request, error: Exception) -> Response:
    """Answer an error that should not happen; the traceback goes to the log only."""
    return JSONResponse(error_body(500, "The server has failed. Its log has the reason.", "internal"), 500)
