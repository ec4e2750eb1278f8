"""Helpers for clients of remote services: API keys, addresses, failed requests, and retries."""

import base64
import json
import math
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from ragindex._util.canonical import digest, encodable
from ragindex._util.error_bodies import read_error, read_error_body
from ragindex._util.redaction import find_secrets
from ragindex.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from openai import OpenAI

_Result = TypeVar("_Result")
DEFAULT_URL = "https://api.openai.com/v1"
LONGEST_WAIT = 120.0  # seconds; a longer Retry-After is an error
_FIRST_WAIT = 0.5
_LONGEST_BACKOFF = 30.0
_LONGEST_BODY = 120
_LONGEST_MESSAGE = 500
_SHORTEST_SECRET = 16  # characters
_TEMPORARY_STATUSES = frozenset({408, 409, 429})
_PERMANENT_STATUSES = frozenset({501, 505})
# Errors of the HTTP client before anything was sent; by name, because openai has changed its client once.
_CONNECT_ERRORS = ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "ProxyError")
_KEY_STATUSES = (401, 403)
_NOT_FOUND_STATUSES = (404, 405)
_NOT_FOUND_CODES = ("model_not_found", "deployment_not_found")
_UNKNOWN_PATH = "unexpected endpoint"  # LM Studio's words, with status 200
_AZURE_VERSION = "api-version"
_PAYMENT_STATUS = 402
_QUOTA_CODES = ("insufficient_quota", "billing_hard_limit_reached")
_QUOTA_PHRASES = ("insufficient_quota", "exceeded your current quota", "billing_hard_limit", "billing hard limit")


# ---------------------------------------------------------------- settings


def read_variable(names: Sequence[str]) -> str | None:
    """Return the value of the first of the environment variables `names` that is not blank; None if there is none."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def read_secret(names: Sequence[str], index: Path | None = None) -> str | None:
    """Return the API key of the first variable set: NAME, or NAME_FILE with the path of a file outside `index`.

    Returns None if no variable is set. Raises UsageError if the file cannot be read or lies inside `index`, or if
    the key does not fit into an HTTP header.
    """
    for name in names:
        key = read_variable([name]) or _read_secret_file(f"{name}_FILE", index)
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise UsageError(f"{name} must be one word of printable ASCII characters, as a header can hold it.")
        if key is not None:
            return key
    return None


def _read_secret_file(name: str, index: Path | None) -> str | None:
    file_name = read_variable([name])
    if file_name is None:
        return None
    path = Path(file_name).expanduser()
    if index is not None and path.resolve().is_relative_to(index.resolve()):
        raise UsageError(f"{name} must name a file outside the index {index}. Got {file_name}.")
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{name} names {file_name}, which cannot be read: {reason}.") from None


def digest_account(address: str, names: Sequence[str]) -> str:
    """Return a digest that clients of an address share if they have the same key in the variables `names`.

    Of a key in a file, the path counts: the file is not read.
    """
    return digest([address, *(read_variable([name, f"{name}_FILE"]) for name in names)])


def read_address(names: Sequence[str], given: str | None = None) -> str:
    """Return `given`, else the first variable that is set, else OpenAI's address. Raises UsageError if it is invalid.

    The message does not repeat the address, because it may contain a user and password.
    """
    base_url = given or read_variable(names) or DEFAULT_URL
    variables = " or ".join(names)
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"{variables} must begin with http:// or https://.")
    if "#" in base_url or any(name != _AZURE_VERSION for name, _ in _read_query(base_url)):
        raise UsageError(
            f"{variables} must be an address without a query other than Azure's ?{_AZURE_VERSION}=VERSION. "
            "Set the key in its own variable."
        )
    if "@" in strip_credentials(base_url):
        raise UsageError(f"{variables} is not valid: write / @ : ? # in its user and password as %2F %40 %3A %3F %23.")
    return base_url


def _read_query(base_url: str) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(base_url).query, keep_blank_values=True)


def drop_version(base_url: str) -> str:
    """Return an address without Azure's `api-version`, if nothing else is in its query."""
    names = [name for name, _ in _read_query(base_url)]
    return base_url.partition("?")[0] if names == [_AZURE_VERSION] else base_url


def suggest_address(address: str) -> str:
    """Return a question about an address without a path: those of OpenAI's protocol end in /v1, with few exceptions."""
    return "" if urlsplit(address).path.strip("/") else f" Is it {address.rstrip('/')}/v1?"


def require_bare(base_url: str, who: str, keys_from: str) -> None:
    """Raise UsageError unless an address is a URL without user, password and query. The error never repeats it."""
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"The address that {who} is given must begin with http:// or https://.")
    if any(sign in base_url for sign in "@?#"):
        raise UsageError(
            f"The address that {who} is given must not contain a user, password or query: parameters go to files "
            f"and reports. {keys_from}"
        )


