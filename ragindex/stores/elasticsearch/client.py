"""The connection to an Elasticsearch cluster: address, keys, errors and retries.

Keys come only from the environment. They are in no parameter, and so in no file, label, log or error.
"""

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import regex

from ragindex._util.distribution import install_line, require_module
from ragindex._util.http import (
    RequestProblem,
    RequestProblemError,
    read_secret,
    read_variable,
    redact,
    retry,
    strip_credentials,
)
from ragindex.errors import StoreError, UsageError
from ragindex.stores.elasticsearch import responses
from ragindex.stores.elasticsearch.responses import PARTIAL, ItemsError, parse_error

Response = TypeVar("Response")
URL, API_KEY, USER, PASSWORD, CA_FILE = (
    f"ELASTICSEARCH_{name}" for name in ("URL", "API_KEY", "USER", "PASSWORD", "CA_FILE")
)
_OLDEST = (8, 18)
"""The oldest supported version, the first whose vector searches have their own k and rescore with full vectors."""
_MAX_REASON_LENGTH = 400
_MEDIA_TYPE_ERROR = "media_type_header_exception"
_PERMANENT_CODES = frozenset({"tls", "host", "no tls", "other"})
"""The codes of problems whose status is not from the server; it is set to prevent retries, which cannot succeed."""

_ACTION_PATTERN = regex.compile(r"action \[([a-z_:/\[\]]+)\] is unauthorized")
_PRIVILEGES = (
    ("cluster:", "the cluster privilege monitor"),
    ("indices:data/read/", "the privilege read on the store's indices"),
    ("indices:data/write/", "the privilege write on the store's indices"),
    ("indices:", "the privilege manage on the store's indices"),
)
"""The prefixes of action names, and the privilege that allows those actions; the first matching prefix counts."""

_HINTS: Mapping[str, str] = {
    "away": "See that the server runs and can be reached, then run the same command to resume.",
    "tls": (
        f"{CA_FILE} must name the certificate of the authority that has signed the server's; "
        "where it is not set, the authorities are those that this machine trusts."
    ),
    "host": "The certificate is for another host. Use the host name in the certificate.",
    "no tls": "The server answers without TLS. Use http://, or the port for https://.",
    "plain": "The server closed the connection, as one with TLS does. Use https://, or check that it is running.",
    PARTIAL: "Check GET _cluster/health. Once no index is red, run the same command to resume.",
    "other": "The address is not Elasticsearch's, or is that of a proxy in front of it.",
    "401": f"Set {API_KEY}, or {USER} and {PASSWORD}, to what the server accepts.",
    "403": "It needs the cluster privilege monitor and, on the store's indices, manage, read and write.",
    "cluster_block_exception": "The server has blocked the index. Check its disk space and GET _cluster/health.",
    "index_not_found_exception": (
        "Its index on the server was deleted. Run ragindex index to rebuild the parts; if the documents are lost too, "
        "run ragindex index DATA --index with another folder."
    ),
    _MEDIA_TYPE_ERROR: (
        f"The server must be 8 (from {_OLDEST[0]}.{_OLDEST[1]}) or 9, and the package must support both. "
        f"Run: {install_line('elasticsearch')}"
    ),
}


