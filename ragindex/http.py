"""What clients of remote services share: keys, addresses, what went wrong, and when to try again."""

import base64
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from ragindex.canonical import encodable
from ragindex.errors import UsageError

if TYPE_CHECKING:
    from openai import OpenAI

_Given = TypeVar("_Given")
DEFAULT_URL = "https://api.openai.com/v1"
LONGEST_WAIT = 120.0  # seconds; a longer Retry-After is an error
_FIRST_WAIT = 0.5
_LONGEST_BACKOFF = 30.0
_LONGEST_MESSAGE = 500
_PASSING = frozenset({408, 409, 429})
_NEVER_PASSING = frozenset({501, 505})
# Errors of the HTTP client before anything was sent; by name, for openai has changed its client once.
_AWAY = ("ConnectError", "ConnectTimeout", "UnsupportedProtocol")
_KEY = (401, 403)
_NO_SUCH = (404, 405)
_NO_SUCH_CODES = ("model_not_found", "deployment_not_found")
_UNPAID = 402
_QUOTA = ("insufficient_quota", "exceeded your current quota", "billing_hard_limit", "billing hard limit")


# ---------------------------------------------------------------- settings


def read_variable(names: Sequence[str]) -> str | None:
    """The first of the environment variables `names` that is set to something."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def read_secret(names: Sequence[str], workspace: Path | None = None) -> str | None:
    """A key from the first variable set among NAME and NAME_FILE, which names a file outside `workspace`.

    Raises UsageError where the file cannot be read or lies inside, and where no header can hold the key.
    """
    for name in names:
        key = read_variable([name]) or _from_file(f"{name}_FILE", workspace)
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise UsageError(f"{name} must be one word of printable ASCII characters, as a header can hold it.")
        if key is not None:
            return key
    return None


def _from_file(name: str, workspace: Path | None) -> str | None:
    written = read_variable([name])
    if written is None:
        return None
    path = Path(written).expanduser()
    if workspace is not None and path.resolve().is_relative_to(workspace.resolve()):
        raise UsageError(f"{name} must name a file outside the index {workspace}. Got {written}.")
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{name} names {written}, which cannot be read: {reason}.") from None


def read_address(names: Sequence[str], given: str | None = None) -> str:
    """`given`, the first variable that is set, or OpenAI's address. Raises UsageError where it is none.

    Which does not repeat it: a user and password may be in it.
    """
    base_url = given or read_variable(names) or DEFAULT_URL
    who = " or ".join(names)
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"{who} must begin with http:// or https://.")
    if "?" in base_url or "#" in base_url:
        raise UsageError(f"{who} must be an address without a query. Set the key in its own variable.")
    if "@" in strip_credentials(base_url):
        raise UsageError(f"{who} is not valid: write / @ : ? # in its user and password as %2F %40 %3A %3F %23.")
    return base_url


def require_bare(base_url: str, who: str, keys_from: str) -> None:
    """Raises UsageError, which does not repeat it, where a parameter is no address, or one that holds more."""
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"The address that {who} is given must begin with http:// or https://.")
    if any(sign in base_url for sign in "@?#"):
        raise UsageError(
            f"The address that {who} is given must not contain a user, password or query: parameters go to files "
            f"and reports. {keys_from}"
        )


def strip_credentials(base_url: str) -> str:
    """The address without user, password, query and a slash at the end."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2].lower(), parts.path.rstrip("/"), "", ""))


def make_http_client(base_url: str, key: str, timeout: float) -> "OpenAI":
    """A client that sends every request once. A user and password in the address go into a header, not into logs.

    Its connections are closed when nobody has it any more: it is part of reference cycles, and where the collector of
    garbage finds one it may finalise the sockets before the client that would have closed them.
    """
    from openai import DefaultHttpxClient, OpenAI

    parts = urlsplit(base_url)
    user = parts.netloc.rpartition("@")[0]
    login = base64.b64encode(unquote(user).encode()).decode()
    headers = {"Authorization": f"Basic {login}"} if user else None
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    sender = DefaultHttpxClient()
    made = OpenAI(
        base_url=bare, api_key=key, max_retries=0, timeout=timeout, default_headers=headers, http_client=sender
    )
    weakref.finalize(made, sender.close)
    return made


def redact(text: str, *keys: str) -> str:
    """The text of a service without the keys, and without what UTF-8 cannot hold: it goes into files."""
    text = encodable(text)
    for key in keys:
        text = text.replace(key, "…") if key else text
    return text


