"""Talking to an Elasticsearch cluster: address, keys, what went wrong, and when to try again.

Keys come from the environment only. They are in no parameter, so in no file, label, log or error.
"""

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import regex

from ragindex.distribution import install_line, require_module
from ragindex.errors import StoreError, UsageError
from ragindex.http import Trouble, TroubleError, read_secret, read_variable, redact, retry, strip_credentials
from ragindex.stores.elasticsearch import responses
from ragindex.stores.elasticsearch.responses import PARTIAL, ItemsError, parse_error

Response = TypeVar("Response")
URL, API_KEY, USER, PASSWORD, CA_FILE = (
    f"ELASTICSEARCH_{name}" for name in ("URL", "API_KEY", "USER", "PASSWORD", "CA_FILE")
)
_OLDEST = (8, 18)
"""Vector searches name their own k and are scored again with whole vectors since then."""
_LONGEST_REASON = 400
_REFUSED_CLIENT = "media_type_header_exception"
_NEVER = frozenset({"tls", "host", "no tls", "other"})
"""Troubles whose status is none of the server's, but says that no later try will do better."""

_ACTION = regex.compile(r"action \[([a-z_:/\[\]]+)\] is unauthorized")
_RIGHTS = (
    ("cluster:", "the cluster privilege monitor"),
    ("indices:data/read/", "the privilege read on the store's indices"),
    ("indices:data/write/", "the privilege write on the store's indices"),
    ("indices:", "the privilege manage on the store's indices"),
)
"""What the names of actions begin with, and what whoever may do them has been given; the first that fits counts."""

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
    _REFUSED_CLIENT: (
        f"The server must be 8 (from {_OLDEST[0]}.{_OLDEST[1]}) or 9, and the package must support both. "
        f"Run: {install_line('elasticsearch')}"
    ),
}


@dataclass(frozen=True, slots=True)
class Server:
    """One cluster, as this process talks to it. Thread-safe. `where` is its address, without user and password."""

    where: str
    client: Any = field(repr=False)
    keys: tuple[str, ...] = field(repr=False)
    retries: int = 5

    def ask(self, doing: str, call: Callable[[Any], Response], *, retries: int | None = None) -> Response:
        """What `call` gets from the client. Lost connections, 429 and 5xx are tried again, with growing waits.

        Raises StoreError, which says what could not be done and what to do next.
        """
        try:
            return self.try_to(call, retries=retries)
        except TroubleError as error:
            raise self.failure(doing, error.trouble) from None

    def try_to(self, call: Callable[[Any], Response], *, retries: int | None = None) -> Response:
        """As `ask`, for a caller who knows what to do about some errors. Raises TroubleError."""
        tries = self.retries if retries is None else retries
        return retry(lambda: self._asked(call), tries, Random())  # noqa: S311  # jitter, no result

    def failure(self, doing: str, trouble: Trouble) -> StoreError:
        """The error that a user reads."""
        hint = _HINTS.get(trouble.code) or f"{_lacking(trouble)}{_HINTS.get(str(trouble.status), '')}"
        if not hint and trouble.passes:
            hint = "It was tried several times. Run the same command to resume."
        unasked = trouble.code in _NEVER  # its status is ours
        reason = " ".join((trouble.message if unasked else str(trouble)).split()).rstrip(".")
        return StoreError(f"The store at {self.where} could not {doing}: {reason}. {hint}".rstrip())

    def _asked(self, call: Callable[[Any], Response]) -> Response:
        from elasticsearch import ApiError, TransportError

        try:
            return call(self.client)
        except ItemsError as error:
            raise ItemsError([one and self._without_keys(one) for one in error.troubles]) from None
        except TroubleError as error:
            trouble = self._without_keys(error.trouble)
        except ApiError as error:
            trouble = self._refused(error)
        except TransportError as error:
            trouble = self._unanswered(error)
        raise TroubleError(trouble)  # out here, so that no request with its headers hangs on the error

    def _refused(self, error: Any) -> Trouble:
        from elasticsearch import UnsupportedProductError

        if isinstance(error, UnsupportedProductError):
            return Trouble("it does not answer like Elasticsearch", 501, "other")
        code, message = parse_error(error.body)
        return Trouble(self.short(message or error.message), error.meta.status, code)

    def _unanswered(self, error: Any) -> Trouble:
        from elastic_transport import ConnectionTimeout, TlsError

        message = self.short(str(error.message))
        if isinstance(error, TlsError):
            return Trouble(message, 501, _tls(message))  # no later try will be answered otherwise
        if "Remote end closed" in message and "http://" in self.where:
            return Trouble(message, code="plain")
        late = "no answer in time: " if isinstance(error, ConnectionTimeout) else ""
        return Trouble(f"{late}{message}", code="away")

    def _without_keys(self, trouble: Trouble) -> Trouble:
        return replace(trouble, message=self.short(trouble.message))

    def short(self, text: str) -> str:
        """What a server said, without our keys and not too long."""
        for key in self.keys:
            text = redact(text, key)
        return text[:_LONGEST_REASON]


