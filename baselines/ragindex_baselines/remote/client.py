"""JSON requests to one address, of which nothing leads elsewhere and no answer is read without end.

No redirect is followed and no proxy is used, so a key reaches the named host alone. The bytes of an answer and the
seconds of a whole request are bounded, also where a server sends one byte at a time.
"""

import json
import math
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from selectors import EVENT_READ, DefaultSelector
from threading import Event, Timer
from typing import Any
from urllib.parse import urlsplit

from ragindex._util.canonical import encodable
from ragindex._util.http import RequestProblem, RequestProblemError, redact, retry_after
from ragindex._util.redaction import bare_address

_LONGEST_MESSAGE = 300  # characters of a server's text in an error
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # a compressed answer could be larger than it seems
    "User-Agent": "ragindex",
}


@dataclass(frozen=True, slots=True)
class JsonAddress:
    """An address that JSON is posted to, with the headers of each request, such as the one that holds the `key`.

    Connecting takes at most `timeout` seconds, a request as many to the last byte, and an answer has at most
    `max_bytes`. Connections are kept for the next request. Thread-safe.
    """

    url: str
    timeout: float
    max_bytes: int
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    _idle: deque[HTTPConnection] = field(default_factory=deque)

    def post(self, body: Mapping[str, Any]) -> Any:
        """Post a JSON object and return the parsed JSON answer.

        Raises RequestProblemError, which never contains the key, for a status other than 200, a lost connection, and an
        answer that takes too long, is too large, is compressed or is not JSON.
        """
        connection = self._take()
        reusable = False
        try:
            answer, text = self._exchange(connection, json.dumps(body).encode())
            reusable = not answer.will_close and answer.isclosed()
        finally:
            if reusable:
                self._idle.append(connection)
            else:
                connection.close()
        if answer.status != 200:
            raise RequestProblemError(self._explain_status(answer, text))
        if len(text) > self.max_bytes:
            raise RequestProblemError(RequestProblem(f"more than {self.max_bytes:,} bytes were sent", 200))
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise RequestProblemError(RequestProblem("the answer is compressed, which was not asked for", 200))
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise RequestProblemError(RequestProblem(f"expected JSON, got {self._show(text)!r}", 200)) from None

    def close(self) -> None:
        """Close the connections that are kept."""
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> HTTPConnection:
        """Return a kept connection that the server has not closed, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if not _is_dropped(connection):
                return connection
            connection.close()
        return self._connect()

    def _connect(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        try:
            connection: HTTPConnection
            if parts.scheme == "https":
                context = ssl.create_default_context()
                connection = HTTPSConnection(host, port, timeout=self.timeout, context=context)
            else:
                connection = HTTPConnection(host, port, timeout=self.timeout)
            connection.connect()
        except OSError as error:
            problem = RequestProblem(f"no connection: {error.strerror or error}", away=True)
        else:
            return connection
        raise RequestProblemError(problem)

    def _exchange(self, connection: HTTPConnection, request_body: bytes) -> tuple[HTTPResponse, bytes]:
        """Send a request and read the answer, as far as it may be read."""
        lost, late = "", f"no whole answer within {self.timeout:g} seconds"
        with _limit_time(connection, self.timeout) as cut:
            try:
                connection.request("POST", urlsplit(self.url).path or "/", request_body, {**_HEADERS, **self.headers})
                answer = connection.getresponse()
                text = answer.read(self.max_bytes + 1)
                if answer.length and len(text) <= self.max_bytes:
                    raise IncompleteRead(b"", answer.length)
            except TimeoutError:  # of the socket, which waits as long as the timer does and can be first
                lost = late
            except (OSError, HTTPException) as error:
                lost = f"the connection was lost: {redact(str(error) or type(error).__name__, self.key)}"
        if cut.is_set():
            lost = late
        if lost:
            raise RequestProblemError(RequestProblem(lost[:_LONGEST_MESSAGE]))
        return answer, text

    def _explain_status(self, answer: HTTPResponse, text: bytes) -> RequestProblem:
        message, headers = self._show(text), {name.lower(): value for name, value in answer.headers.items()}
        if 300 <= answer.status < 400:
            target = redact(bare_address(headers.get("location", "")), self.key)[:_LONGEST_MESSAGE]
            message = f"it redirects to {target!r}, and redirects are not followed"
        return RequestProblem(message, answer.status, retry_after=retry_after(headers))

    def _show(self, text: bytes) -> str:
        return redact(text.decode("utf-8", "replace"), self.key)[:_LONGEST_MESSAGE]


def _is_dropped(connection: HTTPConnection) -> bool:
    """Return whether the server has closed an idle connection, or sent what nobody asked for."""
    if connection.sock is None:
        return True
    with DefaultSelector() as selector:
        selector.register(connection.sock, EVENT_READ)
        return bool(selector.select(timeout=0))


@contextmanager
def _limit_time(connection: HTTPConnection, seconds: float) -> Iterator[Event]:
    """Cut the connection after `seconds`, and set the event; a socket's own timeout begins anew with every byte."""
    is_cut = Event()
    open_socket = connection.sock  # http.client forgets it when an answer says that it ends the connection

    def cut() -> None:
        is_cut.set()
        try:
            # The method of plain sockets: that of TLS sockets must not be called while another thread reads.
            socket.socket.shutdown(open_socket, socket.SHUT_RDWR)
        except OSError:  # the server was faster
            return

    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield is_cut
    finally:
        timer.cancel()