@dataclass(frozen=True, slots=True)
class Server:
    """A connection to one cluster. Thread-safe. `where` is its address, without user and password."""

    where: str
    client: Any = field(repr=False)
    keys: tuple[str, ...] = field(repr=False)
    retries: int = 5

    def ask(self, doing: str, call: Callable[[Any], Response], *, retries: int | None = None) -> Response:
        """Return the response of `call`. Retries lost connections, 429 and 5xx, with growing delays.

        Raises StoreError, which says what failed (`doing`) and what to do next.
        """
        try:
            return self.try_to(call, retries=retries)
        except RequestProblemError as error:
            raise self.failure(doing, error.problem) from None

    def try_to(self, call: Callable[[Any], Response], *, retries: int | None = None) -> Response:
        """Return the response of `call` as `ask` does, but raise RequestProblemError for the caller to handle."""
        tries = self.retries if retries is None else retries
        return retry(lambda: self._call(call), tries, Random())  # noqa: S311  # jitter, no result

    def failure(self, doing: str, problem: RequestProblem) -> StoreError:
        """Return the error for the user, with a hint."""
        hint = (
            _HINTS.get(problem.code) or f"{_describe_missing_privilege(problem)}{_HINTS.get(str(problem.status), '')}"
        )
        if not hint and problem.passes:
            hint = "It was tried several times. Run the same command to resume."
        unasked = problem.code in _PERMANENT_CODES  # the status is not from the server
        reason = " ".join((problem.message if unasked else str(problem)).split()).rstrip(".")
        return StoreError(f"The store at {self.where} could not {doing}: {reason}. {hint}".rstrip())

    def _call(self, call: Callable[[Any], Response]) -> Response:
        from elasticsearch import ApiError, TransportError

        try:
            return call(self.client)
        except ItemsError as error:
            raise ItemsError([item and self._without_keys(item) for item in error.problems]) from None
        except RequestProblemError as error:
            problem = self._without_keys(error.problem)
        except ApiError as error:
            problem = self._refused(error)
        except TransportError as error:
            problem = self._unanswered(error)
        raise RequestProblemError(
            problem
        )  # raised outside `except`, so that no request headers are attached to the error

    def _refused(self, error: Any) -> RequestProblem:
        from elasticsearch import UnsupportedProductError

        if isinstance(error, UnsupportedProductError):
            return RequestProblem("it does not answer like Elasticsearch", 501, "other")
        code, message = parse_error(error.body)
        return RequestProblem(self.short(message or error.message), error.meta.status, code)

    def _unanswered(self, error: Any) -> RequestProblem:
        from elastic_transport import ConnectionTimeout, TlsError

        message = self.short(str(error.message))
        if isinstance(error, TlsError):
            code = "host" if "doesn't match" in message or "mismatch" in message else "tls"
            if "WRONG_VERSION_NUMBER" in message or "record layer failure" in message:
                code = "no tls"
            return RequestProblem(message, 501, code)  # a retry would fail in the same way
        if "Remote end closed" in message and "http://" in self.where:
            return RequestProblem(message, code="plain")
        late = "no answer in time: " if isinstance(error, ConnectionTimeout) else ""
        return RequestProblem(f"{late}{message}", code="away")

    def _without_keys(self, problem: RequestProblem) -> RequestProblem:
        return replace(problem, message=self.short(problem.message))

    def short(self, text: str) -> str:
        """Return a server's message with keys removed, cut to a maximum length."""
        for key in self.keys:
            text = redact(text, key)
        return text[:_MAX_REASON_LENGTH]


def _describe_missing_privilege(problem: RequestProblem) -> str:
    """Return a sentence that names the missing privilege of a refused action; empty unless the status is 403."""
    if problem.status != 403:
        return ""
    action = _ACTION_PATTERN.search(problem.message)
    missing = [right for start, right in _PRIVILEGES if action is not None and action[1].startswith(start)]
    return f"The key lacks {missing[0]}. " if missing else "The key lacks a right. "


# ---------------------------------------------------------------- connecting


