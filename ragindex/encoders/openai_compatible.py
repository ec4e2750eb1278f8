"""Encoder that requests embeddings from a server with an OpenAI-compatible API."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, ClassVar

import numpy as np
import regex
from pydantic import Field

from ragindex._util.canonical import digest, encodable
from ragindex._util.http import (
    RequestProblem,
    RequestProblemError,
    as_mapping,
    make_http_client,
    read_address,
    read_count,
    read_error_answer,
    read_secret,
    retry,
    send_request,
    strip_credentials,
    suggest_address,
)
from ragindex.accounting import ledger
from ragindex.encoders.vectors import PROBE, normalize_rows, separate_failures
from ragindex.errors import RequestError, ServiceError, UsageError
from ragindex.interfaces import Encoder, EncoderPlugin, EncodingFailure, Floats
from ragindex.interfaces.llm import LLMSettings, PaidPlugin
from ragindex.llm import tokens
from ragindex.llm.budget import SeenExcess, reserve_money
from ragindex.llm.prices import Prices, warn_of_zero_price
from ragindex.llm.tokens import TokenCount
from ragindex.plugins.base import Contact
from ragindex.plugins.specs import Spec, render_spec
from ragindex.types import Span

_URL_VARIABLES = ("EMBEDDING_BASE_URL", "OPENAI_BASE_URL")
_KEY_VARIABLES = ("EMBEDDING_API_KEY", "OPENAI_API_KEY")
_TOO_LONG = (
    "context length",
    "context_length",
    "tokens per request",
    "must have less than",
    "too long",
    "too large",
    "too many tokens",
    "input length",
    "token limit",
    "allowed token",
    "sequence length",
)
_TOO_LONG_STATUSES = frozenset({400, 422})  # with other statuses, a queue or a wait may be too long
_TOO_LARGE_STATUS = 413
_TOO_LONG_ELSEWHERE = {429: "request too large", 500: "too large to process"}  # OpenAI and llama.cpp
_SHORTEST = 64  # characters; a text of at most this length is not cut further
_MAX_TOKENS = {"text-embedding-3-small": 8192, "text-embedding-3-large": 8192, "text-embedding-ada-002": 8192}
"""The longest input of models, in tokens: https://platform.openai.com/docs/guides/embeddings (2025)."""
_FOR_PASSAGES = "Represent this sentence for searching relevant passages: "
_TRAINED_PREFIXES = (
    (regex.compile(r"nomic-embed-text"), "search_query: ", "search_document: "),
    (regex.compile(r"\be5-(?:small|base|large)(?!.*instruct)"), "query: ", "passage: "),
    (regex.compile(r"\bbge-(?:small|base|large)(?!.*zh)|mxbai-embed-large"), _FOR_PASSAGES, ""),
)
"""What models were trained with before questions and documents, by their cards on the Hugging Face hub (2026)."""
_advised: set[str] = set()
_log = logging.getLogger(__name__)


