"""ASGI middleware before every face: Host and Origin, the size and time of bodies, request ids, logs and metrics."""

import itertools
import time
import uuid
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragindex.serve.config import ServeSettings
from ragindex.serve.logs import log_event
from ragindex.serve.refusals import RefusalError, error_body
from ragindex.serve.service import Service

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}
_CLIENT_LEFT = 499
"""What the log has for a client that left before its answer."""


def answer_refusal(refusal: RefusalError) -> JSONResponse:
    """Return the response for a refusal."""
    return JSONResponse(
        error_body(refusal.status, refusal.message, refusal.code), refusal.status, headers=refusal.headers
    )


class RequestGuard:
    """Middleware: checks a request by its headers, and records the response. HEAD is GET without the body."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service
        self._ids, self._server_id = itertools.count(1), uuid.uuid4().hex[:24]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await (self.app(scope, receive, send) if scope["type"] == "lifespan" else _close(send))
            return
        start, status, verb = time.perf_counter(), 500, scope["method"]
        request_id = f"{self._server_id}{next(self._ids):08x}"
        scope = {**scope, "method": "GET" if verb == "HEAD" else verb}  # the server leaves out the body
        scope.setdefault("state", {})["request_id"] = request_id

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
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
        log_event(
            "request",
            id=request_id,
            verb=verb,
            route=route,
            status=status,
            ms=round(1000 * seconds, 1),
            **more,
        )


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


async def _close(send: Send) -> None:
    """Refuse a web socket: no face has one."""
    await send({"type": "websocket.close", "code": 1000})
