"""Dependencies of routes: the service, and the key that the request is made with."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from ragindex.serve.keys import AccessKey, Right
from ragindex.serve.refusals import RefusalError
from ragindex.serve.service import Service

_BEARER = HTTPBearer(
    auto_error=False, description="A key of the server. Not needed on a loopback address without keys."
)


def get_service(request: Request) -> Service:
    """Return the service of the app."""
    service: Service = request.app.state.service
    return service


def require_key(right: Right | None) -> Callable[..., Any]:
    """Return a dependency that gives the request's key. Raises RefusalError without the right (None: any)."""

    def find(
        request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)] = None
    ) -> AccessKey:
        service = get_service(request)
        if given is None and request.headers.get("authorization"):
            raise RefusalError(401, "The Authorization header must be 'Bearer KEY'.", "invalid_api_key")
        key = service.authenticate(None if given is None else given.credentials)
        if right is not None:
            service.require_right(key, right)
        request.state.key = key.name
        return key

    return find


ServiceNeeded = Annotated[Service, Depends(get_service)]
ReadKey = Annotated[AccessKey, Depends(require_key("read"))]
WriteKey = Annotated[AccessKey, Depends(require_key("write"))]
JudgeKey = Annotated[AccessKey, Depends(require_key("judge"))]
AnyKey = Annotated[AccessKey, Depends(require_key(None))]
