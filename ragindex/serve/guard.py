"""What stands before every route: Host, Origin and key, the bounds of the body, request ids, logs and metrics.

The key of a request is found before its body is read.
"""

import itertools
import json
import time
import uuid
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from fastapi.security.base import SecurityBase
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragindex.serve.bodies import parse_large, receive_body
from ragindex.serve.config import ServeSettings
from ragindex.serve.keys import AccessKey, Right
from ragindex.serve.refusals import RefusalError, answer_refusal
from ragindex.serve.service import Service
from ragindex.serve.telemetry import log_event

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)
"""Headers of every response that has not its own."""
_CLIENT_LEFT = 499
"""What the log has for a client that left before its answer."""


class RequestGuard:
    """Middleware: checks a request by its headers, and records the response. HEAD is GET without the body."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service
        self._ids, self._server_id = itertools.count(1), uuid.uuid4().hex[:24]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            else:  # a web socket, which no API has
                await send({"type": "websocket.close", "code": 1000})
            return
        start, status, verb = time.perf_counter(), 500, scope["method"]
        request_id = f"{self._server_id}{next(self._ids):08x}"
        encoded_id = request_id.encode()
        scope = {**scope, "method": "GET" if verb == "HEAD" else verb}  # the server leaves out the body
        scope.setdefault("state", {})["request_id"] = request_id

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                added = [header for header in _HEADERS if header[0] not in own]
                message = {**message, "headers": [*message["headers"], (b"x-request-id", encoded_id), *added]}
            await send(message)

        try:
            headers = Headers(scope=scope)
            require_one_length(headers)
            require_known_host(self.service.settings, headers)
            await self.app(scope, receive, answer)
        except RefusalError as refusal:
            await answer_refusal(refusal)(scope, receive, answer)
        except ClientDisconnect:
            status = _CLIENT_LEFT
        finally:
            self._record(scope, verb, request_id, status, time.perf_counter() - start)

    def _record(self, scope: Scope, verb: str, request_id: str, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "") or ("/mcp" if scope["path"] == "/mcp" else "other")
        self.service.metrics.requests.labels(route, str(status)).inc()
        self.service.metrics.seconds.labels(route).observe(seconds)
        state = scope["state"]
        more = {name: state[name] for name in ("key", "collection", "method", "hits", "query") if name in state}
        ms = round(1000 * seconds, 1)
        log_event("request", id=request_id, verb=verb, route=route, status=status, ms=ms, **more)


def require_one_length(headers: Headers) -> None:
    """Raise RefusalError for a request with two lengths: a proxy may see another request in it than this server."""
    if "transfer-encoding" in headers and "content-length" in headers:
        message = "A request must not have both Transfer-Encoding and Content-Length."
        raise RefusalError(400, message, "two_lengths", {"Connection": "close"})


def require_known_host(settings: ServeSettings, headers: Headers) -> None:
    """Raise RefusalError for a Host that is not this server's (a rebound DNS name) or an Origin that is not the Host.

    A browser sends Origin with requests that a page makes; programs send none.
    """
    host = headers.get("host", "")
    if not settings.accepts_host(_host_name(host)):
        raise RefusalError(421, "The Host header does not name this server. Allow it with --allow-host.", "host")
    origins = headers.getlist("origin")
    own = (f"http://{host}", f"https://{host}", *settings.allowed_origins)
    if any(origin.lower() not in own for origin in origins):
        raise RefusalError(403, "The Origin header is not this server's. Allow it with --allow-origin.", "origin")


def require_same_origin(request: Request) -> None:
    """Raise RefusalError unless the server's own page makes the request; other allowed origins will not do."""
    host, origins = request.headers.get("host", ""), request.headers.getlist("origin")
    if len(origins) != 1 or origins[0].lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
        raise RefusalError(403, "Judgements are accepted from the server's own page: Origin must be its own.", "origin")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise RefusalError(403, "Judgements are accepted from the server's own page.", "origin")


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "") if not set(host) & set("/?#@\\") else ""
    except ValueError:
        return ""


_LARGE = 16 << 10
"""Bodies of more bytes are parsed beside the event loop."""


