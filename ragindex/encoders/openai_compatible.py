"""Embeddings from any endpoint that speaks OpenAI's protocol."""

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from ragindex.accounting import ledger
from ragindex.canonical import digest, encodable
from ragindex.encoders.common import normalize_rows
from ragindex.errors import RequestError, ServiceError, UsageError
from ragindex.http import (
    Trouble,
    TroubleError,
    make_http_client,
    read_address,
    read_secret,
    retry,
    send_request,
    strip_credentials,
)
from ragindex.interfaces import EncoderPlugin, Floats
from ragindex.llm import tokens
from ragindex.llm.budget import reserve_money
from ragindex.llm.plugins import PaidPlugin
from ragindex.llm.prices import Prices
from ragindex.llm.settings import LLMSettings
from ragindex.llm.tokens import TokenCount

_URL_VARIABLES = ("EMBEDDING_BASE_URL", "OPENAI_BASE_URL")
_KEY_VARIABLES = ("EMBEDDING_API_KEY", "OPENAI_API_KEY")
_TOO_LONG = (
    "context length",
    "context_length",
    "tokens per request",
    "must have less than",
    "too long",
    "too many tokens",
)
_TOO_LONG_STATUSES = frozenset({400, 413, 422})
_SHORTEST = 64  # characters: what is too long even so is not too long
_CAUTION = 1.2  # an estimate of tokens may be this much too low before a request goes over what was set aside for it
_log = logging.getLogger(__name__)


class OpenAICompatible(EncoderPlugin, PaidPlugin):
    """`openai:MODEL` at EMBEDDING_BASE_URL with EMBEDDING_API_KEY, falling back to OPENAI_BASE_URL, OPENAI_API_KEY.

    `price` is dollars for a million tokens; without it the model's price in the list of prices counts, where it has
    one. Requests that time out, lose their connection or get 408, 409, 429 or 5xx
    are sent again up to `retries` times, after what Retry-After says or a growing wait.
    """

    argument: ClassVar[str] = "model"
    keys_from: ClassVar[str] = "Set EMBEDDING_API_KEY or OPENAI_API_KEY to the key."
    version: ClassVar[int] = 1

    model: str = Field(description="Name of the model, as the endpoint knows it.")
    dimensions: int | None = Field(default=None, ge=1, description="Dimensions to ask for. null: the model's own.")
    batch_size: int = Field(default=128, ge=1, le=2048, description="Texts per request.")
    retries: int = Field(
        default=5,
        ge=0,
        description="Times a request is sent again after a timeout, a lost connection or status 408, 409, 429 or 5xx.",
    )
    timeout: float = Field(default=60.0, gt=0, description="Seconds until a request times out.")
    price: float | None = Field(
        default=None, ge=0, description="Dollars per million tokens. null: the price in the price list."
    )

    def price_missing(self, prices: Prices) -> str | None:
        """What to say where neither `price` nor the list names one."""
        missing = None if self.price is not None else prices.missing(self.model)
        return missing and f"{missing} Or give it here: openai(model={json.dumps(self.model)}, price=0.00)"

    def open(self, setting: LLMSettings | None = None) -> "OpenAIEncoder":
        """A client; sends nothing yet.

        Raises UsageError where no key is set or the address is none, and with a budget for a model without a price.
        """
        setting = setting or LLMSettings()
        missing = self.price_missing(setting.prices)
        if setting.budget is not None and missing is not None:
            raise UsageError(missing)
        key, base_url = read_secret(_KEY_VARIABLES, setting.workspace), read_address(_URL_VARIABLES)
        if key is None:
            raise UsageError(f"The encoder openai:{self.model} needs a key: set {' or '.join(_KEY_VARIABLES)}.")
        return OpenAIEncoder(self, base_url, key, setting)


@dataclass(frozen=True, slots=True)
class _Answered:
    """The vectors of one request, or why there are none, and the tokens that the service counted, if it says so."""

    vectors: Floats | str
    tokens: int | None