# ---------------------------------------------------------------- what is sent to a service and what it sends back


_LONGEST_ID, _LONGEST_TITLE, _LONGEST_TEXT = 2_000, 500, 50_000  # characters; more is cut


@dataclass(frozen=True, slots=True)
class ServiceHit:
    """A hit as a service sends it.

    `id` is its own id. `documents` are ways of naming its documents: the first one that names a known one counts.
    """

    id: str
    documents: tuple[tuple[str, ...], ...]
    title: str
    text: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Protocol:
    """How questions and hits are written. `hits` is the field of an answer that holds the hits.

    At most `most` hits may be asked for. With `by_file_name`, hits name documents by the last part of a path, too.
    """

    write: Callable[[str, int], dict[str, Any]]
    hits: str
    read_hit: Callable[[Mapping[str, Any]], ServiceHit]
    most: int
    by_file_name: bool = False

    def read(self, answer: Any, k: int) -> list[ServiceHit]:
        """Return the first `k` hits of an answer. Raises RequestProblemError if they are in another form."""
        hits = answer.get(self.hits) if isinstance(answer, Mapping) else None
        if not isinstance(hits, list) or not all(isinstance(hit, Mapping) for hit in hits):
            raise RequestProblemError(RequestProblem(f"expected an object with a list {self.hits!r} of objects", 200))
        return [self.read_hit(hit) for hit in hits[:k]]


def _read_plain(hit: Mapping[str, Any]) -> ServiceHit:
    doc_ids = hit.get("doc_ids")
    documents = tuple(filter(None, map(_read_id, doc_ids))) if isinstance(doc_ids, list) else ()
    id = _read_id(hit.get("id"))
    if not id:
        raise RequestProblemError(RequestProblem("expected an 'id' in every hit", 200))
    title, text = _read_text(hit.get("title"), _LONGEST_TITLE), _read_text(hit.get("text"), _LONGEST_TEXT)
    return ServiceHit(id, (documents, (id,)), title, text, _read_score(hit))


def _read_openai(hit: Mapping[str, Any]) -> ServiceHit:
    content = hit.get("content")
    texts = [part.get("text") for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    text = "\n".join(text for text in texts if isinstance(text, str))
    file, name = _read_id(hit.get("file_id")), _read_id(hit.get("filename"))
    if not file:
        raise RequestProblemError(RequestProblem("expected a 'file_id' in every result", 200))
    return ServiceHit(file, ((file,), (name,)), name[:_LONGEST_TITLE], text[:_LONGEST_TEXT], _read_score(hit))


PROTOCOLS: Mapping[str, Protocol] = {
    "plain": Protocol(lambda text, k: {"query": text, "k": k}, "hits", _read_plain, 1_000),
    "openai": Protocol(
        lambda text, k: {"query": text, "max_num_results": k}, "data", _read_openai, 50, by_file_name=True
    ),
}


def _read_id(value: Any) -> str:
    """Return an id, which may also be an int; "" if there is none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return encodable(str(value))[:_LONGEST_ID]


def _read_text(value: Any, longest: int) -> str:
    return encodable(value[:longest]).replace("\0", "") if isinstance(value, str) else ""


def _read_score(hit: Mapping[str, Any]) -> float | None:
    score = hit.get("score")
    known = isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score)
    return float(score) if known else None  # type: ignore[arg-type]  # it is a number