async def get_service(request: Request) -> Service:
    """Return the service of the app."""
    service: Service = request.app.state.service
    return service


class KeyNeeded(SecurityBase):
    """A dependency that gives the request's key. Its routes refuse a request without the right (None: any)."""

    def __init__(self, right: Right | None) -> None:
        self.right = right
        self.scheme_name = HTTPBearer.__name__
        self.model = HTTPBearer(description="A key of the server. Not needed on a loopback address without keys.").model

    async def __call__(self, request: Request) -> AccessKey:
        """Return the key that the route has found."""
        key: AccessKey = request.state.access_key
        return key

    def find(self, request: Request, service: Service) -> AccessKey:
        """Return the key that the headers have. Raises RefusalError (401, 403)."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme and not (scheme.lower() == "bearer" and secret):
            raise RefusalError(401, "The Authorization header must be 'Bearer KEY'.", "invalid_api_key")
        key = service.authenticate(secret.strip() if scheme else None)
        if self.right is not None:
            service.require_right(key, self.right)
        request.state.access_key, request.state.key = key, key.name
        return key


class GuardedRoute(APIRoute):
    """A route that finds the key first, and reads and parses a body only then.

    An endpoint that takes nothing but the body, the request, the service and a key is called without FastAPI's
    solution of dependencies, which takes longer than a small search.
    """

    has_documents = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests."""
        handle = super().get_route_handler()
        needs = {str(need.name): need.call for need in self.dependant.dependencies}
        keys = {name: call for name, call in needs.items() if isinstance(call, KeyNeeded)}
        model: Any = None if self.body_field is None else self.body_field.field_info.annotation
        others = [name for name, call in needs.items() if call is not get_service and name not in keys]
        direct = not (self.dependant.path_params or self.dependant.query_params or others)

        async def call_endpoint(request: Request, service: Service, value: BaseModel) -> Response:
            key = {name: request.state.access_key for name in keys}
            more = {name: request for name in (self.dependant.request_param_name,) if name is not None}
            response: Response = await self.endpoint(body=value, service=service, **key, **more)
            return response

        async def handle_guarded(request: Request) -> Response:
            service = await get_service(request)
            for key in keys.values():
                key.find(request, service)
            if model is None:
                return await handle(request)
            limits, kind = service.settings.limits, request.headers.get("content-type", "")
            most = limits.documents_body if self.has_documents else limits.body
            budget = service.documents_budget if self.has_documents else service.body_budget
            async with receive_body(request.headers, request.receive, budget, most, limits.timeout) as body:
                if len(body) > _LARGE and "json" in kind:
                    async with service.parsing:
                        value = await service.work(partial(parse_large, body, model))
                    return await handle(_ReadRequest(request, body, value))
                small = _parse_small(body, model) if direct and kind == "application/json" else None
                if small is None:
                    return await handle(_ReadRequest(request, body))
                return await call_endpoint(request, service, small)

        return handle_guarded


def _parse_small(body: bytes, model: type[BaseModel]) -> BaseModel | None:
    """Return the value of a body; None if it is not valid: FastAPI says then what is wrong with it."""
    try:
        return model.model_validate(json.loads(body))
    except (ValueError, RecursionError):
        return None


class DocumentsRoute(GuardedRoute):
    """A route whose bodies are documents, which may be large."""

    has_documents = True


class _ReadRequest(Request):
    """A request whose body has been read, and parsed if it is large."""

    def __init__(self, request: Request, body: bytes, value: BaseModel | None = None) -> None:
        super().__init__(request.scope, request.receive)
        self._bytes, self._value = body, value

    async def body(self) -> bytes:
        """Return the body as it came."""
        return self._bytes

    async def json(self) -> Any:
        """Return the value of the body."""
        return self._value or json.loads(self._bytes)


ServiceNeeded = Annotated[Service, Depends(get_service)]
ReadKey = Annotated[AccessKey, Depends(KeyNeeded("read"))]
WriteKey = Annotated[AccessKey, Depends(KeyNeeded("write"))]
JudgeKey = Annotated[AccessKey, Depends(KeyNeeded("judge"))]
AnyKey = Annotated[AccessKey, Depends(KeyNeeded(None))]
