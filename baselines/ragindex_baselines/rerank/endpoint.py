"""Rerankers behind HTTP: Cohere's `/rerank`, as Jina, Voyage, vLLM and others have it, and likelihoods of questions."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from ragindex._util.canonical import encodable
from ragindex._util.http import (
    RequestProblem,
    RequestProblemError,
    as_mapping,
    digest_account,
    make_http_client,
    read_address,
    read_json_body,
    read_secret,
    read_variable,
    redact_account,
    require_bare,
    retry,
    send_request,
    strip_credentials,
)
from ragindex.accounting import ledger
from ragindex.corpus import passage_text
from ragindex.errors import RequestError, ServiceError, UsageError
from ragindex.interfaces import OpenIndex
from ragindex.interfaces.llm import LLMSettings, PaidPlugin
from ragindex.llm import tokens
from ragindex.llm.budget import Booking, SeenExcess, reserve_money
from ragindex.llm.cache import CachedResponse, CallSource, ResponseCache
from ragindex.llm.prices import Prices, warn_of_zero_price
from ragindex.llm.rate_limits import Limits
from ragindex.plugins.base import Contact
from ragindex_baselines.rerank.likelihood import ECHO, ECHOED, read_likelihoods, write_prompts
from ragindex_baselines.rerank.rerankers import PlaceScores, Reranker, TitledText, TitledTexts, join_bridge

if TYPE_CHECKING:
    from openai import OpenAI

TASK = "rerank"
_URL, _SHARED_URL = "RERANK_BASE_URL", "OPENAI_BASE_URL"
_KEY, _SHARED_KEY = "RERANK_API_KEY", "OPENAI_API_KEY"
_PASSAGES_PER_SEARCH = 100  # passages per search, as services that charge by the search define it
_SAFETY_FACTOR = 1.2  # safety factor on estimated tokens, so that a call does not exceed the money reserved for it
_LONGEST_SHOWN = 120
_LARGEST_COUNT = 1e12  # tokens or searches; a larger number is not a real count


def _read_base_url() -> str:
    """Return the address from the environment without credentials, "" if it is not set.

    Raises UsageError if it is not a valid address: a password in it could not be recognised and removed.
    """
    names = [_URL, _SHARED_URL]
    return strip_credentials(read_address(names)) if read_variable(names) else ""


class Endpoint(Reranker, PaidPlugin):
    """A model behind `/rerank` at RERANK_BASE_URL (else OPENAI_BASE_URL), with the key in RERANK_API_KEY.

    OPENAI_API_KEY is sent to OPENAI_BASE_URL only. Requests that time out, lose their connection or get
    status 408, 409, 429 or 5xx are sent again, up to `retries` times. `search_price` is in dollars per
    thousand searches of up to 100 passages; without it, the model's price per million tokens applies, if the
    price list has one.

    With `score=likelihood` the model is asked at `/completions` instead, and a passage scores the mean log-probability
    of the question's tokens after it. The endpoint must echo prompts with log-probabilities, as vLLM does.
    """

    argument: ClassVar[str] = "model"
    keys_from: ClassVar[str] = f"Set {_KEY} to the key; an address with a user and a password goes into {_URL}."
    version: ClassVar[int] = 1
    model: str = Field(description="Name of the model, as the endpoint knows it.")
    base_url: str = Field(
        default_factory=_read_base_url,
        description="Address of the endpoint. Default: RERANK_BASE_URL, or OPENAI_BASE_URL.",
    )
    score: Literal["relevance", "likelihood"] = Field(
        default="relevance",
        description="relevance: a score of /rerank. likelihood: log-probability of the question after the passage.",
    )
    search_price: float | None = Field(
        default=None,
        ge=0,
        description="Dollars per thousand searches of up to 100 passages. null: the model's price per token.",
    )
    timeout: float = Field(default=60.0, gt=0, description="Seconds until a request times out.")
    retries: int = Field(default=5, ge=0, description="Times a request is sent again after a passing failure.")
    concurrency: int = Field(default=8, ge=1, le=1024, description="Requests in flight at once.")
    requests_per_minute: int | None = Field(default=None, ge=1, description="Rate limit in requests. null: none.")

    @field_validator("base_url")
    @classmethod
    def _without_login(cls, base_url: str) -> str:
        if base_url:
            require_bare(base_url, "endpoint", cls.keys_from)
        if base_url and strip_credentials(base_url) != base_url:
            raise ValueError("an address in small letters, without a slash at the end")
        return base_url

    def contacts(self) -> tuple[Contact, ...]:
        """Return the endpoint, if it has an address."""
        return (Contact.of_address(self.base_url, (_KEY, _SHARED_KEY)),) if self.base_url else ()

    def price_list(self, prices: Prices) -> Prices:
        """Return the prices of the endpoint."""
        return prices.at(self.base_url)

    def price_missing(self, prices: Prices) -> str | None:
        """Return a message if neither `search_price` nor the price list has a price, else None."""
        return None if self.search_price is not None else self.price_list(prices).missing(self.model)

    def find_address(self) -> tuple[str, tuple[str, ...]]:
        """Return the address of requests, with its credentials if any, and the variables of the keys allowed there.

        Raises UsageError if there is none, or if it is invalid.
        """
        if not self.base_url:
            raise UsageError(f"endpoint:{self.model} needs the address of its service: set {_URL}, as http://…/v1.")
        for name, keys in ((_URL, (_KEY,)), (_SHARED_URL, (_KEY, _SHARED_KEY))):
            variable = read_variable([name])
            if variable and strip_credentials(variable) == self.base_url:
                return read_address([name]), keys
        return read_address([_URL], self.base_url), (_KEY,)

    def read_key(self, index: Path | None = None) -> str:
        """Return the key, which must not be in the folder `index`. Raises UsageError if there is none."""
        names = self.find_address()[1]
        key = read_secret(names, index)
        if key is None:
            raise UsageError(
                f"endpoint:{self.model} needs a key: set {' or '.join(names)}. "
                "For an endpoint without keys, any word will do."
            )
        return key

    def require_key(self, index: Path | None = None) -> None:
        """Raise UsageError if the key or the address is missing or invalid."""
        self.read_key(index)

    def open(self, index: OpenIndex) -> "EndpointScoring":
        """Return a client. It sends nothing yet, and needs no key before the first request.

        Raises UsageError without an address, and if there is a budget but no price for the model.
        """
        self.find_address()
        setting = index.setting
        missing = self.price_missing(setting.prices)
        if setting.budget is not None and missing is not None:
            raise UsageError(missing)
        if self.search_price is None:
            self.price_list(setting.prices).warn_of_zero(self.model, writes=False)
        warn_of_zero_price(self.model, self.base_url, self.search_price)
        account = digest_account(self.base_url, [_KEY, _SHARED_KEY])
        shared = ("rerank", self.model, account)
        limits = Limits(self.concurrency, self.requests_per_minute, clock=setting.clock, endpoint=shared)
        return EndpointScoring(self, setting, index.calls, limits, str(index.folder))


@dataclass(frozen=True, slots=True)
class _RequestSize:
    """What a request is charged by: its `tokens`, `searches`, and `most` dollars; None if unknown."""

    tokens: int
    searches: int
    most: float | None


@dataclass
class EndpointScoring:
    """A client of one endpoint. Thread-safe. Responses are cached, so none is paid twice."""

    plugin: Endpoint
    setting: LLMSettings
    cache: ResponseCache
    limits: Limits
    index: str = ""
    _rng: Random = field(default_factory=Random)  # for the jitter of waits
    _excess: SeenExcess = field(default_factory=SeenExcess)

    def scores(self, question: str, passages: TitledTexts, bridge: TitledText | None = None) -> PlaceScores:
        """Return the scores of the service, from the cache if possible.

        Raises ServiceError, RequestError if the service scores no passage, and BudgetError.
        """
        request = self._make_request(question, [encodable(passage_text(*passage)) for passage in passages], bridge)
        start = time.perf_counter()
        text = json.dumps([self.plugin.base_url, self.plugin.version, request.body], ensure_ascii=False)
        key = hashlib.sha256(f"{TASK} {text}".encode()).hexdigest()
        with self.cache.claimed(key):
            answer = self.cache.get(key)
            if answer is None:
                answer = self._pay(request, start)
                origin = CallSource(TASK, self.plugin.version, "endpoint", self.plugin.model, self.plugin.base_url)
                self.cache.put(key, origin, answer)
                return read_scores(answer.text).scores
        self._book(answer, time.perf_counter() - start, replayed=True)
        return read_scores(answer.text).scores

    def _make_request(self, question: str, texts: Sequence[str], bridge: TitledText | None) -> "_Request":
        model = self.plugin.model
        if self.plugin.score == "likelihood":
            question = encodable(question)
            prompts = write_prompts(question, texts, "" if bridge is None else encodable(passage_text(*bridge)))
            read = partial(read_likelihoods, question=question, prompts=prompts)
            body = {"model": model, "prompt": prompts, **ECHO}
            return _Request("/completions", body, prompts, len(texts), read, expected=ECHOED, unscored_status=200)
        query = join_bridge(question, bridge)
        body = {"model": model, "query": query, "documents": texts, "top_n": len(texts)}
        return _Request("/rerank", body, [query, *texts], len(texts))

    def _book(self, answer: CachedResponse, now: float, *, replayed: bool = False) -> float:
        """Record a response that took `now` seconds here. Return its cost in dollars, 0 if unknown."""
        entry = ledger.CallRecord(
            TASK,
            self.plugin.model,
            input_tokens=answer.input_tokens,
            estimated=answer.estimated,
            money=answer.money,
            seconds=answer.seconds,
            replayed=replayed,
            index=self.index,
        )
        ledger.record_call(entry, now)
        return answer.money or 0.0

    def _pay(self, request: "_Request", began: float) -> CachedResponse:
        """Request a valid response, with retries where they may help.

        Money is reserved before each attempt is sent; each attempt that was or may have been charged is recorded.
        """
        count = tokens.count_text_tokens("\n".join(request.texts), self.plugin.model)
        searches = math.ceil(request.passages / _PASSAGES_PER_SEARCH)
        size = _RequestSize(count.tokens, searches, self._money(round(_SAFETY_FACTOR * count.tokens), searches))

        def attempt() -> CachedResponse:
            while (answer := self._attempt(request, size, began)) is None:
                pass  # reserve more
            return answer

        return self._send_again(attempt)

    def _attempt(self, request: "_Request", size: _RequestSize, began: float) -> CachedResponse | None:
        """Send a request once, with money reserved for it. Raises RequestProblemError.

        None if an answer that came while this waited for its slot has shown that the money reserved is too little.
        """
        # The slot is free once the money is settled: the next request knows what this one has shown.
        with ExitStack() as slot, reserve_money(self.setting.budget, lambda: self._find_most(size)) as booking:
            slot.enter_context(self.limits.slot(0))
            if (self._find_most(size) or 0.0) > booking.reserved:
                return None
            start = time.perf_counter()
            try:
                text = self._send(request)
                response, seconds = read_scores(text), time.perf_counter() - start
            except RequestProblemError as error:
                if error.problem.may_be_charged:
                    self._lose(size, booking)
                raise
            scored = response.has_score(request.passages)
            if scored or response.billed:
                read_tokens = size.tokens if response.tokens is None else response.tokens
                money = self._money(read_tokens, size.searches if response.searches is None else response.searches)
                estimated = response.tokens is None
                answer = CachedResponse(
                    text, "stop", "", "json", read_tokens, 0, 0, estimated, money, seconds, time.time()
                )
                booking.when_settled(partial(self._excess.see, money or 0.0, size.most or 0.0))
                booking.pay(self._book(answer, time.perf_counter() - began if scored else 0.0))
            else:
                self._lose(size, booking)
            if not scored:
                message = f"expected {request.expected}, got {text[:_LONGEST_SHOWN]!r}"
                raise RequestProblemError(RequestProblem(message, request.unscored_status))
        return answer

    def _find_most(self, size: _RequestSize) -> float | None:
        """Return the most that a request can cost in dollars, by what earlier answers cost; None if unknown."""
        return None if size.most is None else size.most * self._excess.factor

    def _lose(self, size: _RequestSize, booking: Booking) -> None:
        """Record an attempt that may have been charged and gave no answer."""
        most = self._find_most(size)
        ledger.record_lost(
            ledger.CallRecord(TASK, self.plugin.model, input_tokens=size.tokens, money=most, index=self.index)
        )
        booking.lose(most or 0.0)

    def _money(self, read_tokens: int, searches: float) -> float | None:
        if self.plugin.search_price is not None:
            return searches * self.plugin.search_price / 1e3
        return self.plugin.price_list(self.setting.prices).money(self.plugin.model, read_tokens, 0, 0)

    # ------------------------------------------------------------ the request

    @cached_property
    def _address(self) -> tuple[str, tuple[str, ...]]:
        return self.plugin.find_address()

    @cached_property
    def _key(self) -> str:
        return self.plugin.read_key(self.setting.workspace)

    @cached_property
    def _client(self) -> "OpenAI":
        return make_http_client(self._address[0], self._key, self.plugin.timeout)

    def _send(self, request: "_Request") -> str:
        """Send a request and return the body of the response as `/rerank` has it, with secrets redacted."""
        text = send_request(lambda: self._client.post(request.path, cast_to=str, body=request.body), self._key)
        return request.read(redact_account(text, self._key, self._address[0]))

    def _send_again(self, attempt: Callable[[], CachedResponse]) -> CachedResponse:
        def wait(_: RequestProblem, seconds: float) -> None:
            ledger.count_outcome(TASK, ledger.RETRIED)
            self.setting.clock.sleep(seconds)

        try:
            return retry(attempt, self.plugin.retries, self._rng, wait)
        except RequestProblemError as error:
            problem = error.problem
        hint = f" Check {' or '.join(self._address[1])}." if problem.refuses_key else ""
        hint = problem.advise([_URL]) if problem.away else hint
        kind = ServiceError if problem.stops else RequestError
        raise kind(f"endpoint:{self.plugin.model} at {self.plugin.base_url} failed, {problem}.{hint}")


# ---------------------------------------------------------------- request and response


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to `path`, the `texts` that the model reads for it, and how many passages it scores.

    `read` turns the body of the response into that of `/rerank`. If no passage has a score, `expected` was missing, and
    with a status of 200 in `unscored_status` the request is not sent again.
    """

    path: str
    body: Mapping[str, Any]
    texts: Sequence[str]
    passages: int
    read: Callable[[str], str] = str
    expected: str = "a score for a passage"
    unscored_status: int | None = None


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """Positions and scores, and the tokens and searches that the service billed, None if it does not say."""

    scores: PlaceScores
    tokens: int | None
    searches: float | None

    @property
    def billed(self) -> bool:
        """Return True if the service billed tokens or searches."""
        return self.tokens is not None or self.searches is not None

    def has_score(self, count: int) -> bool:
        """Return True if one of `count` passages has a finite score."""
        return any(0 <= place < count and math.isfinite(score) for place, score in self.scores)