def strip_credentials(base_url: str) -> str:
    """Return the address without user, password, query, fragment and trailing slash; the host is in lower case."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2].lower(), parts.path.rstrip("/"), "", ""))


def make_http_client(base_url: str, key: str, timeout: float) -> "OpenAI":
    """Create a client that sends each request once. A user and password in the address go into a header, not into logs.

    Azure's `api-version` is sent with each request, and then the key also as Azure expects it. Raises UsageError if a
    proxy of the environment cannot be used.

    A finalizer closes the connections when the client is no longer referenced: the client is part of reference cycles,
    and the garbage collector may otherwise finalize the sockets before the client that would close them.
    """
    from openai import DefaultHttpxClient, OpenAI

    check_proxies()
    parts = urlsplit(base_url)
    user = parts.netloc.rpartition("@")[0]
    login = base64.b64encode(unquote(user).encode()).decode()
    query = dict(_read_query(base_url))
    headers = ({"Authorization": f"Basic {login}"} if user else {}) | ({"api-key": key} if query else {})
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))
    sender = DefaultHttpxClient()
    client = OpenAI(
        base_url=bare,
        api_key=key,
        max_retries=0,
        timeout=timeout,
        default_headers=headers,
        default_query=query,
        http_client=sender,
    )
    weakref.finalize(client, sender.close)
    return client


def redact(text: str, *keys: str) -> str:
    """Remove keys and characters that UTF-8 cannot encode from a service's text, because it is written to files."""
    text = encodable(text)
    for key in keys:
        text = text.replace(key, "…") if key else text
    return text


def redact_account(text: str, key: str, base_url: str) -> str:
    """Remove the key and the secrets in the address of an account from a service's text, as `redact` does.

    Short ones stay: they are placeholders ("none"), and may be words of an answer.
    """
    return redact(text, *(secret for secret in (key, *find_secrets(base_url)) if len(secret) >= _SHORTEST_SECRET))


# ---------------------------------------------------------------- failed requests


@dataclass(frozen=True, slots=True)
class RequestProblem:
    """The failure of a request. `status` is None without a response; `retry_after` is the server's value in seconds.

    `code` and `param` are the service's names for the error and for the parameter at fault, or empty. `away` says that
    no connection could be made; `proxy` is the variable of the proxy that it would go through, or empty.
    """

    message: str
    status: int | None = None
    code: str = ""
    param: str = ""
    retry_after: float | None = None
    away: bool = False
    proxy: str = ""

    @property
    def out_of_quota(self) -> bool:
        """Whether the account has no credit left. A limit per minute has the same words, and asks to wait."""
        if self.status == _PAYMENT_STATUS or self.code in _QUOTA_CODES:
            return True
        return self.retry_after is None and any(words in self.message.lower() for words in _QUOTA_PHRASES)

    @property
    def refuses_key(self) -> bool:
        """Whether the key is wrong or lacks permission."""
        return self.status in _KEY_STATUSES

    @property
    def knows_no_such(self) -> bool:
        """Whether the model or address does not exist."""
        unknown = self.status is None and self.message.lower().startswith(_UNKNOWN_PATH)
        return unknown or self.status in _NOT_FOUND_STATUSES or self.code in _NOT_FOUND_CODES

    @property
    def asks_to_wait(self) -> bool:
        """Whether the service asks to wait longer than LONGEST_WAIT."""
        return (self.retry_after or 0.0) > LONGEST_WAIT

    @property
    def stops(self) -> bool:
        """Whether every other request would fail too, because the settings or the service as a whole are at fault."""
        return self.refuses_key or self.knows_no_such or self.out_of_quota or self.away or self.asks_to_wait

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed later: a lost connection, 408, 409, 429, 5xx, except `out_of_quota`."""
        if self.out_of_quota or self.asks_to_wait or (self.status is None and self.knows_no_such):
            return False
        if self.status is None or self.status in _TEMPORARY_STATUSES:
            return True
        return self.status >= 500 and self.status not in _PERMANENT_STATUSES

    @property
    def may_be_charged(self) -> bool:
        """Whether the service may have charged for the request, though it gave no answer that can be read.

        It did if the request was sent and no response came, or half of one, or no JSON, or 5xx: not if it was refused.
        """
        if self.away or self.out_of_quota or self.knows_no_such:
            return False
        return self.status is None or self.status >= 500

    def advise(self, variables: Sequence[str]) -> str:
        """Return what to check if no connection could be made: the proxy, or else the variables of the address."""
        if self.proxy:
            return f" Check {self.proxy}, the proxy of this address, or exempt its host with NO_PROXY."
        return f" Check {' or '.join(variables)}."

    def __str__(self) -> str:
        return self.message if self.status is None else f"status {self.status}: {self.message}"


@dataclass(frozen=True, slots=True)
class Billed:
    """The tokens that a service billed for one answer, whether or not the answer is usable."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class RequestProblemError(Exception):
    """An error that carries a RequestProblem to the caller, which writes the message for the user.

    `billed` is the token count of a response that was billed although it failed.
    """

    def __init__(self, problem: RequestProblem, billed: Billed | None = None) -> None:
        super().__init__(str(problem))
        self.problem, self.billed = problem, billed


