"""A real HTTP server on 127.0.0.1 that speaks OpenAI's protocol, and misbehaves on order.

`with OpenAIServer() as server:` gives `server.url`. Each fault in `server.faults` spoils one request, in order; a fault
takes the right answer and gives what is sent in its place, None to drop the connection. `server.choose` picks a fault
by the request and by how many equal ones came before. `server.write` says what a chat answers, `server.count` how
many tokens a text of a chat has; `server.refuses` holds parameters of chats that are answered with 400; `server.sent`
counts answers with status 200 that were sent in full.
"""

import json
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Self, TypeAlias

import one_ssl_context  # noqa: F401  # quick clients

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
    """What is sent back: `body` as JSON, or as it is where it is text; the connection ends after a `share` of it."""

    status: int
    body: Mapping[str, Any] | str
    headers: Mapping[str, str] = field(default_factory=dict)
    share: float = 1.0


Fault: TypeAlias = Callable[[Answer], Answer | None]


# ---------------------------------------------------------------- faults


def status(number: int, message: str = "no", code: str | None = None, **headers: str) -> Fault:
    """An error answer; `retry_after="1"` becomes the header Retry-After."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Answer(number, {"error": {"message": message, "type": "test", "code": code}}, sent)


def slow(seconds: float) -> Fault:
    """The right answer, late."""

    def wait(answer: Answer) -> Answer:
        time.sleep(seconds)
        return answer

    return wait


def drop(_: Answer) -> None:
    """The connection is closed without an answer."""


def half(answer: Answer) -> Answer:
    """The connection is closed in the middle of the answer."""
    return replace(answer, share=0.5)


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


def cut(length: int) -> Fault:
    """Only the first characters of the body, as if that were all."""
    return lambda answer: replace(answer, body=json.dumps(answer.body)[:length])


def chat(**message: Any) -> Fault:
    """The chat's message and, by `finish_reason`, its end changed."""

    def spoil(answer: Answer) -> Answer:
        assert isinstance(answer.body, Mapping)
        (choice,) = answer.body["choices"]
        finish = message.get("finish_reason", choice["finish_reason"])
        changed = {key: value for key, value in message.items() if key != "finish_reason"}
        spoilt = {**choice, "finish_reason": finish, "message": {**choice["message"], **changed}}
        return replace(answer, body={**answer.body, "choices": [spoilt]})

    return spoil


def usage(counts: Any) -> Fault:
    """Other token counts; None for none."""

    def spoil(answer: Answer) -> Answer:
        assert isinstance(answer.body, Mapping)
        body = {key: value for key, value in answer.body.items() if key != "usage"}
        return replace(answer, body=body if counts is None else {**body, "usage": counts})

    return spoil


# ---------------------------------------------------------------- the server


class OpenAIServer:
    """Embeddings of texts of at most `longest` characters, and chats; a token is a word.

    Only `key` is let in, anyone if it is None.
    """

    def __init__(self, longest: int = 1_000_000, key: str | None = KEY) -> None:
        self.longest, self.key = longest, key
        self.faults: deque[Fault] = deque()
        self.requests: list[Received] = []
        self.routes: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
            "/v1/embeddings": self._embeddings,
            "/v1/chat/completions": self._chat,
        }
        self.choose: Callable[[Received, int], Fault | None] = lambda received, earlier: None
        self.count: Callable[[str], int] = lambda text: len(text.split())
        self.write: Callable[[Mapping[str, Any]], str] = lambda body: json.dumps(
            {"text": body["messages"][-1]["content"]}
        )
        self.refuses: set[str] = set()
        self.sent = self.in_flight = self.most_in_flight = 0
        self._seen: Counter[str] = Counter()
        self._lock = Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
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
        route = self.routes.get(received.path) or self.routes.get(received.path.partition("?")[0])
        if route is None:
            right = Answer(404, {"error": {"message": f"no such path {received.path}"}})
        elif self.key is not None and received.headers.get("authorization") != f"Bearer {self.key}":
            right = Answer(401, {"error": {"message": f"wrong key {received.headers.get('authorization')}"}})
        else:
            right = route(received.body)
        fault = self._fault(received)
        return right if fault is None else fault(right)

    def _fault(self, received: Received) -> Fault | None:
        request = json.dumps(received.body, sort_keys=True)
        with self._lock:
            earlier = self._seen[request]
            self._seen[request] += 1
            return self.faults.popleft() if self.faults else self.choose(received, earlier)

    def begins(self) -> None:
        with self._lock:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)

    def ends(self, sent: bool) -> None:
        with self._lock:
            self.in_flight -= 1
            self.sent += sent

    def _chat(self, body: Mapping[str, Any]) -> Answer:
        parameters = {*body, body.get("response_format", {}).get("type")}
        refused = sorted(name for name in self.refuses if name in parameters)
        if refused:
            message = f"Unsupported parameter: '{refused[0]}' is not supported with this model."
            return Answer(400, {"error": {"message": message, "type": "invalid_request_error", "param": refused[0]}})
        text = self.write(body)
        message = {"role": "assistant", "content": text, "refusal": None}
        read, written = sum(self.count(each["content"]) for each in body["messages"]), self.count(text)
        counts = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return Answer(200, {"object": "chat.completion", "choices": [choice], "usage": counts})

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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def embed(text: str, dimensions: int = NATIVE) -> list[float]:
    """A bag of words, each in a place that its hash names; not of length one."""
    vector = [0.5] + [0.0] * (dimensions - 1)
    for word in text.casefold().split():
        vector[zlib.crc32(word.encode("utf-8", "replace")) % dimensions] += 3.0
    return vector


def read_form(sort: str, content: bytes) -> dict[str, str]:
    """The fields of a form in `multipart/form-data`, by name."""
    message = message_from_bytes(b"Content-Type: " + sort.encode() + b"\r\n\r\n" + content)
    parts = [part for part in message.walk() if not part.is_multipart()]
    texts = [part.get_payload(decode=True) for part in parts]
    names = [str(part.get_param("name", header="content-disposition")) for part in parts]
    return {name: text.decode() for name, text in zip(names, texts, strict=True) if isinstance(text, bytes)}


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        disable_nagle_algorithm = True

        def do_POST(self) -> None:  # the name that http.server calls
            content = self.rfile.read(int(self.headers["Content-Length"]))
            sort = self.headers["Content-Type"] or ""
            self._answer(read_form(sort, content) if sort.startswith("multipart/") else json.loads(content))

        def do_GET(self) -> None:  # the name that http.server calls
            self._answer({})

        def _answer(self, body: Mapping[str, Any]) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.begins()
            sent = False
            try:
                answer = server.answer(Received(self.path, headers, body, time.monotonic()))
                self.close_connection = answer is None
                sent = answer is not None and self._send(answer) and answer.status == 200
            finally:
                server.ends(sent)

        def _send(self, answer: Answer) -> bool:
            sent = (answer.body if isinstance(answer.body, str) else json.dumps(answer.body)).encode()
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            try:
                self.wfile.write(sent[: round(answer.share * len(sent))])
                self.close_connection = self.close_connection or answer.share < 1
            except ConnectionError:  # the client did not wait
                self.close_connection = True
                return False
            return True

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
