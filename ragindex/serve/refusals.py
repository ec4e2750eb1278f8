"""Errors that clients see: a status, a message without secrets and paths, and one JSON shape on every API."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from ragindex._util.redaction import hide_secrets
from ragindex.errors import (
    BudgetError,
    DailyBudgetError,
    DataError,
    RagindexError,
    ServiceError,
    StoreError,
    UsageError,
    WorkspaceError,
)

RETRY_SECONDS = 1
_LONGEST_MESSAGE = 2_000  # characters
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


class RefusalError(Exception):
    """A request that is answered with an error. `headers` are added to the response."""

    def __init__(self, status: int, message: str, code: str, headers: Mapping[str, str] | None = None) -> None:
        message = message[:_LONGEST_MESSAGE]
        super().__init__(message)
        self.status, self.message, self.code, self.headers = status, message, code, dict(headers or {})


class ServerBudgetError(BudgetError):
    """The next call could exceed what the whole server may pay."""


def busy(message: str, code: str = "overloaded", seconds: int = RETRY_SECONDS) -> RefusalError:
    """Return the refusal of a request that may succeed later: 503 with Retry-After."""
    return RefusalError(503, message, code, {"Retry-After": str(seconds)})


def error_body(status: int, message: str, code: str) -> dict[str, Any]:
    """Return the JSON of an error, in the shape of OpenAI's API, so that its clients show the message."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "code": code, "param": None}}


def answer_refusal(refusal: RefusalError) -> JSONResponse:
    """Return the response for a refusal."""
    return JSONResponse(
        error_body(refusal.status, refusal.message, refusal.code), refusal.status, headers=refusal.headers
    )


def refuse(error: RagindexError) -> RefusalError:
    """Return the refusal for an error of the framework. Messages that can name files of the server are replaced."""
    if isinstance(error, UsageError | DataError):
        return RefusalError(400, hide_secrets(str(error)), "invalid_request")
    if isinstance(error, DailyBudgetError):
        return RefusalError(
            402, "What may be paid in a day is used up. Raise RAGINDEX_DAILY_BUDGET, or wait.", "spend_cap"
        )
    if isinstance(error, ServerBudgetError):
        return RefusalError(402, f"{error} Whoever runs it restarts it with a larger --budget.", "spend_cap")
    if isinstance(error, BudgetError):
        return RefusalError(
            402, "The spend cap of this key is used up. Raise its budget in the server's keys.", "spend_cap"
        )
    if isinstance(error, ServiceError):
        return busy("A service that the method calls cannot be used now. The server's log has the reason.", "service")
    if isinstance(error, StoreError | WorkspaceError):
        return busy("The index cannot be read now. The server's log has the reason.", "index")
    return busy("The request could not be answered now. The server's log has the reason.", "unavailable")