class OpenAICompatible(EncoderPlugin, PaidPlugin):
    """`openai:MODEL` at EMBEDDING_BASE_URL with EMBEDDING_API_KEY, falling back to OPENAI_BASE_URL, OPENAI_API_KEY.

    `price` is in US dollars per million tokens; the default is the model's price in the price list, if it has one.
    Requests that time out, lose their connection or get status 408, 409, 429 or 5xx are retried up to `retries` times,
    after the time that Retry-After states or with exponential backoff. The prefixes are part of the encoder's id. A
    note names those that a model was trained with, if none is given; they are never added by themselves.
    """

    argument: ClassVar[str] = "model"
    keys_from: ClassVar[str] = "Set EMBEDDING_API_KEY or OPENAI_API_KEY to the key."
    version: ClassVar[int] = 1

    model: str = Field(description="Name of the model, as the endpoint knows it.")
    dimensions: int | None = Field(default=None, ge=1, description="Dimensions to ask for. null: the model's own.")
    query_prefix: str | None = Field(default=None, description='Text put before each question, as "query: ".')
    document_prefix: str | None = Field(default=None, description='Text put before each document, as "passage: ".')
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

    def price_list(self, prices: Prices) -> Prices:
        """Return the prices of the server at the address of the environment, or OpenAI's."""
        return prices.at(read_address(_URL_VARIABLES))

    def price_missing(self, prices: Prices) -> str | None:
        """Return a message if neither `price` nor the price list has a price for the model, else None."""
        missing = None if self.price is not None else self.price_list(prices).missing(self.model)
        return missing and f"{missing} Or give it here: openai(model={json.dumps(self.model)}, price=PRICE)"

    def contacts(self) -> tuple[Contact, ...]:
        """Return the server at the address of the environment, or OpenAI's."""
        return (Contact.of_address(read_address(_URL_VARIABLES), _KEY_VARIABLES),)

    def open(self, setting: LLMSettings | None = None) -> "OpenAIEncoder":
        """Open a client. Sends no request.

        Raises UsageError if no key is set, if the address is invalid, or if a budget is set and the price is unknown.
        """
        setting = setting or LLMSettings()
        missing = self.price_missing(setting.prices)
        if setting.budget is not None and missing is not None:
            raise UsageError(missing)
        prices = self.price_list(setting.prices)
        if self.price is None:
            prices.warn_of_zero(self.model, writes=False)
        warn_of_zero_price(self.model, prices.address, self.price)
        key, base_url = self._read_account(setting.workspace)
        return OpenAIEncoder(self, base_url, key, setting)

    def require_key(self, index: Path | None = None) -> None:
        """Raise UsageError if the key or the address is missing or invalid."""
        self._read_account(index)

    def _read_account(self, index: Path | None) -> tuple[str, str]:
        """Return the key and the address. Raises UsageError."""
        key, base_url = read_secret(_KEY_VARIABLES, index), read_address(_URL_VARIABLES)
        if key is None:
            raise UsageError(f"The encoder openai:{self.model} needs a key: set {' or '.join(_KEY_VARIABLES)}.")
        return key, base_url


@dataclass(frozen=True, slots=True)
class _Answer:
    """The vectors of one request, or why they are unusable, and the tokens that the server counted, if stated.

    `faults` are, by row, the reasons why some of the vectors are unusable.
    """

    vectors: Floats | RequestProblem
    faults: Mapping[int, str]
    tokens: int | None


