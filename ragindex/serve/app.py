"""The ASGI app of a server: its APIs, the guard before them, and what runs as long as it does; and running it."""

import asyncio
import contextlib
import math
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Route

from ragindex._util import distribution
from ragindex.errors import RagindexError, StaleWarning, UsageError
from ragindex.serve.guard import RequestGuard
from ragindex.serve.mcp import McpApp
from ragindex.serve.operations import OPERATIONS_ROUTER, SearchCheck
from ragindex.serve.page.page_routes import PAGE_ROUTER
from ragindex.serve.refusals import RefusalError, answer_refusal, error_body, refuse
from ragindex.serve.rest import DOCUMENTS_ROUTER, REST_ROUTER
from ragindex.serve.service import Service
from ragindex.serve.telemetry import flush_traces, log_error, log_event
from ragindex.serve.vector_store import STORE_ROUTER
from ragindex.serve.web import ACCEPTED_AT_ONCE, make_protocol, quiet_config

_CHECK_SECONDS = 1.0
"""How often the folders are checked for a newer finished state."""
_GRACE_SECONDS = 1
"""How long requests in progress may go on, beyond the time of a request, after the server was stopped."""
_BACKLOG = 512
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
    app.state.mcp = McpApp(service)
    app.router.routes.append(Route("/mcp", endpoint=app.state.mcp))
    for router in (REST_ROUTER, DOCUMENTS_ROUTER, STORE_ROUTER, OPERATIONS_ROUTER, PAGE_ROUTER):
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
    tasks = [asyncio.create_task(_watch_folders(service), name="following the states of indexes")]
    if not service.settings.read_only:
        ingestions = service.ingestions.items()
        tasks += [asyncio.create_task(each.run(), name=f"indexing into {name}") for name, each in ingestions]
    for task in tasks:
        task.add_done_callback(_log_failure)
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


def _log_failure(task: "asyncio.Task[None]") -> None:
    """Log the unexpected error that has ended a task of the server, which nobody awaits, without its message."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log_event("error", kind=type(error).__name__, message=f"{task.get_name()} has ended. Restart the server.")


async def _answer_refusal(request: Request, error: Any) -> Response:
    return answer_refusal(error)


async def _answer_error(request: Request, error: Any) -> Response:
    log_error(error)
    return answer_refusal(refuse(error))


async def _answer_invalid(request: Request, error: Any) -> Response:
    """Say what is wrong with a body, without repeating it."""
    errors = error.errors()
    messages = list[str]()
    for problem in errors[:_MOST_ERRORS]:
        place = ".".join(str(part)[:_LONGEST_PART] for part in problem["loc"])  # a part can be a key of the client
        messages.append(f"{place}: {problem['msg'][:_LONGEST_PART]}")
    of_body = any(problem["loc"][:1] == ("body",) for problem in errors)
    if of_body and "json" not in request.headers.get("content-type", ""):  # as of `curl -d`, which sends a form
        messages.append("send JSON with the header Content-Type: application/json (curl: --json instead of -d)")
    return JSONResponse(error_body(422, "; ".join(messages).encode("utf-8", "replace").decode(), "invalid_body"), 422)


async def _answer_http(request: Request, error: Any) -> Response:
    return JSONResponse(error_body(error.status_code, str(error.detail), "http"), error.status_code, error.headers)


async def _answer_bug(request: Request, error: Exception) -> Response:
    """Answer an error that should not happen; the traceback goes to the log only."""
    return JSONResponse(error_body(500, "The server has failed. Its log has the reason.", "internal"), 500)


class _Server(uvicorn.Server):
    """A server that reads its keys again on SIGHUP, and stops if that says that its terminal is gone."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_BACKLOG)  # asyncio has set it to the number that it accepts at once
        if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up, _find_terminals())

    def _hang_up(self, terminals: frozenset[int]) -> None:
        if terminals and not terminals & _find_terminals():
            self.should_exit = True
        else:
            self._service.reload_keys()


def _find_terminals() -> frozenset[int]:
    """Return which of standard input, output and error are a terminal that is still there."""
    return frozenset(filter(os.isatty, range(3)))


def run_server(service: Service, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress then end first. Raises UsageError if the port is taken."""
    settings = service.settings
    listening = bind_address(settings.host, settings.port)
    host, port = listening.getsockname()[:2]
    announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    with listening, warnings.catch_warnings():
        if not settings.read_only:
            warnings.simplefilter("ignore", StaleWarning)  # the server's own sync makes the parts anew
        make_uvicorn(service).run([listening])


def make_uvicorn(service: Service) -> uvicorn.Server:
    """Return the server."""
    config = quiet_config(
        create_app(service),
        http=make_protocol(service.settings.limits),
        log_config=None,
        backlog=ACCEPTED_AT_ONCE,
        lifespan="on",
        timeout_keep_alive=10,
        timeout_graceful_shutdown=math.ceil(service.settings.limits.timeout) + _GRACE_SECONDS,
    )
    return _Server(config, service)


def bind_address(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises UsageError if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only if the protocol is named; else a kept connection waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"The server cannot listen on {host}:{port}: {error.strerror or error}. Try --port."
        ) from error
    return listening
