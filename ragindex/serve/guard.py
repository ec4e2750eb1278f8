"""ASGI middleware before every face: Host and Origin, the size and time of bodies, request ids, logs and metrics."""

import asyncio
import time
import uuid
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
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


def answer_refusal(refusal: RefusalError) -> JSONResponse:
    """Return the response for a refusal."""
    return JSONResponse(
        error_body(refusal.status, refusal.message, refusal.code), refusal.status, headers=refusal.headers
    )


class RequestGuard:
    """Middleware: checks a request before its body is parsed, and records the response."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await (self.app(scope, receive, send) if scope["type"] == "lifespan" else _close(send))
            return
        start, request_id, status = time.perf_counter(), uuid.uuid4().hex, 500
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
            require_known_host(self.service.settings, Headers(scope=scope))
            body = await self._read_body(scope, receive)
            if body is not None:
                await self.app(scope, _replay(body, receive), answer)
        except RefusalError as refusal:
            await answer_refusal(refusal)(scope, receive, answer)
        finally:
            self._record(scope, request_id, status, time.perf_counter() - start)

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body, or None if the client has left. Raises RefusalError (413, 408)."""
        limits = self.service.settings.limits
        most = limits.documents_body if scope["path"].startswith("/documents") else limits.body
        if _stated_length(Headers(scope=scope)) > most:
            raise RefusalError(413, f"The body has more than {most} bytes.", "body_size", {"Connection": "close"})
        pieces, size = list[bytes](), 0
        try:
            async with asyncio.timeout(limits.timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > most:
                        raise RefusalError(
                            413, f"The body has more than {most} bytes.", "body_size", {"Connection": "close"}
                        )
                    if not message.get("more_body", False):
                        return b"".join(pieces)
        except TimeoutError:
            message_text = f"The body did not arrive within {limits.timeout:g} seconds."
            raise RefusalError(408, message_text, "body_time", {"Connection": "close"}) from None

    def _record(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "") or ("/mcp" if scope["path"] == "/mcp" else "other")
        self.service.metrics.requests.labels(route, str(status)).inc()
        self.service.metrics.seconds.labels(route).observe(seconds)
        state = scope["state"]
        more = {name: state[name] for name in ("key", "collection", "method", "hits", "query") if name in state}
        log_event(
            "request",
            id=request_id,
            verb=scope["method"],
            route=route,
            status=status,
            ms=round(1000 * seconds, 1),
            **more,
        )


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


def _stated_length(headers: Headers) -> int:
    stated = headers.get("content-length", "")
    return int(stated) if stated.isdecimal() and len(stated) < 19 else 0


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the whole body, then what the client does next."""
    given = iter([body])

    async def replayed() -> Message:
        for one in given:
            return {"type": "http.request", "body": one, "more_body": False}
        return await receive()

    return replayed


async def _close(send: Send) -> None:
    """Refuse a web socket: no face has one."""
    await send({"type": "websocket.close", "code": 1000})