class OpenAIEncoder(Encoder):
    """A client of one server. Thread-safe. Records each answered request in the ledger once.

    A text that the server refuses as too long is cut to half its characters until it fits. Each such text is logged
    and counted in `truncated`. A batch that it refuses is sent in halves; if that helps, later batches have no more
    texts (`texts_a_request`). So is a batch that it fails on while it answers others, down to the texts at fault.
    Blank texts are not sent; their vectors are zero. It counts tokens if tiktoken knows the model; `max_tokens` leave
    space for the prefix of documents.
    """

    def __init__(self, plugin: OpenAICompatible, base_url: str, key: str, setting: LLMSettings) -> None:
        self._plugin, self._key, self._where = plugin, key, strip_credentials(base_url)
        self._client, self._rng = make_http_client(base_url, key, plugin.timeout), Random()  # noqa: S311  # for jitter only
        self._setting, self._lock, self._excess = setting, Lock(), SeenExcess()
        self._dimensions = plugin.dimensions
        self.texts_a_request: int = plugin.batch_size
        self._query_prefix, self._document_prefix = plugin.query_prefix or "", plugin.document_prefix or ""
        self._counts, self._max_tokens = tokens.knows_tokenizer(plugin.model), _MAX_TOKENS.get(plugin.model)
        if self._counts and self._max_tokens:
            prefix = tokens.count_text_tokens(self._document_prefix, plugin.model).tokens
            self._max_tokens = max(1, self._max_tokens - prefix)
        self.truncated = 0

    @property
    def id(self) -> str:
        """Model, requested dimensions and a hash of the address and prefixes.

        Servers may use one name for different models.
        """
        dimensions = self._plugin.dimensions or "native"
        prefixes = [self._query_prefix, self._document_prefix]
        hashed = digest([self._where, *prefixes] if any(prefixes) else self._where)[:8]
        return f"openai-{self._plugin.model.replace('/', '-')}-{dimensions}-{hashed}"

    @property
    def dimensions(self) -> int:
        """The length of the vectors. Sends a request if it is neither given nor known yet. Raises ServiceError."""
        if self._dimensions is None:
            self._ask([PROBE], self._plugin.retries)
        assert self._dimensions is not None  # noqa: S101  # an answer without vectors raises
        return self._dimensions

    def encode_documents(self, texts: Sequence[str]) -> Floats:
        """Return rows of length one, shape (len(texts), dimensions); zero for blank texts. Raises ServiceError."""
        return self._join(self._encode_all(texts, self._document_prefix))

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode questions, with their own prefix, in the same way as documents."""
        return self._join(self._encode_all(texts, self._query_prefix))

    def _join(self, answers: Iterator[Floats | EncodingFailure]) -> Floats:
        rows = list[Floats]()
        for answer in answers:
            if isinstance(answer, EncodingFailure):
                raise RequestError(answer.reason)
            rows.append(answer)
        return np.concatenate(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)

    def encode_by_request(self, texts: Sequence[str]) -> Iterator[Floats | EncodingFailure]:
        """Yield the vectors of `texts` in order, one array per request. Raises ServiceError.

        A text is an EncodingFailure if the server fails on it alone and then encodes another.
        """
        for answer in self._encode_all(texts, self._document_prefix):
            if isinstance(answer, EncodingFailure):
                self._require_answer(RequestError(answer.reason))
            yield answer

    def _encode_all(self, texts: Sequence[str], prefix: str) -> Iterator[Floats | EncodingFailure]:
        self._advise_prefixes()
        at = 0
        while at < len(texts):
            size = self.texts_a_request
            batch = [encodable(text) for text in texts[at : at + size]]
            yield from self._encode([f"{prefix}{text}" if text.strip() else "" for text in batch])
            at += size

    def _advise_prefixes(self) -> None:
        """Name once the prefixes that the model was trained with, if neither is given."""
        name = self._plugin.model
        if (self._plugin.query_prefix, self._plugin.document_prefix) != (None, None):
            return
        known = next((pair for model, *pair in _TRAINED_PREFIXES if model.search(name.lower())), None)
        with self._lock:
            if known is None or name in _advised:
                return
            _advised.add(name)
        prefixes = dict(zip(("query_prefix", "document_prefix"), known, strict=True))
        spec_text = render_spec(
            Spec("openai", {"model": name, **{key: text for key, text in prefixes.items() if text}})
        )
        _log.warning(
            "%s was trained with text before each question or document, and none is set. Set it with --encoder '%s', "
            'or set query_prefix="" to encode without.',
            *(name, spec_text),
        )

    def _encode(self, texts: Sequence[str], *, halved: bool = False) -> Iterator[Floats | EncodingFailure]:
        """Yield the vectors of one batch: in one request, or in several if it is refused; blank texts are not sent.

        A part of a batch that all retries have failed on (`halved`) is sent once, unless it is a single text.
        """
        sent = [i for i, text in enumerate(texts) if text.strip()]
        try:
            retries = 0 if halved and len(sent) > 1 else self._plugin.retries
            answered, faults = self._send_batch([texts[i] for i in sent], retries) if sent else (None, {})
        except (_RefusedError, _UnansweredError) as error:
            if len(sent) > 1:
                if isinstance(error, _UnansweredError) and not halved:
                    self._require_answer(error)
                yield from self._encode_halves(texts, sent, error)
                return
            answered, faults = None, {0: str(error)}
        vectors = np.zeros((len(texts), self.dimensions if len(texts) > len(faults) else 0), dtype=np.float32)
        if answered is not None:
            vectors[sent] = answered
        yield from separate_failures(vectors, {sent[row]: reason for row, reason in faults.items()})

    def _encode_halves(
        self, texts: Sequence[str], sent: Sequence[int], error: ServiceError
    ) -> Iterator[Floats | EncodingFailure]:
        """Yield the vectors of a batch that the server has refused or failed on; only the texts `sent` are sent."""
        half, truncated, failed = sent[len(sent) // 2], self.truncated, False
        for part in (texts[:half], texts[half:]):
            for answer in self._encode(part, halved=isinstance(error, _UnansweredError)):
                failed = failed or isinstance(answer, EncodingFailure)
                yield answer
        if isinstance(error, _RefusedError) and not failed and self.truncated == truncated:
            self._limit_texts(len(sent) - len(sent) // 2)  # their number was at fault, or their sum, and no text alone

    def _require_answer(self, error: RequestError) -> None:
        """Raise `error` unless the server encodes another text."""
        try:
            self._ask([PROBE], 0)
        except ServiceError:
            raise error from None

    def _send_batch(self, texts: list[str], retries: int) -> tuple[Floats, Mapping[int, str]]:
        """Send a batch in one request, a single text that is too long in several."""
        try:
            return self._ask(texts, retries)
        except _TooLongError:
            if len(texts) > 1:
                raise
        return self._encode_truncated(texts[0])

    def _limit_texts(self, most: int) -> None:
        """Remember how many texts a request may have."""
        with self._lock:
            if most >= self.texts_a_request:
                return
            self.texts_a_request = most
        _log.warning("%s refuses larger batches: %d texts are sent at once from here on (batch_size)", self.id, most)

    @property
    def max_tokens(self) -> int | None:
        """The model's limit less the tokens of the prefix; None if tiktoken does not know the model."""
        return self._max_tokens if self._counts else None

    def token_spans(self, text: str) -> list[Span]:
        """Return the characters of each token of a text. Raises UsageError if the vocabulary cannot be downloaded."""
        if not self._counts:
            return super().token_spans(text)
        spans = tokens.find_token_spans(encodable(text), self._plugin.model)
        if spans is None:
            raise UsageError(
                f"Tokens of openai:{self._plugin.model} cannot be counted: its vocabulary is not here and cannot be "
                "downloaded. Connect to the network, or use: by=words"
            )
        return spans

    def _encode_truncated(self, text: str) -> tuple[Floats, Mapping[int, str]]:
        """Encode the first half of a text, or a quarter, and so on, until the server accepts it."""
        size = len(text) // 2
        while True:
            try:
                answered = self._ask([text[:size]], self._plugin.retries)
                break
            except _TooLongError:
                if size <= _SHORTEST:
                    raise
            size //= 2
        with self._lock:
            self.truncated += 1
        _log.warning("%s: a text of %d characters was too long and was cut to %d", self.id, len(text), size)
        return answered

    def _ask(self, texts: list[str], retries: int) -> tuple[Floats, Mapping[int, str]]:
        """Send one request; return the vectors and, by row, why some are unusable. Raises ServiceError."""
        options: dict[str, Any] = {} if self._plugin.dimensions is None else {"dimensions": self._plugin.dimensions}

        def send() -> str:
            response = self._client.embeddings.with_raw_response.create(
                model=self._plugin.model, input=texts, encoding_format="float", **options
            )
            return response.http_response.text

        def wait(_: RequestProblem, seconds: float) -> None:
            ledger.count_outcome(ledger.EMBEDDING, ledger.RETRIED)
            self._setting.clock.sleep(seconds)

        try:
            return retry(lambda: self._attempt(send, texts), retries, self._rng, wait)
        except RequestProblemError as error:
            raise self._make_error(error.problem, retries + 1) from None

    def _attempt(self, send: Callable[[], str], texts: list[str]) -> tuple[Floats, Mapping[int, str]]:
        """Send a request once, with money reserved for it. Raises RequestProblemError if it may be sent again."""
        with reserve_money(self._setting.budget, lambda: self._compute_cost(self._bound_tokens(texts))) as booking:
            start = time.perf_counter()
            try:
                body = send_request(send, self._key)
            except RequestProblemError as error:
                if _is_too_long(error.problem):  # not to be retried, though some servers send it with status 500
                    raise self._make_error(error.problem) from None
                if error.problem.may_be_charged:
                    booking.lose(self._record_lost(texts))
                raise
            answered = _parse_answer(body, len(texts), self._dimensions)
            problem = answered.vectors if isinstance(answered.vectors, RequestProblem) else None
            if problem is None or answered.tokens is not None:
                booking.pay(self._record(answered, texts, time.perf_counter() - start))
                if answered.tokens is not None and self._setting.budget is not None:
                    stated, bound = answered.tokens, tokens.sum_text_tokens(texts, self._plugin.model).bound
                    booking.when_settled(lambda: self._excess.see(stated, bound))
            elif problem.may_be_charged:
                booking.lose(self._record_lost(texts))
        if isinstance(answered.vectors, RequestProblem):
            raise self._make_error(answered.vectors)
        with self._lock:
            self._dimensions = answered.vectors.shape[1]
        return answered.vectors, {row: self._explain(RequestProblem(fault)) for row, fault in answered.faults.items()}

    def _bound_tokens(self, texts: Sequence[str]) -> int:
        """Return an upper estimate of the tokens of a request, by what earlier answers took."""
        return ceil(tokens.sum_text_tokens(texts, self._plugin.model).bound * self._excess.factor)

    def _compute_cost(self, read: int) -> float | None:
        """Return the dollars for `read` input tokens; None if the price is unknown."""
        if self._plugin.price is not None:
            return read * self._plugin.price / 1e6
        return self._plugin.price_list(self._setting.prices).money(self._plugin.model, read, 0, 0)

    def _record(self, answered: _Answer, texts: Sequence[str], seconds: float) -> float:
        """Record an answered request in the ledger and return its dollars."""
        model, stated = self._plugin.model, answered.tokens
        count = tokens.sum_text_tokens(texts, model) if stated is None else TokenCount(stated, False)
        money = self._compute_cost(count.tokens)
        entry = ledger.CallRecord(
            ledger.EMBEDDING,
            self.id,
            input_tokens=count.tokens,
            estimated=count.estimated,
            money=money,
            seconds=seconds,
            index=str(self._setting.workspace or ""),
        )
        ledger.record_call(entry, seconds)
        return money or 0.0

    def _record_lost(self, texts: Sequence[str]) -> float:
        """Record a request that may have been charged and gave no answer; return the most dollars it can have cost."""
        most = self._bound_tokens(texts)
        money = self._compute_cost(most)
        index = str(self._setting.workspace or "")
        ledger.record_lost(ledger.CallRecord(ledger.EMBEDDING, self.id, input_tokens=most, money=money, index=index))
        return money or 0.0

    def _make_error(self, problem: RequestProblem, tries: int = 0) -> ServiceError:
        """Make the error for the caller, after so many tries without an answer."""
        status, kind = problem.status, ServiceError if problem.stops else RequestError
        if _is_too_long(problem):
            kind = _TooLongError
        elif status is not None and status < 500 and not (problem.stops or problem.passes):
            kind = _RefusedError
        elif (status is None or status >= 500) and problem.passes and not problem.stops:
            kind = _UnansweredError
        return kind(self._explain(problem, tries))

    def _explain(self, problem: RequestProblem, tries: int = 0) -> str:
        """Return what went wrong, without the key."""
        status, message = problem.status, problem.message.replace(self._key, "…")
        if problem.knows_no_such:
            hint = f" Check --encoder, {' or '.join(_URL_VARIABLES)}.{suggest_address(self._where)}"
        elif problem.refuses_key:
            hint = f" Check {' or '.join(_KEY_VARIABLES)}."
        else:
            hint = problem.advise(_URL_VARIABLES) if problem.away else ""
        status_text = "" if status is None else f" with status {status}"
        silence = f"no answer after {tries} tries: " if tries and status is None else ""
        return f"openai:{self._plugin.model} at {self._where} failed{status_text}: {silence}{message}.{hint}"


