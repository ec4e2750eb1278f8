"""A judging session as one local page: a small server on 127.0.0.1, with a secret in its address.

The texts of documents reach the page as JSON and are set as text, never as HTML. The content security policy allows the
page's own script and style alone, by nonce. A request with another Host is refused, so no other page can reach the
server through a name that it makes point here.
"""

import json
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from jinja2 import Template
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ragindex.errors import RagindexError, UsageError
from ragindex.serve.web import page_policy, quiet_config
from ragindex_eval.judge.session import JudgingSession

_PAGE = Path(__file__).with_name("page.html")
_LARGEST_BODY = 10_000  # bytes
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


@dataclass(frozen=True, slots=True)
class JudgingPage:
    """The routes of a page: they judge in `session`, and call `stop` when the person stops."""

    session: JudgingSession
    stop: Callable[[], None]
    host: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def make_app(self) -> Starlette:
        """Return the app; every address begins with the token."""
        routes = [
            Route("/{token}/", self._guard(self._show)),
            Route("/{token}/item", self._guard(self._send_item)),
            Route("/{token}/answer", self._guard(self._answer), methods=["POST"]),
            Route("/{token}/undo", self._guard(self._undo), methods=["POST"]),
            Route("/{token}/stop", self._guard(self._stop), methods=["POST"]),
        ]
        return Starlette(routes=routes)

    def _guard(self, answer: Callable[[Any], Response]) -> Any:
        """Return the endpoint that refuses other hosts, tokens and large bodies, and turns errors into JSON."""

        async def endpoint(request: Request) -> Response:
            if request.headers.get("host") != self.host:
                return PlainTextResponse("unknown host", 421, _HEADERS)
            if not secrets.compare_digest(request.path_params["token"].encode(), self.token.encode()):
                return PlainTextResponse("not found", 404, _HEADERS)
            try:
                response = answer(await _read_body(request) if request.method == "POST" else None)
            except RagindexError as error:
                response = JSONResponse({"error": str(error), **self._state()}, 409)
            response.headers.update(_HEADERS)
            return response

        return endpoint

    def _show(self, _: Any) -> Response:
        nonce = secrets.token_urlsafe(16)
        template = Template(_PAGE.read_text(encoding="utf-8"), autoescape=True)
        return HTMLResponse(template.render(nonce=nonce), headers={"Content-Security-Policy": page_policy(nonce)})

    def _send_item(self, _: Any) -> Response:
        return JSONResponse(self._state())

    def _answer(self, body: Any) -> Response:
        """Save a grade, if it is for the document that is judged now: another tab may be ahead."""
        item = self.session.current()
        if item is None or (body.get("question"), body.get("document")) != (item.question.id, item.document.id):
            raise UsageError("Another document is judged now. Here it is; the answer before was not saved.")
        self.session.answer(body.get("grade"))
        return JSONResponse(self._state())

    def _undo(self, _: Any) -> Response:
        self.session.undo()
        return JSONResponse(self._state())

    def _stop(self, _: Any) -> Response:
        self.stop()
        return JSONResponse({"stopped": True})

    def _state(self) -> dict[str, Any]:
        item, session = self.session.current(), self.session
        counts = {"questions": session.questions, "judged": session.judged, "total": session.total}
        if item is None:
            return {**counts, "item": None}
        shown = {
            "question": item.question.text,
            "question_id": item.question.id,
            "question_place": item.question_place,
            "document_id": item.document.id,
            "document_place": item.document_place,
            "documents": len(item.question.documents),
            "title": item.document.title,
            "passages": list(item.document.passages),
            "grade": item.grade,
        }
        return {**counts, "item": shown}


async def _read_body(request: Request) -> Any:
    """Return the JSON object of a request. Raises UsageError for anything else, and for large bodies."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _LARGEST_BODY:
            raise UsageError(f"A request may have at most {_LARGEST_BODY} bytes.")
    try:
        value = json.loads(content)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError("A request must have a JSON object.")
    return value


class _Server(uvicorn.Server):
    """A server that Ctrl-C stops; uvicorn's own raises the interrupt again, so that the figures would not be shown."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop after the requests in flight."""
        self.should_exit = True


def judge_on_page(session: JudgingSession, announce: Callable[[str], None]) -> None:
    """Serve the page, and tell its address, until the person stops or presses Ctrl-C. Raises UsageError."""
    with socket.socket() as listening:
        try:
            listening.bind(("127.0.0.1", 0))
        except OSError as error:
            raise UsageError(f"The page cannot be served on 127.0.0.1: {error.strerror or error}.") from error
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        server: _Server

        def stop() -> None:
            server.should_exit = True

        page = JudgingPage(session, stop, host)
        server = _Server(quiet_config(page.make_app(), lifespan="off", timeout_graceful_shutdown=2))
        announce(f"http://{host}/{page.token}/")
        server.run([listening])