def read_scores(body: str) -> EndpointResponse:
    """Parse `results` (or `data`, or a bare list) of objects with `index` and `relevance_score` (or `score`).

    An invalid index becomes -1, an invalid score NaN. Raises RequestProblemError, which allows a retry, for any
    other response.
    """
    parsed = read_json_body(body)
    outer = as_mapping(parsed)
    results = parsed if isinstance(parsed, list) else outer.get("results", outer.get("data"))
    if not isinstance(results, list) or not all(isinstance(result, Mapping) for result in results):
        raise RequestProblemError(RequestProblem(f"expected a list of results, got {body[:_LONGEST_SHOWN]!r}"))
    scores = [
        (_read_position(result.get("index")), _read_score(result.get("relevance_score", result.get("score"))))
        for result in results
    ]
    usage, meta = as_mapping(outer.get("usage")), as_mapping(outer.get("meta"))
    billed, counted = as_mapping(meta.get("billed_units")), as_mapping(meta.get("tokens"))
    counts = (usage.get("total_tokens"), usage.get("prompt_tokens"), counted.get("input_tokens"))
    read_tokens = next(
        (number for count in (*counts, billed.get("input_tokens")) if (number := _read_count(count))), None
    )
    searches = _read_count(billed.get("search_units"))
    return EndpointResponse(scores, None if read_tokens is None else int(read_tokens), searches)


def _read_count(value: Any) -> float | None:
    """Return a positive count as a float, None if `value` is not one."""
    counts = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LARGEST_COUNT
    return float(value) if counts else None


def _read_position(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _read_score(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