def _lacking(trouble: Trouble) -> str:
    """The right that the key would need, by the action that was refused."""
    if trouble.status != 403:
        return ""
    action = _ACTION.search(trouble.message)
    missing = [right for start, right in _RIGHTS if action is not None and action[1].startswith(start)]
    return f"The key lacks {missing[0]}. " if missing else "The key lacks a right. "


def _tls(message: str) -> str:
    """Which hint goes with a connection that could not be secured."""
    if "WRONG_VERSION_NUMBER" in message or "record layer failure" in message:
        return "no tls"
    return "host" if "doesn't match" in message or "mismatch" in message else "tls"


# ---------------------------------------------------------------- connecting


def connect(url: str | None, timeout: float, retries: int) -> Server:
    """The cluster at `url`, or at ELASTICSEARCH_URL; several addresses are separated by commas.

    Raises UsageError where the address is none, MissingExtraError, StoreError where it cannot be used.
    """
    package = require_module("elasticsearch", "elasticsearch", "The store elasticsearch")
    if package.__version__[0] != 8:
        version = ".".join(map(str, package.__version__))
        raise UsageError(
            f"The store elasticsearch needs the package elasticsearch 8, which supports servers 8 and 9; "
            f"got {version}. Run: {install_line('elasticsearch')}"
        )
    written = url or read_variable([URL])
    if written is None:
        raise UsageError(f"The store elasticsearch needs an address: elasticsearch:http://HOST:9200, or set {URL}.")
    hosts = [host.strip().rstrip("/") for host in written.split(",") if host.strip()]
    login, keys = _login(hosts)
    bare = [check_address(strip_credentials(check_address(host, URL)), URL) for host in hosts]
    client = create_client(
        [_with_port(host) for host in bare],
        request_timeout=timeout,
        max_retries=len(bare),  # the other nodes
        ca_certs=_ca_file(bare),
        **login,
    )
    server = Server(",".join(bare), client, keys, retries)
    _check(server)
    return server


def create_client(hosts: Sequence[str], **how: Any) -> Any:
    """The only way to make a client: each of its answers is checked before anybody sees it (see responses)."""
    from elasticsearch import Elasticsearch

    return Elasticsearch(list(hosts), transport_class=_checking(), **how)


@cache
def _checking() -> type:
    from elastic_transport import Transport

    class CheckingTransport(Transport):
        """Sends only what it can check the answer to."""

        def perform_request(self, method: str, target: str, *, body: Any = None, **how: Any) -> Any:
            """Raises TroubleError where the answer is not whole."""
            responses.require_rule(method, target, body)
            answer = super().perform_request(method, target, body=body, **how)
            if answer.meta.status < HTTPStatus.MULTIPLE_CHOICES:  # else the client raises, or was told not to
                responses.check_response(method, target, body, answer.body)
            return answer

    return CheckingTransport


def check_address(host: str, name: str) -> str:
    """An address as it may be. Raises UsageError, which does not repeat it: it may hold a password."""
    if not host.startswith(("http://", "https://")):
        raise UsageError(f"The address of the store elasticsearch ({name}) must begin with http:// or https://.")
    if "?" in host or "#" in host or "@" in strip_credentials(host):
        raise UsageError(
            f"The address of the store elasticsearch ({name}) is not valid: remove its query, and write / @ : ? # in "
            "its user and password as %2F %40 %3A %3F %23."
        )
    return host


def _with_port(host: str) -> str:
    scheme, _, rest = host.partition("://")
    place, slash, path = rest.partition("/")
    port = "" if ":" in place.rpartition("]")[2] else ":443" if scheme == "https" else ":9200"
    return f"{scheme}://{place}{port}{slash}{path}"


def _login(hosts: list[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """How the client identifies itself, and the secrets in that."""
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
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()  # as the header has it
    return {"basic_auth": (user, password)}, (encoded, password)


def _ca_file(hosts: list[str]) -> str | None:
    path = read_variable([CA_FILE])
    plain = [host for host in hosts if host.startswith("http://")]
    if path is not None and plain:
        raise UsageError(f"{CA_FILE} is set, but {plain[0]} is not encrypted. Use https://, or unset {CA_FILE}.")
    if path is not None and not (Path(path).is_file() and os.access(path, os.R_OK)):
        raise UsageError(f"{CA_FILE} names {path}, which cannot be read.")
    return path


def _check(server: Server) -> None:
    """One question before all others: is it there, does it let us in, is it new enough."""
    info = server.ask("be opened", lambda client: client.info(), retries=0)
    number = str(info["version"]["number"])
    if tuple(map(int, number.split(".")[:2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise StoreError(f"The store at {server.where} is Elasticsearch {number}; {oldest} or later is needed.")