def connect(url: str | None, timeout: float, retries: int) -> Server:
    """Connect to the cluster at `url`, or at ELASTICSEARCH_URL. Several addresses are separated by commas.

    Raises UsageError if the address is missing or invalid, MissingExtraError if the client package is not installed,
    and StoreError if the cluster cannot be used.
    """
    package = require_module("elasticsearch", "elasticsearch", "The store elasticsearch")
    if package.__version__[0] not in (8, 9):
        version = ".".join(map(str, package.__version__))
        raise UsageError(
            f"The store elasticsearch needs the package elasticsearch 8 or 9, each of which supports servers 8 and 9; "
            f"got {version}. Run: {install_line('elasticsearch')}"
        )
    address = url or read_variable([URL])
    if address is None:
        raise UsageError(f"The store elasticsearch needs an address: elasticsearch:http://HOST:9200, or set {URL}.")
    hosts = [host.strip().rstrip("/") for host in address.split(",") if host.strip()]
    login, keys = _read_login(hosts)
    bare = [check_address(strip_credentials(check_address(host, URL)), URL) for host in hosts]
    client = create_client(
        [_add_port(host) for host in bare],
        request_timeout=timeout,
        max_retries=len(bare),  # to try the other nodes
        ca_certs=_read_ca_file(bare),
        **login,
    )
    server = Server(",".join(bare), client, keys, retries)
    info = server.ask("be opened", lambda client: client.info(), retries=0)
    number = str(info["version"]["number"])
    if tuple(map(int, number.split(".")[:2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise StoreError(f"The store at {server.where} is Elasticsearch {number}; {oldest} or later is needed.")
    return server


def create_client(hosts: Sequence[str], **how: Any) -> Any:
    """Create a client that checks every response before returning it (see `responses`). Use no other client."""
    from elasticsearch import Elasticsearch

    transport, node_pool = _build_transport_class(), _build_node_pool_class()
    return Elasticsearch(list(hosts), transport_class=transport, node_pool_class=node_pool, **how)


def accept_version_8(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers that ask for responses of version 8.

    A client 9 asks for those of version 9, which servers 8 refuse; servers 8 and 9 know those of version 8.
    """
    return {name: value.replace("compatible-with=9", "compatible-with=8") for name, value in (headers or {}).items()}


@cache
def _build_transport_class() -> type:
    from elastic_transport import Transport

    class CheckingTransport(Transport):
        """A transport that sends only requests whose responses it can check."""

        def perform_request(
            self, method: str, target: str, *, body: Any = None, headers: Any = None, **how: Any
        ) -> Any:
            """Send a request. Raises RequestProblemError if the response is incomplete."""
            responses.require_rule(method, target, body)
            answer = super().perform_request(method, target, body=body, headers=accept_version_8(headers), **how)
            if answer.meta.status < HTTPStatus.MULTIPLE_CHOICES:  # otherwise the client raises or ignores the status
                responses.check_response(method, target, body, answer.body)
            return answer

    return CheckingTransport


@cache
def _build_node_pool_class() -> type:
    from elastic_transport import BaseNode, NodePool

    class LockedNodePool(NodePool):
        """A pool of nodes for several threads: the client's own lists live nodes while others are marked as dead."""

        def __init__(self, *arguments: Any, **how: Any) -> None:
            super().__init__(*arguments, **how)
            self._lock = Lock()

        def get(self) -> BaseNode:
            """Return a node that is alive, if there is one."""
            with self._lock:
                return super().get()

        def mark_dead(self, node: BaseNode, _now: float | None = None) -> None:
            """Leave a node out for a while."""
            with self._lock:
                super().mark_dead(node, _now)

        def mark_live(self, node: BaseNode) -> None:
            """Use a node again."""
            with self._lock:
                super().mark_live(node)

    return LockedNodePool


def check_address(host: str, name: str) -> str:
    """Return a valid address. Raises UsageError, without the address, because it may contain a password."""
    if not host.startswith(("http://", "https://")):
        raise UsageError(f"The address of the store elasticsearch ({name}) must begin with http:// or https://.")
    if "?" in host or "#" in host or "@" in strip_credentials(host):
        raise UsageError(
            f"The address of the store elasticsearch ({name}) is not valid: remove its query, and write / @ : ? # in "
            "its user and password as %2F %40 %3A %3F %23."
        )
    return host


def _add_port(host: str) -> str:
    scheme, _, rest = host.partition("://")
    place, slash, path = rest.partition("/")
    port = "" if ":" in place.rpartition("]")[2] else ":443" if scheme == "https" else ":9200"
    return f"{scheme}://{place}{port}{slash}{path}"


def _read_login(hosts: list[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the client's authentication arguments and the secrets in them."""
    key = read_secret([API_KEY])
    if key is not None:
        return {"api_key": key}, (key,)
    user, password = read_variable([USER]), read_secret([PASSWORD])
    if user is None:
        parts = urlsplit(hosts[0]) if hosts else None
        if parts is not None and parts.username:
            user, password = unquote(parts.username), unquote(parts.password or "")
    if user is None:
        return {}, ()
    if not password:
        raise UsageError(f"{USER} is set, {PASSWORD} is not. Set both, or {API_KEY}.")
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()  # the form in the request header
    return {"basic_auth": (user, password)}, (encoded, password)


def _read_ca_file(hosts: list[str]) -> str | None:
    path = read_variable([CA_FILE])
    plain = [host for host in hosts if host.startswith("http://")]
    if path is not None and plain:
        raise UsageError(f"{CA_FILE} is set, but {plain[0]} is not encrypted. Use https://, or unset {CA_FILE}.")
    if path is not None and not (Path(path).is_file() and os.access(path, os.R_OK)):
        raise UsageError(f"{CA_FILE} names {path}, which cannot be read.")
    return path
