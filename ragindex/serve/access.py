"""What stands before a route: the key of the request, found before its body is read, and the bounds of the body."""

import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from fastapi.security.base import SecurityBase
from pydantic import BaseModel
from starlette.responses import Response

from ragindex.serve.bodies import parse_large, receive_body
from ragindex.serve.keys import AccessKey, Right
from ragindex.serve.refusals import RefusalError
from ragindex.serve.service import Service

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
    """A route that finds the key first, and reads and parses a body only then."""

    has_documents = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests."""
        handle = super().get_route_handler()
        keys = [one.call for one in self.dependant.dependencies if isinstance(one.call, KeyNeeded)]
        model: Any = None if self.body_field is None else self.body_field.field_info.annotation

        async def handle_guarded(request: Request) -> Response:
            service = await get_service(request)
            for key in keys:
                key.find(request, service)
            if model is None:
                return await handle(request)
            limits = service.settings.limits
            most = limits.documents_body if self.has_documents else limits.body
            room = service.documents_room if self.has_documents else service.room
            async with receive_body(request.headers, request.receive, room, most, limits.timeout) as body:
                if len(body) <= _LARGE or "json" not in request.headers.get("content-type", ""):
                    return await handle(_ReadRequest(request, body))
                async with service.parsing:
                    value = await service.work(partial(parse_large, body, model))
                return await handle(_ReadRequest(request, body, value))

        return handle_guarded


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