class _UnansweredError(RequestError):
    """The server failed on a request, or gave no usable answer, after all retries."""


class _RefusedError(RequestError):
    """The server refused the request; its parts may pass."""


class _TooLongError(_RefusedError):
    """The server refused the input as too long."""


def _is_too_long(problem: RequestProblem) -> bool:
    message = problem.message.lower()
    if problem.status in _TOO_LONG_STATUSES:
        return not problem.out_of_quota and any(words in message for words in _TOO_LONG)
    words = _TOO_LONG_ELSEWHERE.get(problem.status or 0)
    return problem.status == _TOO_LARGE_STATUS or (words is not None and words in message)


# ---------------------------------------------------------------- responses


def _parse_answer(body: str, count: int, dimensions: int | None) -> _Answer:
    """Parse a response into vectors in the order of the inputs, or into the reason why it has none."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return _Answer(RequestProblem(f"expected JSON, got {body[:80]!r}"), {}, None)
    answer = as_mapping(parsed)
    stated = read_count(as_mapping(answer.get("usage")).get("prompt_tokens"))
    try:
        return _Answer(*_read_vectors(answer, body, count, dimensions), stated)
    except ValueError as error:
        return _Answer(read_error_answer(answer, encodable) or RequestProblem(str(error)), {}, stated)


def _read_vectors(
    answer: Mapping[str, Any], body: str, count: int, dimensions: int | None
) -> tuple[Floats, dict[int, str]]:
    """Return the vectors of a parsed response in the order of the inputs. Raises ValueError if it is malformed."""
    data = answer.get("data")
    if not isinstance(data, list) or not all(isinstance(item, Mapping) for item in data):
        raise ValueError(f"expected a list of embeddings as 'data', got {body[:80]!r}")
    if len(data) != count:
        raise ValueError(f"expected {count} embeddings, got {len(data)}")
    places = [item.get("index") for item in data]
    if sorted(map(str, places)) != sorted(map(str, range(count))):
        raise ValueError(f"expected each index from 0 to {count - 1} once, got {places[:20]}")
    ordered = sorted(data, key=lambda item: int(item["index"]))  # items may come in any order
    rows = [item.get("embedding") for item in ordered]
    faults = {number: fault for number, row in enumerate(rows) if (fault := _find_fault(row, dimensions)) is not None}
    usable = [number for number in range(len(rows)) if number not in faults]
    if not usable:
        raise ValueError(faults[0])
    sizes = sorted({len(rows[number]) for number in usable})
    if len(sizes) > 1:
        raise ValueError(f"expected vectors of as many numbers, got {' and '.join(map(str, sizes))}")
    vectors = np.zeros((len(rows), sizes[0]), dtype=np.float32)
    vectors[usable] = normalize_rows(np.array([rows[number] for number in usable], dtype=np.float64))
    return vectors, faults


def _find_fault(row: Any, dimensions: int | None) -> str | None:
    """Return why `row` is not the vector of a text, or None if it is."""
    expected = f"expected a vector of {dimensions or 'some'} numbers, got"
    if not isinstance(row, list):
        return f"{expected} {str(row)[:40]!r}"
    if not row or dimensions not in (None, len(row)):
        return f"{expected} {len(row)}"
    try:
        vector = np.array(row, dtype=np.float64)
    except (TypeError, ValueError):
        return f"{expected} something else"
    if vector.ndim != 1 or not np.isfinite(vector).all() or not vector.any():
        return "expected a finite vector longer than zero, got NaN, infinity or nothing but zeros"
    return None