def send_request(call: Callable[[], _Result], key: str) -> _Result:
    """Run `call`, a request through the openai package. Raises RequestProblemError, which never contains the key."""
    from openai import APIConnectionError, APIStatusError

    try:
        return call()
    except APIStatusError as error:
        details, header_wait = read_error_body(error.response.text), retry_after(error.response.headers)
        texts = (details.message or error.message, details.code, details.param)
        message, code, param = (redact(text, key) for text in texts)
        wait = details.retry_after if header_wait is None else header_wait
        problem = RequestProblem(message[:_LONGEST_MESSAGE], error.status_code, code, param, wait)
    except APIConnectionError as error:
        cause = str(error.__cause__ or error.message) or type(error.__cause__).__name__
        away = type(error.__cause__).__name__ in _CONNECT_ERRORS
        proxy = name_proxy(str(error.request.url)) if away else ""
        problem = RequestProblem(redact(cause, key)[:_LONGEST_MESSAGE], away=away, proxy=proxy)
    raise RequestProblemError(
        problem
    )  # outside of `except`, so that the error does not reference the request's headers


def read_error_answer(answer: Mapping[str, Any], hidden: Callable[[str], str]) -> RequestProblem | None:
    """Return the error in a successful response, as some endpoints send it; None if there is none."""
    error, details = answer.get("error"), read_error(answer)
    if not error or not details.message:
        return None
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) else None
    message = hidden(details.message)[:_LONGEST_MESSAGE]
    return RequestProblem(message, status, hidden(details.code), retry_after=details.retry_after)


def read_json_body(body: str) -> Any:
    """Return the JSON of a response's body. Raises RequestProblemError, which allows a retry."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise RequestProblemError(RequestProblem(f"expected JSON, got {body[:_LONGEST_BODY]!r}")) from None


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object of a response as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def read_count(value: Any, least: int = 1) -> int | None:
    """Return a count that a service states; None if it is missing or less than `least`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= least else None


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Return the wait in seconds that `retry-after-ms` or `Retry-After` (seconds or HTTP date) asks for, or None."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - now()
            except (ValueError, OverflowError):
                continue
        if not math.isnan(seconds):
            return max(0.0, seconds)
    return None


# ---------------------------------------------------------------- retries


def retry_delay(problem: RequestProblem, attempt: int, rng: Random) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (from 0).

    The wait is what the server asked for, else exponential backoff. Both have random jitter, so that clients that
    failed together do not retry together.
    """
    if problem.retry_after is not None:
        return problem.retry_after + _FIRST_WAIT / 2 * rng.random()
    longest = min(_LONGEST_BACKOFF, _FIRST_WAIT * 2.0 ** min(attempt, 16))
    return longest * (1.0 - rng.random() / 2)


def retry(
    ask: Callable[[], _Result],
    retries: int,
    rng: Random,
    wait: Callable[[RequestProblem, float], None] = lambda _, seconds: time.sleep(seconds),
) -> _Result:
    """Call `ask`, and retry up to `retries` times while its RequestProblemError is temporary (`RequestProblem.passes`).

    Raises the last RequestProblemError.
    """
    for attempt in range(retries):
        try:
            return ask()
        except RequestProblemError as error:
            if not error.problem.passes:
                raise
            problem = error.problem
        wait(problem, retry_delay(problem, attempt, rng))
    return ask()


_SCHEMES = ("http", "https", "socks5", "socks5h")
_KINDS = ("http", "https", "all")  # of other addresses, proxies are not used
_SOCKS_PACKAGE = "socksio"


def check_proxies() -> None:
    """Raise UsageError for a proxy that the HTTP client cannot use: it reads all of them, whatever NO_PROXY exempts."""
    for kind, proxy in getproxies().items():
        if kind not in _KINDS or not proxy:
            continue
        name = _find_variable(kind)
        scheme = proxy.partition("://")[0].lower() if "://" in proxy else "http"
        if scheme not in _SCHEMES or not _is_valid(proxy):
            raise UsageError(
                f"{name} is not the address of a proxy that can be used: it must begin with "
                f"{'://, '.join(_SCHEMES)}:// and name a host. Change it, or unset {name}."
            )
        if scheme.startswith("socks") and find_spec(_SOCKS_PACKAGE) is None:
            raise MissingExtraError(
                f"{name} names a SOCKS proxy, and the package that speaks SOCKS is missing. "
                f"Run: pip install 'httpx[socks]'. Or unset {name}."
            )


def name_proxy(address: str) -> str:
    """Return the variable whose proxy requests to an address go through; empty if there is none."""
    parts = urlsplit(address)
    proxies = getproxies()
    kind = next((kind for kind in (parts.scheme, "all") if proxies.get(kind)), None)
    return "" if kind is None or proxy_bypass(parts.netloc.rpartition("@")[2]) else _find_variable(kind)


def _is_valid(proxy: str) -> bool:
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    try:
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _find_variable(kind: str) -> str:
    """Return the variable that sets the proxy of a kind of addresses; the one in lower case wins."""
    names = (f"{kind}_proxy", f"{kind}_PROXY".upper())
    return next((name for name in names if os.environ.get(name)), "the proxy in the settings of the system")