class OpenAIEncoder:
    """A client of one endpoint. Thread-safe. Each request that was answered is booked on the ledger, once.

    A text that the service refuses as too long is cut to half its characters until it fits; how many were is in
    `truncated`, and logged. Blank texts are not sent: their vectors are zero.
    """

    def __init__(self, plugin: OpenAICompatible, base_url: str, key: str, setting: LLMSettings) -> None:
        self._plugin, self._key, self._where = plugin, key, strip_credentials(base_url)
        self._client, self._rng = make_http_client(base_url, key, plugin.timeout), Random()  # noqa: S311  # jitter, no result
        self._setting, self._lock = setting, Lock()
        self._dimensions = plugin.dimensions
        self.texts_a_request = plugin.batch_size
        self.truncated = 0

    @property
    def id(self) -> str:
        """Model, dimensions asked for, and a hash of the address: two servers may call different models alike."""
        dimensions = self._plugin.dimensions or "native"
        return f"openai-{self._plugin.model.replace('/', '-')}-{dimensions}-{digest(self._where)[:8]}"

    @property
    def dimensions(self) -> int:
        """The length of the vectors; learnt from a first answer where it was not given. Raises ServiceError."""
        if self._dimensions is None:
            self._ask(["dimensions"])
        assert self._dimensions is not None  # noqa: S101  # an answer without vectors raises
        return self._dimensions

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """(len(texts), dimensions), rows of length one. Raises ServiceError."""
        answers = list(self.encode_by_request(texts))
        return np.concatenate(answers) if answers else np.zeros((0, self.dimensions), dtype=np.float32)

    def encode_by_request(self, texts: Sequence[str]) -> Iterator[Floats]:
        """See PayingEncoder. What is too long for one request goes in two. Raises ServiceError."""
        size = self._plugin.batch_size
        for at in range(0, len(texts), size):
            yield from self._encode([encodable(text) for text in texts[at : at + size]])

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """As `encode_documents`."""
        return self.encode_documents(texts)

    def _encode(self, texts: Sequence[str]) -> Iterator[Floats]:
        """One request, or several where something is too long; none for blank texts."""
        sent = [i for i, text in enumerate(texts) if text.strip()]
        try:
            answered = self._ask([texts[i] for i in sent]) if sent else None
        except _TooLongError:
            if len(sent) > 1:
                half = sent[len(sent) // 2]
                yield from self._encode(texts[:half])
                yield from self._encode(texts[half:])
                return
            answered = self._encode_cut(texts[sent[0]])
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        if answered is not None:
            vectors[sent] = answered
        yield vectors

    def _encode_cut(self, text: str) -> Floats:
        size = len(text) // 2
        while True:
            try:
                vectors = self._ask([text[:size]])
                break
            except _TooLongError:
                if size <= _SHORTEST:
                    raise
            size //= 2
        with self._lock:
            self.truncated += 1
        _log.warning("%s: a text of %d characters was too long and was cut to %d", self.id, len(text), size)
        return vectors

    def _ask(self, texts: list[str]) -> Floats:
        """One request, sent again where that may help."""
        options: dict[str, Any] = {} if self._plugin.dimensions is None else {"dimensions": self._plugin.dimensions}

        def send() -> str:
            response = self._client.embeddings.with_raw_response.create(
                model=self._plugin.model, input=texts, encoding_format="float", **options
            )
            return response.http_response.text

        most = self._most(texts)

        def attempt() -> Floats:
            with reserve_money(self._setting.budget, most) as booking:
                start = time.perf_counter()
                body = send_request(send, self._key)
                answered = _answered(body, len(texts), self._dimensions)
                booking.pay(self._book(answered, texts, time.perf_counter() - start))
            if isinstance(answered.vectors, str):
                raise self._failure(Trouble(answered.vectors), answered=True)
            with self._lock:
                self._dimensions = answered.vectors.shape[1]
            return answered.vectors

        try:
            return retry(attempt, self._plugin.retries, self._rng)
        except TroubleError as error:
            raise self._failure(error.trouble) from None

    def _most(self, texts: Sequence[str]) -> float | None:
        """What a request could cost, on the safe side; only where somebody asks for it."""
        if self._setting.budget is None:
            return None
        count = self._counted(texts)
        return self._money(round(count.tokens * _CAUTION) if count.estimated else count.tokens)

    def _counted(self, texts: Sequence[str]) -> TokenCount:
        counts = [tokens.count_text_tokens(text, self._plugin.model) for text in texts]
        return TokenCount(sum(count.tokens for count in counts), any(count.estimated for count in counts))

    def _money(self, read: int) -> float | None:
        if self._plugin.price is not None:
            return read * self._plugin.price / 1e6
        return self._setting.prices.money(self._plugin.model, read, 0, 0)

    def _book(self, answered: _Answered, texts: Sequence[str], seconds: float) -> float:
        """What was paid. An answer that cannot be used is paid too, where the service says what it counted."""
        if answered.tokens is None and isinstance(answered.vectors, str):
            return 0.0
        count = self._counted(texts) if answered.tokens is None else TokenCount(answered.tokens, False)
        money = self._money(count.tokens)
        entry = ledger.CallRecord(
            ledger.EMBEDDING,
            self.id,
            input_tokens=count.tokens,
            estimated=count.estimated,
            money=money,
            seconds=seconds,
        )
        ledger.record_call(entry, seconds)
        return money or 0.0

    def _failure(self, trouble: Trouble, answered: bool = False) -> ServiceError:
        """What the caller is told; never the key."""
        status, message = trouble.status, trouble.message.replace(self._key, "…")
        kind = ServiceError if trouble.stops else RequestError
        if status in _TOO_LONG_STATUSES and _says_too_long(message):
            kind = _TooLongError
        elsewhere = trouble.knows_no_such or trouble.away
        checked = _KEY_VARIABLES if trouble.refuses_key else _URL_VARIABLES if elsewhere else ()
        hint = f" Check {'--encoder, ' if trouble.knows_no_such else ''}{' or '.join(checked)}." if checked else ""
        status_text = "" if status is None else f" with status {status}"
        silence = "" if answered or status is not None else f"no answer after {self._plugin.retries + 1} tries: "
        return kind(f"openai:{self._plugin.model} at {self._where} failed{status_text}: {silence}{message}.{hint}")


class _TooLongError(RequestError):
    """The service says that the input is too long for it."""


def _says_too_long(message: str) -> bool:
    return any(words in message.lower() for words in _TOO_LONG)


# ---------------------------------------------------------------- what the service answered


def _answered(body: str, count: int, dimensions: int | None) -> _Answered:
    """What came back, with the vectors in the order of the inputs, or with what was expected and what was got."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return _Answered(f"expected JSON, got {body[:80]!r}", None)
    usage = parsed.get("usage") if isinstance(parsed, Mapping) else None
    counted = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    credible = isinstance(counted, int) and not isinstance(counted, bool) and counted > 0
    try:
        return _Answered(_of_body(parsed, body, count, dimensions), counted if credible else None)
    except ValueError as error:
        return _Answered(str(error), counted if credible else None)


def _of_body(parsed: Any, body: str, count: int, dimensions: int | None) -> Floats:
    data = parsed.get("data") if isinstance(parsed, Mapping) else None
    if not isinstance(data, list) or not all(isinstance(item, Mapping) for item in data):
        raise ValueError(f"expected a list of embeddings as 'data', got {body[:80]!r}")
    if len(data) != count:
        raise ValueError(f"expected {count} embeddings, got {len(data)}")
    places = [item.get("index") for item in data]
    if sorted(map(str, places)) != sorted(map(str, range(count))):
        raise ValueError(f"expected each index from 0 to {count - 1} once, got {places[:20]}")
    ordered = sorted(data, key=lambda item: int(item["index"]))  # the index says whose it is, the order does not
    return _vectors([item.get("embedding") for item in ordered], dimensions)


def _vectors(rows: Sequence[Any], dimensions: int | None) -> Floats:
    """Rows of length one."""
    expected = f"vectors of {dimensions or 'as many'} numbers"
    if not all(isinstance(row, list) for row in rows):
        raise ValueError(f"expected {expected}, got {str(next(r for r in rows if not isinstance(r, list)))[:40]!r}")
    sizes = sorted({len(row) for row in rows})
    if len(sizes) != 1 or sizes[0] == 0 or dimensions not in (None, sizes[0]):
        raise ValueError(f"expected {expected}, got {' and '.join(map(str, sizes))}")
    try:
        vectors = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"expected {expected}, got something else among them") from None
    if not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
        raise ValueError("expected finite vectors longer than zero, got NaN, infinity or nothing but zeros")
    return normalize_rows(vectors)
