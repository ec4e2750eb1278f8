"""A real HTTP server on 127.0.0.1 that speaks OpenAI's protocol, and misbehaves on order.

`with OpenAIServer() as server:` gives `server.url`. Each fault in `server.faults` spoils one request, in order; a fault
takes the right answer and gives what is sent in its place, None to drop the connection.
"""

import json
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self, TypeAlias

KEY = "sk-a-secret-of-this-test"
NATIVE = 48  # dimensions where none are asked for


@dataclass(frozen=True)
class Received:
    """A request: its path, headers with lower-case names, JSON body, and when it came (monotonic seconds)."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    at: float


@dataclass(frozen=True)
class Answer:
    """What is sent back: `body` as JSON, or as it is where it is text."""

    status: int
    body: Mapping[str, Any] | str
    headers: Mapping[str, str] = field(default_factory=dict)


Fault: TypeAlias = Callable[[Answer], Answer | None]


# ---------------------------------------------------------------- faults


def status(code: int, message: str = "no", **headers: str) -> Fault:
    """An error answer; `retry_after="1"` becomes the header Retry-After."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Answer(code, {"error": {"message": message, "type": "test", "code": None}}, sent)


def slow(seconds: float) -> Fault:
    """The right answer, late."""

    def wait(answer: Answer) -> Answer:
        time.sleep(seconds)
        return answer

    return wait


def drop(_: Answer) -> None:
    """The connection is closed without an answer."""


def says(text: str) -> Fault:
    """Any text instead of JSON."""
    return lambda answer: replace(answer, body=text)


def data(change: Callable[[list[dict[str, Any]]], Any]) -> Fault:
    """The list of embeddings changed by a function."""

    def spoil(answer: Answer) -> Answer:
        assert isinstance(answer.body, Mapping)
        return replace(answer, body={**answer.body, "data": change(list(answer.body["data"]))})

    return spoil


def embedding(value: Any) -> Fault:
    """The first embedding replaced."""
    return data(lambda items: [{**items[0], "embedding": value}, *items[1:]])


# ---------------------------------------------------------------- the server


class OpenAIServer:
    """Embeddings of texts of at most `longest` characters; a token is a word. Only the key KEY is let in."""

    def __init__(self, longest: int = 1_000_000) -> None:
        self.longest = longest
        self.faults: deque[Fault] = deque()
        self.requests: list[Received] = []
        self.routes: dict[str, Callable[[Mapping[str, Any]], Answer]] = {"/v1/embeddings": self._embeddings}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, received: Received) -> Answer | None:
        self.requests.append(received)
        route = self.routes.get(received.path)
        if route is None:
            right = Answer(404, {"error": {"message": f"no such path {received.path}"}})
        elif received.headers.get("authorization") != f"Bearer {KEY}":
            right = Answer(401, {"error": {"message": f"wrong key {received.headers.get('authorization')}"}})
        else:
            right = route(received.body)
        return self.faults.popleft()(right) if self.faults else right

    def _embeddings(self, body: Mapping[str, Any]) -> Answer:
        texts, dimensions = body["input"], body.get("dimensions", NATIVE)
        if any(not text for text in texts):
            return Answer(400, {"error": {"message": "'input' holds an empty string"}})
        if any(len(text) > self.longest for text in texts):
            return Answer(400, {"error": {"message": f"This model's maximum context length is {self.longest}."}})
        items = [{"index": i, "embedding": embed(text, dimensions)} for i, text in enumerate(texts)]
        tokens = sum(len(text.split()) for text in texts)
        return Answer(
            200, {"object": "list", "data": items, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
        )


def embed(text: str, dimensions: int = NATIVE) -> list[float]:
    """A bag of words, each in a place that its hash names; not of length one."""
    vector = [0.5] + [0.0] * (dimensions - 1)
    for word in text.casefold().split():
        vector[zlib.crc32(word.encode("utf-8", "replace")) % dimensions] += 3.0
    return vector


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # the name that http.server calls
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.answer(Received(self.path, headers, body, time.monotonic()))
            if answer is None:
                self.close_connection = True
            else:
                self._send(answer)

        def _send(self, answer: Answer) -> None:
            sent = (answer.body if isinstance(answer.body, str) else json.dumps(answer.body)).encode()
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            try:
                self.wfile.write(sent)
            except ConnectionError:  # the client did not wait
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