# ---------------------------------------------------------------- what went wrong


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no answer. `status` is None where nothing came back; `retry_after` in seconds, as the server says.

    `code` and `param` are the service's own words for the kind of error and the parameter it blames, or empty. `away`
    says that no connection could be made.
    """

    message: str
    status: int | None = None
    code: str = ""
    param: str = ""
    retry_after: float | None = None
    away: bool = False

    @property
    def out_of_quota(self) -> bool:
        """Whether the account has no credit."""
        return self.status == _UNPAID or any(words in f"{self.code} {self.message}".lower() for words in _QUOTA)

    @property
    def refuses_key(self) -> bool:
        """Whether the key is wrong, or may not do this."""
        return self.status in _KEY

    @property
    def knows_no_such(self) -> bool:
        """Whether the model or address does not exist."""
        return self.status in _NO_SUCH or self.code in _NO_SUCH_CODES

    @property
    def asks_to_wait(self) -> bool:
        """Whether the service asks to wait longer than LONGEST_WAIT."""
        return (self.retry_after or 0.0) > LONGEST_WAIT

    @property
    def stops(self) -> bool:
        """Whether every other request would fail alike: what is wrong are settings, or the service as a whole."""
        return self.refuses_key or self.knows_no_such or self.out_of_quota or self.away or self.asks_to_wait

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed later: a lost connection, 408, 409, 429, 5xx, except `out_of_quota`."""
        if self.out_of_quota or self.asks_to_wait:
            return False
        if self.status is None or self.status in _PASSING:
            return True
        return self.status >= 500 and self.status not in _NEVER_PASSING

    def __str__(self) -> str:
        return self.message if self.status is None else f"status {self.status}: {self.message}"


@dataclass(frozen=True, slots=True)
class Billed:
    """What a service counted for one answer, whether or not the answer can be used."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class TroubleError(Exception):
    """Carries a Trouble from a request to the caller that writes the message for the user.

    `billed` is what the service counted, where it answered all the same.
    """

    def __init__(self, trouble: Trouble, billed: Billed | None = None) -> None:
        super().__init__(str(trouble))
        self.trouble, self.billed = trouble, billed


def send_request(call: Callable[[], _Given], key: str) -> _Given:
    """What `call`, a request through the openai package, gives. Raises TroubleError, which never holds the key."""
    from openai import APIConnectionError, APIStatusError

    try:
        return call()
    except APIStatusError as error:
        headers: Mapping[str, str] = error.response.headers
        trouble = _refused(error.message, error.body, error.status_code, headers, key)
    except APIConnectionError as error:
        cause = str(error.__cause__ or error.message) or type(error.__cause__).__name__
        away = type(error.__cause__).__name__ in _AWAY
        trouble = Trouble(redact(cause, key)[:_LONGEST_MESSAGE], away=away)
    raise TroubleError(trouble)  # out here, so that no request with its headers hangs on the error


def _refused(message: str, body: Any, status: int, headers: Mapping[str, str], key: str) -> Trouble:
    body = body if isinstance(body, Mapping) else {}
    said = body.get("message")
    said = said if isinstance(said, str) and said else message
    code, param = (redact(str(body.get(name) or ""), key) for name in ("code", "param"))
    code = code or redact(str(body.get("type") or ""), key)
    return Trouble(redact(said, key)[:_LONGEST_MESSAGE], status, code, param, retry_after(headers))


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds that `retry-after-ms` or `Retry-After` (seconds or an HTTP date) asks for; None where it says nothing."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            seconds = _until(value, now())
        if seconds == seconds:  # not NaN
            return max(0.0, seconds)
    return None


def _until(date: str, now: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError):
        return float("nan")


# ---------------------------------------------------------------- trying again


def retry_delay(trouble: Trouble, attempt: int, rng: Random) -> float:
    """Seconds to wait after the failed attempt `attempt` (from 0): what the server asked for, or growing ones.

    Both with some chance in them, so that those who failed together do not come back together.
    """
    if trouble.retry_after is not None:
        return trouble.retry_after + _FIRST_WAIT / 2 * rng.random()
    longest = min(_LONGEST_BACKOFF, _FIRST_WAIT * 2.0 ** min(attempt, 16))
    return longest * (1.0 - rng.random() / 2)


def retry(
    ask: Callable[[], _Given],
    retries: int,
    rng: Random,
    wait: Callable[[Trouble, float], None] = lambda _, seconds: time.sleep(seconds),
) -> _Given:
    """What `ask` gives, asked again up to `retries` times while its TroubleError passes; else that error."""
    for attempt in range(retries):
        try:
            return ask()
        except TroubleError as error:
            if not error.trouble.passes:
                raise
            trouble = error.trouble
        wait(trouble, retry_delay(trouble, attempt, rng))
    return ask()
