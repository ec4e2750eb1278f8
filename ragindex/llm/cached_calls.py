"""LLM calls that are read from the cache or sent within rate limits and budget, and recorded in the ledger."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from math import ceil
from random import Random
from threading import Lock
from typing import Any

from ragindex._util.http import RequestProblem, RequestProblemError, retry, suggest_address
from ragindex.accounting import ledger
from ragindex.errors import LLMError, ServiceError
from ragindex.interfaces.llm import LLMSettings
from ragindex.llm import tokens
from ragindex.llm.budget import Booking, SeenExcess, reserve_money
from ragindex.llm.cache import CachedResponse, CacheEntry, NoCache
from ragindex.llm.call_keys import (
    CallKeys,
    PaidBefore,
    describe_change,
    describe_source,
    is_reusable,
    make_keys,
)
from ragindex.llm.openai_chat import SCHEMA_HINT, ChatRequest, EndpointFeatures, OpenAIChat, Reply
from ragindex.llm.openai_parameters import ChatParameters
from ragindex.llm.rate_limits import Limits
from ragindex.llm.tasks import Message, Task


class CachedCalls:
    """Cached calls of one model with given `parameters`. Thread-safe."""

    def __init__(self, chat: OpenAIChat, limits: Limits, parameters: ChatParameters, setting: LLMSettings) -> None:
        if setting.budget is not None:
            setting.prices.require(chat.model)
        setting.prices.warn_of_zero(chat.model, writes=True)
        self._chat, self._limits, self._given, self._setting = chat, limits, parameters, setting
        self._index = str(setting.workspace or "")
        self._rng = Random(setting.seed)  # noqa: S311  # jitter of waits
        self._arrived: set[str] = set()  # keys of answers that batches brought and that no caller has got yet
        self._input_excess = defaultdict[str, SeenExcess](SeenExcess)  # by task: what is left out of the count differs
        self._output_excess, self._first_answer = SeenExcess(), Lock()

    @property
    def remembers(self) -> bool:
        """Whether answers are cached: without a cache, nobody knows in a later run what was charged."""
        return not isinstance(self._setting.cache, NoCache)

    def answer(
        self,
        task: Task[Any],
        request: ChatRequest,
        unwanted: Sequence[CachedResponse] = (),
        *,
        recorded: bool = True,
    ) -> tuple[CachedResponse, bool]:
        """Return the answer to a request, and whether it came from the cache.

        A cached answer in `unwanted` is replaced once, whichever caller asks first. An answer that is not `recorded`
        counts later; failed attempts at it count now.
        """
        start, cache = time.perf_counter(), self._setting.cache
        keys = self.keys(task, request)
        with cache.claimed(keys.complete):
            key, cached = self._look_up(keys, request)
            if cached is None or cached in unwanted:
                with ExitStack() as slot:  # free once the answer is stored, so that a kill loses no more than the slots
                    answer = self._pay(task, request, start if recorded else None, slot)
                    cache.put(keys.choose(answer, key), describe_source(self._chat, task, request), answer)
                return answer, False
        arrived = self._arrived.intersection(keys.names())
        if not recorded:
            return cached, not arrived
        try:
            self._arrived.remove(next(iter(arrived), ""))
            batched = True
        except KeyError:  # another thread has got it
            batched = False
        self._record(task, cached, time.perf_counter() - start, replayed=not batched, batched=batched)
        return cached, not batched

    def _look_up(self, keys: CallKeys, request: ChatRequest) -> tuple[str | None, CachedResponse | None]:
        """Return the cached answer to a request with its key; the key is None if it is of other settings."""
        for key in keys.candidates():
            cached = self._setting.cache.get(key)
            if cached is not None:
                return key, cached if key == keys.complete else _mark_cut(cached, request)
        if self._setting.reuse_answers:
            for source, cached in self._setting.cache.find_question(request.question):
                if is_reusable(source, cached, self._chat.model):
                    return None, cached
        return None, None

    def find_paid_before(self, task: Task[Any], request: ChatRequest) -> Iterator[tuple[PaidBefore, CachedResponse]]:
        """Yield the answers that the cache has to a question under other settings, the newest first."""
        now = describe_source(self._chat, task, request)
        for source, answer in self._setting.cache.find_question(request.question):
            if not answer.is_cut:
                read, written = answer.input_tokens, answer.output_tokens
                reusable = is_reusable(source, answer, now.model)
                money = self._money(read, 0, written)
                yield PaidBefore(describe_change(source, now), reusable, read, written, money), answer

    # ---------------------------------------------------------------- answers that came in batches

    def find(self, task: Task[Any], request: ChatRequest) -> tuple[CachedResponse | None, bool]:
        """Return the cached answer to a request, and whether a batch has just brought it. Records nothing."""
        keys = self.keys(task, request)
        return self._look_up(keys, request)[1], not self._arrived.isdisjoint(keys.names())

    def keys(self, task: Task[Any], request: ChatRequest) -> CallKeys:
        """Return the keys that an answer to a request can be under."""
        return make_keys(self._chat, task, request)

    def add_arrived(self, keys: Iterable[str]) -> None:
        """Let the answers to `keys`, which are in the cache, count as paid when they are asked for next."""
        self._arrived.update(keys)

    def ask_unrecorded(self, task: Task[Any], request: ChatRequest) -> None:
        """Pay for one answer, which counts when it is asked for next. Raises as `answer` does."""
        _, replayed = self.answer(task, request, recorded=False)
        if not replayed:
            self.add_arrived([self.keys(task, request).request])

    def count_batched(self, reply: Reply, request: ChatRequest | None) -> CachedResponse:
        """Return the reply of a batch with its cost. Without its request, missing counts of its input are 0."""
        if request is not None:
            self._see(request, reply, self._needed(request))
        return self._count(request, reply, batched=True)

    def make_entry(self, task: Task[Any], request: ChatRequest, reply: Reply, sent_at: float) -> CacheEntry | None:
        """Return the reply of a batch for the cache; None if the cache has an answer that is newer than the batch."""
        keys = self.keys(task, request)
        key, cached = self._look_up(keys, request)
        if key is not None and cached is not None and cached.at >= sent_at:
            return None
        answer = self.count_batched(reply, request)
        return keys.choose(answer, key), describe_source(self._chat, task, request), answer

    def bound_cost(self, request: ChatRequest) -> float | None:
        """Return what a request in a batch can cost at most; None if the model has no price."""
        return self._bound(request, self._needed(request), batched=True).money

    # ---------------------------------------------------------------- answers that are paid for one by one

    def _record(
        self, task: Task[Any], answer: CachedResponse, now: float, *, replayed: bool = False, batched: bool = False
    ) -> float:
        """Record an answer that took `now` seconds in this run; return its cost, or 0 if it is unknown."""
        money = answer.money
        if money is None:
            money = self._money(answer.input_tokens, answer.cached_tokens, answer.output_tokens)
        entry = ledger.CallRecord(
            task.name,
            self._chat.model,
            input_tokens=answer.input_tokens,
            cached_tokens=answer.cached_tokens,
            output_tokens=answer.output_tokens,
            estimated=answer.estimated,
            money=money,
            seconds=answer.seconds,
            replayed=replayed,
            batched=batched,
            index=self._index,
        )
        ledger.record_call(entry, now)
        return money or 0.0

    def _needed(self, request: ChatRequest) -> int:
        """Return an upper estimate of the input tokens, or 0 if neither the budget nor a rate limit needs it."""
        needless = self._setting.budget is None and self._given.tokens_per_minute is None
        return 0 if needless else self._bound_input(request)

    def _bound_input(self, request: ChatRequest) -> int:
        hint = () if request.hinted else (Message("user", SCHEMA_HINT + request.schema),)
        return tokens.count_message_tokens((*request.messages, *hint), self._chat.model).bound

    def _bound(self, request: ChatRequest, needed: int, *, batched: bool = False) -> ledger.CallRecord:
        """Return the most that a request with `needed` input tokens can take, by what earlier answers took."""
        read = ceil(needed * self._input_excess[request.task].factor)
        written = ceil(request.max_tokens * self._output_excess.factor)
        money = self._money(read, 0, written, batched=batched)
        return ledger.CallRecord(
            request.task,
            self._chat.model,
            input_tokens=read,
            output_tokens=written,
            money=money,
            index=self._index,
        )

    def _see(self, request: ChatRequest, reply: Reply, needed: int) -> None:
        """Learn from the service's own counts how far an answer exceeded its bound."""
        self._input_excess[request.task].see(reply.input_tokens or 0, needed)
        self._output_excess.see(reply.output_tokens or 0, request.max_tokens)

    def _pay(self, task: Task[Any], request: ChatRequest, start: float | None, slot: ExitStack) -> CachedResponse:
        """Return a paid answer, asked for since `start`, or not recorded without it; `slot` gets that of the request.

        Money is reserved before each attempt, and each attempt that was or may have been charged is recorded.
        """
        needed = self._needed(request)

        def attempt() -> CachedResponse:
            answer: CachedResponse | EndpointFeatures = self._chat.form(request)
            while isinstance(answer, EndpointFeatures):
                answer = self._attempt(task, request, answer, needed, start, slot)
            return answer

        def wait(_: RequestProblem, seconds: float) -> None:
            ledger.count_outcome(task.name, ledger.RETRIED)
            self._setting.clock.sleep(seconds)

        try:
            return retry(attempt, self._given.retries, self._rng, wait)
        except RequestProblemError as error:
            problem = error.problem
        raise self.explain(task, problem)

    def _attempt(
        self,
        task: Task[Any],
        request: ChatRequest,
        form: EndpointFeatures,
        needed: int,
        start: float | None,
        slot: ExitStack,
    ) -> CachedResponse | EndpointFeatures:
        """Send a request in a form; return the answer, or the form to try next. Raises RequestProblemError.

        The slot of an answered request goes to `slot`. More threads reserve money than there are slots: an answer that
        came while this one waited for its slot may show that more must be reserved. Then it is to try the same form.
        """
        budget = self._setting.budget
        with ExitStack() as stack:
            if budget is not None and not self._output_excess.answered.is_set():
                stack.enter_context(self._first_answer)  # one request shows whether the service keeps to max_tokens
                if self._output_excess.answered.is_set():
                    stack.close()
            with reserve_money(budget, lambda: self._bound(request, needed).money) as booking:
                try:
                    with ExitStack() as own_slot:
                        used = own_slot.enter_context(self._limits.slot(needed + request.max_tokens))
                        if (self._bound(request, needed).money or 0.0) > booking.reserved:
                            used(0)
                            return form
                        reply = self._chat.send(request, form)
                        if reply.input_tokens is not None and reply.output_tokens is not None:
                            used(reply.input_tokens + reply.output_tokens)
                        slot.push(own_slot.pop_all())
                except RequestProblemError as error:
                    self.record_failure(task, request, error, booking)
                    simpler = self._chat.simplify(form, error.problem)
                    if simpler is None:
                        raise
                    return simpler
                answer = self._count(request, reply)
                recording = ledger.unrecorded() if start is None else nullcontext()  # the log of payments has both
                with recording:
                    self._record(task, answer, time.perf_counter() - (start or 0.0))
                booking.pay(answer.money or 0.0)
                booking.when_settled(lambda: self._see(request, reply, needed))
            return answer

    def record_failure(
        self,
        task: Task[Any],
        request: ChatRequest | None,
        error: RequestProblemError,
        booking: Booking,
        *,
        batched: bool = False,
    ) -> None:
        """Record what an attempt without a usable answer cost, or can have cost at most. Without a request: nothing."""
        billed = error.billed
        if billed is not None:
            counts = (billed.input_tokens, billed.cached_tokens, billed.output_tokens)
            money = self._money(*counts, batched=batched)
            booking.pay(
                self._record(task, CachedResponse("", "", "", "text", *counts, False, money, 0.0, time.time()), 0.0)
            )
        elif error.problem.may_be_charged and request is not None:
            most = self._bound(request, self._bound_input(request), batched=batched)
            ledger.record_lost(most)
            booking.lose(most.money or 0.0)

    def explain(self, task: Task[Any], problem: RequestProblem) -> ServiceError:
        """Return the error for a failed request: an LLMError if other inputs may succeed, else a ServiceError."""
        model = f"{self._chat.provider}:{self._chat.model} at {self._chat.base_url}"
        if problem.refuses_key:
            return ServiceError(f"{model} rejects the API key, {problem}. Check {self._given.key_variable}.")
        if problem.knows_no_such:
            hint = f"Check --llm and OPENAI_BASE_URL.{suggest_address(self._chat.base_url)}"
            return ServiceError(f"{model} has no such model or address, {problem}. {hint}")
        if problem.out_of_quota:
            return ServiceError(f"{model} needs a payment: the account has no credit, {problem}.")
        tries = self._given.retries + 1
        if problem.away:
            hint = problem.advise(["OPENAI_BASE_URL"])
            return ServiceError(f"{model} cannot be reached (attempts: {tries}); {problem}.{hint}")
        if problem.passes:
            ledger.count_outcome(task.name, "unreachable")
            message = f"{task.name}: {model} did not answer (attempts: {tries}); {problem}. Try again later."
            return LLMError(message, "unreachable")
        if problem.asks_to_wait:
            return ServiceError(f"{model} asks to retry in {problem.retry_after:.0f} seconds, {problem}.")
        kind = "refusal" if "content_filter" in problem.code else "rejected"
        ledger.count_outcome(task.name, kind)
        return LLMError(f"{task.name}: {model} rejects the input, {problem}.", kind)

    def _count(self, request: ChatRequest | None, reply: Reply, *, batched: bool = False) -> CachedResponse:
        """Return the reply with token counts and cost; counts missing from the response are computed here."""
        model, read, written, estimated = self._chat.model, reply.input_tokens, reply.output_tokens, False
        if read is None:
            count = tokens.count_message_tokens(() if request is None else request.messages, model)
            read, estimated = count.tokens, count.estimated
        if written is None:
            count = tokens.count_text_tokens(reply.text, model)
            written, estimated = count.tokens, estimated or count.estimated
        answer = CachedResponse(
            text=reply.text,
            finish=reply.finish,
            refusal=reply.refusal,
            structure=reply.structure,
            input_tokens=read,
            cached_tokens=reply.cached_tokens,
            output_tokens=written,
            estimated=estimated,
            money=self._money(read, reply.cached_tokens, written, batched=batched),
            seconds=reply.seconds,
            at=time.time(),
        )
        return answer if request is None else _mark_cut(answer, request)

    def _money(self, read: int, cached: int, written: int, *, batched: bool = False) -> float | None:
        return self._setting.prices.money(self._chat.model, read, cached, written, batched=batched)


def _mark_cut(answer: CachedResponse, request: ChatRequest) -> CachedResponse:
    """Return an answer with the finish reason of a cut one if it reached its limit: some servers say `stop` then."""
    used = not answer.estimated and answer.output_tokens >= request.max_tokens
    return replace(answer, finish="length") if used and not answer.is_cut else answer
